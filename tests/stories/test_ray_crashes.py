"""Test kill -9 of a driver on Ray, its worker and both, at every boundary of a step, and a worker that stood still."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
import pytest

from marin.store.record import Record
from marin.store.store import Store
from tests.executor.test_ray import cluster_address, wait_until_gone
from tests.support.drivers import Drivers, Where, pause
from tests.support.project import ROOT, Project
from tests.support.racing import TAKEN, Race, records
from tests.support.visible import visible_by_name

pytestmark = pytest.mark.slow

OPERATORS = '''
import json
import os
import signal
import sys
import time
from pathlib import Path

from marin import Context, ExecutorStep
from tests.support.faults.hook import described
from tests.support.toy import Blob

STRIKE = Path({strike!r})


class Say(ExecutorStep[Blob], op="say"):
    text: str

    def run(self, ctx: Context) -> Blob:
        ctx.out.write_text("half.txt", str(os.getpid()))
        ctx.out.write_text("text.txt", self.text)
        return Blob(bytes=1)


class Repeat(ExecutorStep[Blob], op="repeat"):
    source: ExecutorStep[Blob]

    def run(self, ctx: Context) -> Blob:
        ctx.out.write_text("text.txt", ctx[self.source].directory.read_text("text.txt") * 2)
        return Blob(bytes=1)


def arm() -> None:
    """In a worker: at the operation that the file names, kill whom it names. Once."""
    told = json.loads(STRIKE.read_text())
    passed = not told["after"]

    def hook(event: str, arguments: tuple) -> None:
        nonlocal passed
        if (operation := described(event, arguments, told["store"])) is None:
            return
        changed = operation.split(" → ")[-1]
        if passed and operation.startswith(told["verb"]) and told["path"] in changed:
            try:
                os.close(os.open(f"{{STRIKE}}.worker-{{os.getpid()}}", os.O_CREAT))
                os.rename(STRIKE, f"{{STRIKE}}.struck")
            except FileNotFoundError:
                return
            if "driver" in told["victims"]:
                os.kill(told["driver"], signal.SIGKILL)
            if "group" in told["victims"]:
                os.killpg(told["driver"], signal.SIGKILL)
            if "worker" in told["victims"]:
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(600)  # until Ray sees that the driver is gone
        elif told["after"] and told["after"] in changed:
            passed = True

    sys.addaudithook(hook)


if "default_worker" in sys.argv[0] and STRIKE.exists():
    arm()
'''

EXPERIMENT = '''
"""Does it survive on Ray?"""
import json
import os
from pathlib import Path

from lib.operators import STRIKE, Repeat, Say
from marin.steps.experiment import Experiment
from marin.cli.experiment_main import executor_main
from marin.steps.scale import Scale


def build(scale: Scale) -> Experiment:
    say = Say(text="hello", label="say")
    return Experiment(issue=1, question=__doc__, results={"end": Repeat(source=say, label="end")})


if __name__ == "__main__":
    if STRIKE.exists():
        STRIKE.write_text(json.dumps(json.loads(STRIKE.read_text()) | {"driver": os.getpid()}))
    executor_main(build)
'''

BOUNDARIES = {  # (operation, its path, the path of an earlier operation): the strike comes before the operation
    "before the claim": ("link", ".marin/claims/", ""),
    "after the claim": ("write", "say/", ".marin/claims/"),
    "during run": ("write", "text.txt", ""),
    "after the data": ("rename", ".marin/record.json", ""),
    "before the point of no return": ("link", ".marin/ends/", ".marin/record.json"),
    "after it": ("write", ".marin/actions/", ".marin/ends/"),
}


class Struck(Project):
    """A project whose first step's worker strikes at a boundary. unobserved: a folder whose reads nobody notes."""

    unobserved: Path

    def __init__(self, folder: Path, boundary: str, *victims: str) -> None:
        super().__init__(folder, EXPERIMENT)
        self.strike = self.unobserved / "strike.json"
        (folder / "lib/operators.py").write_text(OPERATORS.format(strike=str(self.strike)))
        verb, path, after = BOUNDARIES[boundary]
        told = {"verb": verb, "path": path, "after": after, "victims": victims, "store": str(self.store)}
        self.strike.write_text(json.dumps(told))

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command(*arguments, backend="ray"),
            env=self.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def workers(self) -> list[psutil.Process]:
        """Return the workers that struck and still exist."""
        pids = [int(path.name.rpartition("-")[2]) for path in self.strike.parent.glob("strike.json.worker-*")]
        return [psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)]

    def visible(self) -> dict[str, Record]:
        return visible_by_name(Store(str(self.store)))

    def is_right(self) -> None:
        store, records = Store(str(self.store)), self.visible()
        assert {name: store.output(record).read_text("text.txt") for name, record in records.items()} == {
            "say/say": "hello",
            "repeat/end": "hellohello",
        }


