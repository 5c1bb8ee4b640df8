"""Stores of every kind, and the order of the tests.

The servers start when the first test asks for one and end with the session.
"""

from __future__ import annotations

import functools
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest
from hypothesis import HealthCheck

from tests.parts import CHECK, SLOW, part
from tests.support.clusters import RayCluster, ray_cluster
from tests.support.drivers import Drivers
from tests.support.servers import Kind, StoreServer, environment_set

_TEMPORARY, _FAILED = pytest.StashKey[str](), pytest.StashKey[bool]()

# In the background or under nohup, the tests and their child processes would ignore these signals.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


# The first, unless --hypothesis-profile names the other. Its examples are the same every time. In both, how long one
# takes is the machine's business, and no run looks at what another one drew.
hypothesis.settings.register_profile(
    "check", derandomize=True, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)
hypothesis.settings.register_profile(
    "stress", print_blob=True, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)
hypothesis.settings.load_profile("check")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--order", type=int, default=None, metavar="SEED", help="in a random order, to see that none matters"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Give each training one thread, which is faster for small models, also beside other tests.

    The run has its own temporary folder for the tests and their child processes. It sees no files of earlier runs,
    and leaves its files only if a test failed.
    """
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
    os.environ.setdefault("RAY_worker_niceness", "0")  # Ray's own 15 starves its workers beside other tests
    if not hasattr(config, "workerinput"):
        folder = Path(tempfile.gettempdir(), f"marin-tests-{os.getuid()}")
        folder.mkdir(exist_ok=True)
        tempfile.tempdir = os.environ["TMPDIR"] = config.stash[_TEMPORARY] = tempfile.mkdtemp(dir=folder, prefix="")


def pytest_unconfigure(config: pytest.Config) -> None:
    if folder := config.stash.get(_TEMPORARY, None):
        if config.stash.get(_FAILED, False):
            print(f"what the failed tests wrote: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    session.config.stash[_FAILED] = exitstatus != pytest.ExitCode.OK


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the command that repeats a failure with random examples."""
    seed = config.getoption("--hypothesis-seed")
    for report in terminalreporter.getreports("failed") if seed else ():
        terminalreporter.write_line(f"repeat it: ./check --stress --seed {seed} {report.nodeid!r}")


@pytest.fixture(scope="session", autouse=True)
def _bytecode() -> None:
    """Let child processes keep the bytecode of their imports: a Ray that compiles its own takes 40 s of a core, not 11.

    They keep no bytecode of files that tests write, because tests edit a file twice within a second, which Python does
    not notice. A file stands in the place of the bytecode folder for these.
    """
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    prefix = os.environ.setdefault("PYTHONPYCACHEPREFIX", str(Path(sys.prefix, "bytecode")))
    place = Path(prefix, Path(tempfile.gettempdir()).parent.relative_to("/"))
    place.parent.mkdir(parents=True, exist_ok=True)
    place.touch()


# Files that take longest, longest first. Files of the slow part use no JAX in their own process, or start with JAX.
LONGEST = (
    *("test_two_promises.py", "test_rehearsal.py", "test_gangs.py", "test_crashes.py", "test_commands.py"),
    *("test_microanneal_command.py", "test_ray.py", "test_preempted.py", "test_objects.py", "test_ray_errors.py"),
    *("test_ray_clusters.py", "test_processes.py", "test_cli.py", "test_views.py", "test_outside.py"),
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests outside the check, and put the longest tests first, so that no process works alone at the end.

    Tests that start Ray or fork come before tests that bring JAX into a process, because JAX has threads.
    """
    for item in items:
        if (belongs := part(item.nodeid, is_slow=item.get_closest_marker(SLOW) is not None)) != CHECK:
            item.add_marker(belongs)
        elif item.get_closest_marker(SLOW):
            raise pytest.UsageError(
                f"tests/parts.py puts {item.nodeid} into the check, and its mark into the slow part"
            )

    def place(item: pytest.Item) -> tuple[int, bool]:
        name = item.path.name
        return LONGEST.index(name) if name in LONGEST else len(LONGEST), not _forks(item.path)

    items.sort(key=place)
    if (seed := config.getoption("--order")) is not None:
        draw = random.Random(seed)
        files = {path: draw.random() for path in dict.fromkeys(item.path for item in items)}
        # Keep files together: otherwise each test would make again the fixtures that a file's tests share.
        items.sort(key=lambda item: (files[item.path], draw.random()))


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
    """A store's server that follows rules; at first it has none."""
    held = _obedient(request.getfixturevalue(f"_{request.param}"))
    yield held
    held.obey()


@pytest.fixture(autouse=True)
def _local_copies(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, _sources: Path) -> None:
    """Copies of remote inputs are each test's own. Tests of one process share the content of source files."""
    copies = tmp_path_factory.mktemp("copies")
    (copies / "sources").symlink_to(_sources)
    monkeypatch.setenv("MARIN_CACHE", str(copies))


@pytest.fixture(scope="session")
def _sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sources")


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
    """A Ray cluster of two CPUs, with a token and a dashboard."""
    with ray_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running
