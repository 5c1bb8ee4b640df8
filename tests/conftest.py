"""Stores of every kind, and the order of the tests.

The servers start when the first test asks for one and end with the session. What starts Ray comes first, because Ray
forks, and JAX, once imported, warns of every fork.
"""

from __future__ import annotations

import os
import signal
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


def pytest_configure(config: pytest.Config) -> None:
    """What tests start keeps no bytecode: they edit files again within a second, which Python does not notice."""
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What starts Ray first; then what takes longest, so that no process works on alone at the end."""

    def place(item: pytest.Item) -> tuple[bool, bool, bool]:
        name = item.path.name
        return "test_ray" not in name, name != "test_rehearsal.py", item.path.parent.name != "stories"

    items.sort(key=place)


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
