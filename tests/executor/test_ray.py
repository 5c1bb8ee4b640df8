"""Test attempts on real Ray: logs, capacity, killed workers and drivers, two drivers, milestones while training."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from marin import Accelerator, Checkpoint, Context, ExecutorStep, Resources, execution
from marin.errors import PlanError
from marin.executor.backends.private_ray import TOKEN_PATH
from marin.executor.run_results import Run
from marin.executor.scheduler import Scheduler
from marin.store.ends import How
from marin.store.files.verify import Check
from marin.store.inventory import Inventory
from marin.store.store import Store
from tests.support.project import ROOT, Project, gated, wait_for
from tests.support.toy import Blob, Fail, Join, Write, checkpoint, planned, statuses

pytestmark = pytest.mark.slow


class Speak(ExecutorStep[Blob], op="toy-speak"):
    def run(self, ctx: Context) -> Blob:
        print("said on stdout")
        print("said on stderr", file=sys.stderr)
        subprocess.run(["echo", "said by a child"], check=True)
        ctx.log("said to the log")
        ctx.out.write_text("text.txt", "x")
        return Blob(bytes=1)


class Die(ExecutorStep[Blob], op="toy-die"):
    """A step whose worker is killed with -9 in the middle, ``times`` times."""

    times: int
    journal: str = execution(default="")

    def run(self, ctx: Context) -> Blob:
        deaths = Path(self.journal)
        before = len(deaths.read_text()) if deaths.exists() else 0
        ctx.out.write_text(f"attempt-{before}.txt", "half")
        if before < self.times:
            with deaths.open("a") as handle:
                handle.write("x")
            os.kill(os.getpid(), signal.SIGKILL)
        ctx.out.write_text("text.txt", "whole")
        return Blob(bytes=before)


class Publish(ExecutorStep[Checkpoint], op="toy-publish-on-ray"):
    """Publish the milestone, then wait until a reader of the milestone opens the gate.

    dies: the worker is killed once, after publishing.
    """

    gate: str = execution(default="")
    dies: bool = execution(default=False)

    def at(self, step: int) -> "Published":
        return Published(of=self, step=step, label=f"{self.label}@{step}")

    def run(self, ctx: Context) -> Checkpoint:
        kept = ctx.state / "step-2"
        kept.write_text("count.txt", "2")
        died = Path(f"{self.gate}.died")
        if 2 in ctx.milestones:  # the driver asks the next attempt for the milestone unless it has seen it
            ctx.publish(self.at(2), checkpoint(2), kept)
        else:
            assert died.exists()
        if self.dies and not died.exists():
            died.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        wait_for(Path(self.gate))
        ctx.out.write_text("count.txt", "4")
        return checkpoint(4)


class Published(ExecutorStep[Checkpoint], op="toy-published-on-ray"):
    of: Publish
    step: int

    @property
    def producer(self) -> Publish:
        return self.of

    def run(self, ctx: Context) -> Checkpoint:
        raise AssertionError("its training run publishes it")


class OpenGate(ExecutorStep[Blob], op="toy-open"):
    source: ExecutorStep[Checkpoint]
    gate: str = execution(default="")

    def run(self, ctx: Context) -> Blob:
        ctx.out.write_text("text.txt", ctx[self.source].directory.read_text("count.txt"))
        Path(self.gate).touch()
        return Blob(bytes=1)


class Alone(ExecutorStep[Blob], op="toy-alone", isolated=True):
    number: int

    def run(self, ctx: Context) -> Blob:
        ctx.out.write_text("text.txt", "x")
        return Blob(bytes=os.getpid())


class Squares(ExecutorStep[Blob], op="toy-squares"):
    upto: int

    def run(self, ctx: Context) -> Blob:
        ctx.out.write_text("text.txt", "x")
        return Blob(bytes=sum(ctx.map(square, range(self.upto))))


def square(number: int) -> int:
    return number * number


def cluster_address() -> Iterator[str]:
    """Yield the address of a cluster of one node with 4 CPUs, which drivers join. It ends with the iteration."""
    from ray.cluster_utils import Cluster

    before = psutil.Process().children(recursive=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "disabled")
        cluster = Cluster(
            initialize_head=True,
            head_node_args={"num_cpus": 4, "object_store_memory": 100 << 20, "include_dashboard": False},
        )
        yield cluster.address  # pyright: ignore[reportReturnType]
        cluster.shutdown()
    after = [process for process in psutil.Process().children(recursive=True) if not is_of_the_tests(process)]
    assert wait_until_gone([process for process in after if process not in before]) == []


def is_of_the_tests(process: psutil.Process) -> bool:
    """Return whether a process is a test server that forks drivers. It lives from its first use to the last test."""
    with suppress(psutil.Error):
        return any("tests.support." in part for part in process.cmdline())
    return False


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    yield from cluster_address()


def wait_until_gone(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Return the processes that still run after a minute."""
    _, alive = psutil.wait_procs(processes, timeout=60)
    return [process for process in alive if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]