@pytest.fixture(autouse=True)
def _shared_memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with TemporaryDirectory(dir="/dev/shm") as folder:
        monkeypatch.setattr(Struck, "unobserved", Path(folder), raising=False)
        yield


@pytest.fixture(scope="module")
def address(drivers: Drivers) -> Iterator[str]:
    """Yield a cluster's address. drivers: start before the cluster, and are none of its processes."""
    yield from cluster_address()


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_kill_9_of_a_worker_at_any_boundary(address: str, tmp_path: Path, boundary: str) -> None:
    """The driver retries the step, or takes the dead worker's committed output."""
    project = Struck(tmp_path / "project", boundary, "worker")
    driver = project.start("--address", address)
    said, _ = driver.communicate(timeout=120)
    assert driver.returncode == 0, said
    assert not project.strike.exists(), said
    project.is_right()
    assert project.visible()["say/say"].token == (1 if boundary in ("before the claim", "after it") else 2)


@pytest.mark.parametrize(
    ("victims", "boundary"),
    [(("driver",), boundary) for boundary in BOUNDARIES]
    + [(("driver", "worker"), boundary) for boundary in ("after the claim", "during run", "after the data")],
)
def test_kill_9_of_a_driver_at_any_boundary(
    address: str, tmp_path: Path, boundary: str, victims: tuple[str, ...]
) -> None:
    """The driver's worker, which stands still at the boundary, dies with the driver."""
    project = Struck(tmp_path / "project", boundary, *victims)
    driver = project.start("--address", address)
    said, _ = driver.communicate(timeout=120)
    assert driver.returncode == -signal.SIGKILL, said
    assert wait_until_gone(project.workers()) == []
    committed = boundary == "after it"
    assert project.visible().keys() == ({"say/say"} if committed else set())
    project.run()
    project.is_right()
    assert project.ran() == (["repeat/end"] if committed else ["say/say", "repeat/end"])


def test_kill_9_of_the_whole_group_leaves_no_process_behind(tmp_path: Path) -> None:
    """The driver has its own Ray."""
    project = Struck(tmp_path / "project", "after the data", "group")
    driver = project.start()
    cluster: dict[psutil.Process, str] = {}
    while driver.poll() is None:
        with suppress(psutil.NoSuchProcess):
            cluster |= {process: process.name() for process in psutil.Process(driver.pid).children(recursive=True)}
        time.sleep(0.05)
    said, _ = driver.communicate(timeout=120)
    assert driver.returncode == -signal.SIGKILL, said
    assert "raylet" in cluster.values()
    # Ray's agents notice the death a minute later, by a timer.
    assert wait_until_gone([process for process, name in cluster.items() if not name.endswith("Agent")]) == []
    assert project.visible() == {}
    project.run()
    project.is_right()


def test_a_worker_that_stood_still_is_stopped_and_its_driver_takes_the_others_result(
    address: str, tmp_path: Path, drivers: Drivers
) -> None:
    race, prefix = Race(tmp_path, layers=1, wide=2, gated=True), str(tmp_path / "store")
    command = [sys.executable, str(race.file), "--prefix", prefix, "--backend", "ray", "--address", address]
    late = subprocess.Popen(
        command,
        env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200"},
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    worker = race.wait_until_began("gated")
    race.close_for(worker)
    pause(worker)
    other = drivers.start(race.file, prefix, where=Where(hasty=True))
    race.wait_until_began("gated", times=2)
    race.gate.unlink()
    assert other.wait() == 0, other.said()
    os.kill(worker, signal.SIGCONT)
    said, _ = late.communicate(timeout=60)
    assert late.returncode == 0, said
    assert TAKEN in said
    assert "work/gated  another driver made it meanwhile" in said
    assert ("stopped:LeaseLost", worker) in race.began()
    assert {record.label: record.token for record in records(prefix)} == {"gated": 2, "0-0": 1, "0-1": 1}
