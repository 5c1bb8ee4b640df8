"""Stores of every kind, and the order of the tests.

The servers start when the first test asks for one and end with the session.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import signal
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.clusters import RayCluster, ray_cluster
from tests.support.drivers import Drivers
from tests.support.servers import Kind, StoreServer, environment_set

# Started in the background or by nohup, the tests would be deaf to these, and so would what they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_configure() -> None:
    """One thread a training is faster for models so small, also beside other tests."""
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")


@pytest.fixture(scope="session", autouse=True)
def _bytecode(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What tests start keeps the bytecode of what it imports: a Ray that compiles its own takes 40 s of a core, not 11.

    But none of what tests write: they edit files again within a second, which Python does not notice. A file stands
    where its folder would be.
    """
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    prefix = os.environ.setdefault("PYTHONPYCACHEPREFIX", str(Path(sys.prefix, "bytecode")))
    written = tmp_path_factory.getbasetemp()
    written = next((parent for parent in written.parents if parent.name.startswith("pytest-of-")), written)
    place = Path(prefix, written.relative_to("/"))
    if place.is_dir():
        shutil.rmtree(place, ignore_errors=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.touch()


# Files of the slow part that take a minute and more, longest first. None of them uses JAX in its own process.
LONGEST = (
    *("test_rehearsal.py", "test_gangs.py", "test_crashes.py", "test_commands.py", "test_microanneal_command.py"),
    *("test_ray.py", "test_preempted.py", "test_objects.py", "test_ray_errors.py", "test_ray_clusters.py"),
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest first, so that no process works on alone at the end; but what starts Ray or forks before what
    gives a process JAX, which has threads."""

    def place(item: pytest.Item) -> tuple[int, bool, bool]:
        name, folder = item.path.name, item.path.parent.name
        longest = LONGEST.index(name) if name in LONGEST else len(LONGEST)
        return longest, not _forks(item.path), folder not in ("stories", "training")

    items.sort(key=place)


@functools.cache
def _forks(file: Path) -> bool:
    """A file of tests whose process forks, itself or through Ray."""
    return re.search(r"\bos\.fork\b|\bcluster_address\b|\bcluster_utils\b|\bRayBackend\b", file.read_text()) is not None


KINDS = ("file", "memory", "gs", "s3")


def _serve(kind: Kind) -> Iterator[StoreServer]:
    with StoreServer(kind) as server, environment_set(server.environment):
        yield server


@pytest.fixture(scope="session")
def _gs() -> Iterator[StoreServer]:
    yield from _serve(Kind.GS)


@pytest.fixture(scope="session")
def _s3() -> Iterator[StoreServer]:
    yield from _serve(Kind.S3)


def _obedient(server: StoreServer) -> StoreServer:
    server.obey()
    return server


@pytest.fixture(params=["gs", "s3"])
def server(request: pytest.FixtureRequest) -> Iterator[StoreServer]:
    """A store's server that does what it is told; it is told nothing at first."""
    held = _obedient(request.getfixturevalue(f"_{request.param}"))
    yield held
    held.obey()


@pytest.fixture(autouse=True)
def _local_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies of remote inputs are each test's own."""
    monkeypatch.setenv("MARIN_CACHE", str(tmp_path / "copies"))


@pytest.fixture
def prefix(tmp_path: Path) -> str:
    """A fresh local store."""
    return str(tmp_path / "store")


@pytest.fixture
def remote_prefix(server: StoreServer) -> str:
    return server.new_prefix()


@pytest.fixture(params=[kind for kind in KINDS if kind != "memory"])
def shared_prefix(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A fresh store of each kind that several processes can share."""
    return _new_prefix(request, request.param, tmp_path)


@pytest.fixture(params=KINDS)
def any_prefix(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A fresh store of each kind in turn."""
    return _new_prefix(request, request.param, tmp_path)


def _new_prefix(request: pytest.FixtureRequest, kind: str, tmp_path: Path) -> str:
    if kind == "file":
        return str(tmp_path / "store")
    if kind == "memory":
        return f"memory://{uuid.uuid4().hex}"
    return _obedient(request.getfixturevalue(f"_{kind}")).new_prefix()


@pytest.fixture(scope="session")
def drivers() -> Iterator[Drivers]:
    """Starts many drivers at once."""
    with Drivers() as held:
        yield held


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RayCluster]:
    """Of two CPUs, with a token and a dashboard."""
    with ray_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running