def run_on(address: str, prefix: str, **results: ExecutorStep[Any]) -> Run:
    from marin.executor.backends.ray import RayBackend

    plan = planned(prefix, **results)
    plan.must_not_stop()
    return Scheduler(plan, RayBackend(address), lambda *_: None).execute()


def bytes_of(run: Run, step: ExecutorStep[Any]) -> int:
    record = run.results[step].record
    assert record is not None
    return record.facts["bytes"]


def test_a_graph_runs_on_ray_once_and_a_failure_spares_the_rest(address: str, prefix: str) -> None:
    import ray

    a, b = Write(text="hello", label="a"), Write(text="world", label="b")
    end, broken = Join(parts=(a, b), label="end"), Fail(source=a, label="broken")
    behind = Join(parts=(broken,), label="behind")
    first = run_on(address, prefix, end=end, behind=behind)
    assert statuses(first) == {
        "toy-write/a": "ran",
        "toy-write/b": "ran",
        "toy-join/end": "ran",
        "toy-fail/broken": "failed",
        "toy-join/behind": "skipped",
    }
    assert "the disk of dreams is empty" in first.results[broken].error
    record = first.results[end].record
    assert record is not None
    assert Store(prefix).output(record).read_text("text.txt") == "hello world"
    assert not ray.is_initialized()
    assert set(statuses(run_on(address, prefix, end=end)).values()) == {"cached"}


def test_what_an_attempt_and_its_children_print_is_in_its_log(address: str, prefix: str) -> None:
    spoken = run_on(address, prefix, end=Speak()).results[Speak()]
    lines = Path(prefix, spoken.log).read_text()
    for said in ("said on stdout", "said on stderr", "said by a child", "said to the log"):
        assert lines.count(said) == 1


POD = Accelerator(name="v4-2048", chips=1024, hosts=256, peak_flops=275e12)


@pytest.mark.parametrize(
    ("resources", "asked", "there"),
    [
        (Resources(cpus=5), "5 CPU", "4 CPU"),
        (
            Resources(accelerator=POD),
            "v4-2048 (256 hosts), each host with 1 CPU, 4 TPU",
            "no accelerator that Ray knows",
        ),
        (Resources(memory_gib=20_000), "20,000.0 GiB memory", "GiB memory"),
    ],
)
def test_what_no_node_can_give_is_refused_before_anything_runs(
    address: str, prefix: str, resources: Resources, asked: str, there: str
) -> None:
    import ray

    greedy = Join(parts=(Write(text="a", label="a"),), label="greedy", resources=resources)
    with pytest.raises(PlanError) as refused:
        run_on(address, prefix, end=greedy)
    said, _, had = str(refused.value).partition(";")
    assert "toy-join/greedy" in said
    assert asked in said
    assert there in had
    assert "--address" in had
    assert Inventory(Store(prefix)).known == set()
    assert not ray.is_initialized()


def test_a_killed_worker_is_retried_and_commits_once(address: str, prefix: str, tmp_path: Path) -> None:
    die = Die(times=1, journal=str(tmp_path / "deaths"), label="die")
    beside = Write(text="a", label="beside")
    done = run_on(address, prefix, end=Join(parts=(die, beside), label="end"))
    assert set(statuses(done).values()) == {"ran"}
    record = done.results[die].record
    assert record is not None
    assert record.token == 2
    assert Store(prefix).output(record).names() == ["attempt-1.txt", "text.txt"]
    assert Store(prefix).verify(record, Check.CHECKSUMS) == []


def test_a_worker_that_always_dies_is_a_failure_in_the_end(address: str, prefix: str, tmp_path: Path) -> None:
    die = Die(times=99, journal=str(tmp_path / "deaths"), label="die")
    done = run_on(address, prefix, end=die, other=Write(text="a", label="a"))
    assert statuses(done) == {"toy-die/die": "failed", "toy-write/a": "ran"}
    assert "4 attempts lost a process; the last one: its worker died" in done.results[die].error


@pytest.mark.parametrize("dies", [False, True], ids=["lives", "dies"])
def test_a_milestone_starts_its_dependent_while_the_run_goes_on(
    address: str, prefix: str, tmp_path: Path, dies: bool
) -> None:
    """The run ends only after the dependent opened the gate. If the dependent waited for the end, both would fail.

    A run that is killed after publishing does not publish the milestone again, because others may be reading it.
    """
    gate = str(tmp_path / "gate")
    publish = Publish(gate=gate, dies=dies, label="train")
    cooldown = OpenGate(source=publish.at(2), gate=gate, label="cooldown")
    done = run_on(address, prefix, end=publish, cooldown=cooldown)
    assert statuses(done) == dict.fromkeys(statuses(done), "ran"), done.results[publish].error
    assert (tmp_path / "gate").exists()
    assert (tmp_path / "gate.died").exists() is dies
    assert len(list(Path(prefix, "toy-published-on-ray").iterdir())) == 1
    record = done.results[publish.at(2)].record
    assert record is not None
    assert Store(prefix).output(record).read_text("count.txt") == "2"


