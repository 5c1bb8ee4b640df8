"""A run notices revocations while it lasts, and no revocation is lost when several people revoke at once."""

import json
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from marin import Pinned
from marin.executor.other_drivers import RevocationWatch
from marin.plan.decision import Action
from marin.store.revocation import history, revoke, revoked, withdraw
from marin.store.store import Store
from tests.cli.test_cli import Command
from tests.store.test_lineage import of
from tests.support.project import EXPERIMENT, Project, wait_for
from tests.support.toy import Blob, Join, Write, execute, planned, run, statuses

GATED = EXPERIMENT.replace(
    '        ctx.out.write_text("text.txt", shout(self.text))\n',
    "        import pathlib, time\n"
    "        if self.text == 'slow':\n"
    "            pathlib.Path(GATE + '.started').touch()\n"
    "            while not pathlib.Path(GATE).exists(): time.sleep(0.02)\n"
    '        ctx.out.write_text("text.txt", shout(self.text))\n',
).replace(
    """    say = Say(text="hello", label="say")
    return Experiment(issue=1, question=__doc__, results={"end": Repeat(source=say, label="repeat")})
""",
    """    first, slow = Repeat(source=Say(text="one", label="one"), label="twice"), Say(text="slow", label="slow")
    both = Both(parts=(first, slow), label="both")
    return Experiment(issue=1, question=__doc__, results={"both": both, "apart": Repeat(source=slow, label="apart")})
""",
)
BOTH = """class Both(ExecutorStep[Blob], op="both"):
    parts: tuple[ExecutorStep[Blob], ...]

    def run(self, ctx: Context) -> Blob:
        ctx.out.write_text("text.txt", "".join(ctx[part].directory.read_text("text.txt") for part in self.parts))
        return Blob(bytes=1)


def build("""


def test_a_run_under_way_builds_on_nothing_that_is_revoked_meanwhile(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    source = GATED.replace("def build(", BOTH).replace("class Say", f"GATE = {str(gate)!r}\n\n\nclass Say", 1)
    looks_each_time = "import marin.store.ends\nmarin.store.ends.LOOK_SECONDS = 0.0\nif __name__"
    project = Project(tmp_path / "project", source.replace("if __name__", looks_each_time))
    marin = Command(project)
    running = subprocess.Popen(
        project.command(), env=project.environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    wait_for(tmp_path / "gate.started")
    marin("revoke", "say/one", "--because", "holds test items", "--prefix", str(project.store))
    gate.touch()
    said, _ = running.communicate(timeout=60)
    assert running.returncode == 1, said
    assert "repeat/twice, which both/both reads, was made from say/one" in said
    assert "holds test items" in said
    held = json.loads(marin("ls", "--json", "--prefix", str(project.store)))
    assert {each["step"] for each in held} == {"say/one", "repeat/twice", "say/slow", "repeat/apart"}


def test_an_equal_output_is_not_shared_once_it_is_revoked(tmp_path: Path) -> None:
    prefix = str(tmp_path / "store")
    first, other = Write(text="a", label="a"), Write(text="a", encoding="ascii", label="a")
    run(prefix, end=Join(parts=(first, first), label="end"))
    plan = planned(prefix, end=Join(parts=(other, other), label="end"))
    assert plan.of(plan.experiment.results["end"]).action is not Action.STOP
    revoke(Store(prefix), of(prefix, Join(parts=(first, first))), "joined wrongly")
    ended = execute(plan)
    (error,) = [result.error for result in ended.results.values() if result.error]
    assert error.startswith("RevokedBytes: toy-join/end wrote the very bytes")


def test_a_pin_of_what_was_revoked_since_the_plan_fails(tmp_path: Path) -> None:
    prefix, step = str(tmp_path / "store"), Write(text="a", label="a")
    run(prefix, end=step)
    record = of(prefix, step)
    pin: Pinned[Blob] = Pinned(at=record.attempt, digest=record.root, label="pin")
    plan = planned(prefix, end=Join(parts=(pin,), label="end"))
    revoke(Store(prefix), record, "bad")
    assert statuses(execute(plan)) == {"pinned/pin": "failed", "toy-join/end": "skipped"}


def test_withdrawals_and_second_revocations_are_seen_in_time(tmp_path: Path) -> None:
    prefix, now = str(tmp_path / "store"), [0.0]
    step = Write(text="a", label="a")
    run(prefix, end=step)
    store, record = Store(prefix), of(prefix, step)
    eye = RevocationWatch(store, {}, lambda: now[0])
    assert eye.untrusted(record) == ""
    revoke(store, record, "bad")
    assert eye.untrusted(record) == ""  # the watch has just looked
    now[0] += 1
    assert "bad" in eye.untrusted(record)
    withdraw(store, record, "fine")
    now[0] += 1
    assert eye.untrusted(record) == ""


def test_people_who_revoke_at_one_moment_are_all_heard(any_prefix: str) -> None:
    steps = [Write(text="a", label="a"), Write(text="b", label="b")]
    run(any_prefix, a=steps[0], b=steps[1])
    records = [of(any_prefix, step) for step in steps]

    def say(number: int) -> None:
        revoke(Store(any_prefix), records[number % 2], f"reason {number}")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(say, range(12)))
    store = Store(any_prefix)
    for parity, record in enumerate(records):
        said = [entry.because for entry in history(store, record.root, record.content)]
        assert sorted(said) == sorted(f"reason {n}" for n in range(12) if n % 2 == parity)
    assert len(revoked(store).all) == 2


def test_two_commands_at_one_moment_are_both_recorded(tmp_path: Path) -> None:
    project = Project(tmp_path / "project")
    marin = Command(project)
    project.run()
    where = ("--prefix", str(project.store))
    begun = [
        subprocess.Popen(
            [*marin.program(), "revoke", "say/say", "--because", because, *where],
            env=project.environment(),
            stdout=subprocess.DEVNULL,
        )
        for because in ("first", "second")
    ]
    assert [each.wait() for each in begun] == [0, 0]
    said = [json.loads(path.read_text())["because"] for path in (project.store / ".marin/revocations").iterdir()]
    assert sorted(said) == ["first", "second"]