def test_isolated_steps_have_processes_of_their_own_and_map_spreads_work(address: str, prefix: str) -> None:
    one, two, squares = Alone(number=1), Alone(number=2), Squares(upto=6)
    done = run_on(address, prefix, one=one, two=two, squares=squares)
    assert bytes_of(done, one) != bytes_of(done, two)
    assert bytes_of(done, squares) == sum(number * number for number in range(6))


def started(project: Project, *arguments: str) -> subprocess.Popen[str]:
    """Start a driver with its own local Ray in its own folder, as a user would."""
    return subprocess.Popen(
        [*arguments, "--prefix", str(project.store)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=project.folder.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def test_kill_9_of_the_driver_takes_its_cluster_along_and_the_next_run_goes_on_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = Path(tempfile.mkdtemp())  # a short path, because Ray's dashboard opens a socket below it
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setenv("HOME", str(temporary))
    project, gate = gated(tmp_path)
    driver = started(project, sys.executable, str(project.file))
    wait_for(Path(f"{gate}.started"))
    cluster = psutil.Process(driver.pid).children(recursive=True)
    [raylet] = [process for process in cluster if process.name() == "raylet"]
    token = Path(raylet.environ()[TOKEN_PATH])
    assert token.stat().st_mode & 0o777 == 0o600
    agents = [process for process in cluster if process.name().endswith("Agent")]  # end a minute later, by a timer
    driver.kill()
    driver.communicate()
    assert wait_until_gone([process for process in cluster if process not in agents]) == []
    assert Inventory(Store(str(project.store))).records == {}
    assert not token.exists()
    gate.touch()
    began = time.monotonic()
    project.run()
    assert time.monotonic() - began < 30  # much less than the claim's expiry of a minute
    assert project.ran() == ["say/say", "repeat/repeat"]
    assert [path.name for path in (project.store / "say").glob("*.0002/*.txt")] == ["half.txt", "text.txt"]


def test_two_drivers_each_with_its_own_ray_run_each_step_once(tmp_path: Path) -> None:
    """One driver runs the file. The other is ``marin run``, whose workers must find the modules beside the file."""
    project, gate = gated(tmp_path)
    marin = str(Path(sys.executable).with_name("marin"))
    first = started(project, sys.executable, str(project.file))
    wait_for(Path(f"{gate}.started"))
    second = started(project, marin, "run", str(project.file))
    assert second.stdout is not None
    said = ""
    while "held by" not in said:
        line = second.stdout.readline()
        assert line, f"the second driver ended: {said}"
        said += line
    clusters = [
        process for driver in (first, second) for process in psutil.Process(driver.pid).children(recursive=True)
    ]
    gate.touch()
    rest, _ = second.communicate(timeout=120)
    own, _ = first.communicate(timeout=120)
    assert (first.returncode, second.returncode) == (0, 0), own + said + rest
    assert len(list((project.store / "say").iterdir())) == 1
    assert len(list((project.store / "repeat").iterdir())) == 1
    assert wait_until_gone(clusters) == []


@pytest.mark.parametrize(("number", "whole"), [(signal.SIGINT, True), (signal.SIGTERM, False)])
def test_telling_the_driver_to_stop_stops_the_step_and_the_cluster_and_gives_the_claim_back(
    tmp_path: Path, number: signal.Signals, whole: bool
) -> None:
    """whole: signal every process of the foreground group, as a terminal does."""
    project, gate = gated(tmp_path)
    driver = started(project, sys.executable, str(project.file))
    wait_for(Path(f"{gate}.started"))
    cluster = psutil.Process(driver.pid).children(recursive=True)
    if whole:
        os.killpg(driver.pid, number)
    else:
        driver.send_signal(number)
    said, _ = driver.communicate(timeout=120)
    assert driver.returncode == 128 + number, said
    assert "Traceback" not in said
    found = Inventory(Store(str(project.store)))
    assert (found.records, found.claims) == ({}, {})
    assert [end.how for end in found.ends.values()] == [How.RELEASED]
    assert wait_until_gone(cluster) == []
    gate.touch()
    project.run()
    assert project.ran() == ["say/say", "repeat/repeat"]


def test_a_store_in_memory_never_starts_ray(tmp_path: Path) -> None:
    project = Project(tmp_path / "project")
    script = (
        "import sys, runpy; sys.argv=['x', '--prefix', 'memory://toy', '--backend', 'ray']\n"
        f"try: runpy.run_path({str(project.file)!r}, run_name='__main__')\n"
        "except SystemExit as end: assert end.code == 0, end.code\n"
        "assert 'ray' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], env=project.environment(), capture_output=True, check=True)
