"""Test every control file with every kind of garbage and every command that reads. No command prints a traceback, and
each command that needs the file's content names the file."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

from marin.cli.commands import main
from marin.cli.exits import Exit
from marin.plan.acceptance import accept_planned
from marin.plan.decision import OnDrift
from marin.plan.plan import make_plan
from marin.steps.experiment_file import built_by, load_build
from marin.steps.scale import Scale
from marin.store.in_use import Beat
from marin.store.layout import claim_name
from marin.store.process import this_process
from marin.store.record import Record, WorkInProgress
from marin.store.revocation import revoke
from marin.store.store import Store
from tests.support.project import Project
from tests.support.toy import Write, run

EXPERIMENT = '''
"""Does it run?"""
from pathlib import Path

from marin import Context, ExecutorStep
from marin.steps.experiment import Experiment
from marin.steps.scale import Scale
from tests.support.toy import Blob, Fail, Write

LINES = Path({lines!r})


class Many(ExecutorStep[Blob], op="many"):
    """Reads so much from outside that a record holds only a digest of the list."""

    source: ExecutorStep[Blob]

    def outside(self) -> dict[str, str]:
        return {{line: "1" for line in LINES.read_text().split()}}

    def run(self, ctx: Context) -> Blob:
        ctx.out.write_text("text.txt", "many" * TIMES)
        return Blob(bytes=1)


TIMES = 2


def build(scale: Scale) -> Experiment:
    word = Write(text="word", label="word")
    return Experiment(
        issue=1,
        question=__doc__,
        results={{"many": Many(source=word, label="many"), "fail": Fail(source=word, label="fail")}},
    )
'''
DEEP = 100_000
GARBAGE: dict[str, bytes | None] = {
    "deep": b"[" * DEEP + b"]" * DEEP,
    "deep object": b'{"a":' * DEEP + b"1" + b"}" * DEEP,
    "empty": b"",
    "truncated": b'{"format": 1, "',
    "not UTF-8": b'{"format": 1, "who": "\xff\xfe"}',
    "surrogate": b'{"event": "\\udcff", "who": "\\udcff", "step": "\\udcff"}',
    "a list": b"[1, 2]\n",
    "other types": b'{"event": [1], "step": [], "status": {}, "who": 3, "todo": "x", "seconds": "y", "error": []}',
    "binary": bytes(range(256)),
    "huge numbers": b'{"format": 1e999, "token": ' + b"9" * 5000 + b', "todo": 1e999, "seconds": 1e999}',
    "a folder": None,  # root may read any file, but cannot read a folder as a file
}
COMMANDS: dict[str, list[str]] = {
    "plan": ["plan", "exp1_toy.py"],
    "run": ["run", "exp1_toy.py", "--backend", "inline", "--dry-run"],
    "explain": ["plan", "exp1_toy.py", "many/many"],
    "status": ["status"],
    "status of": ["status", "exp1_toy.py"],
    "ls": ["ls", "--files"],
    "cat": ["cat", "many/many"],
    "lineage": ["lineage", "many/many"],
    "audit bytes": ["audit", "--bytes"],
    "audit": ["audit"],
    "audit of": ["audit", "exp1_toy.py"],
    "gc": ["gc"],
    "run events": ["status", "latest"],
    "logs": ["logs", "many/many"],
}
PLANS = {"plan", "run", "explain", "audit of"}
READERS = {*PLANS, "ls", "cat", "lineage", "audit bytes", "audit", "gc"}


@dataclass(frozen=True)
class File:
    """A control file. needed: commands that must name the file. empty: marin treats an empty file as missing."""

    name: str
    needed: frozenset[str] = frozenset()
    empty: bool = True


def file(name: str, *needed: str, empty: bool = True) -> File:
    return File(name, frozenset(needed), empty)


FILES = {
    "record": file(".marin/ends/{many}.0002.json", *READERS, "status", "status of"),
    "replaced record": file(".marin/ends/{many}.0001.json", "lineage", "audit", "audit of"),
    "end without a result": file(".marin/ends/{fail}.0002.json", *READERS - {"explain", "cat"}, "status", "status of"),
    "ended claim": file(".marin/claims/{many}.0002.json"),
    "last claim": file(".marin/claims/{fail}.0003.json", *READERS - {"explain", "cat"}, "status", "status of"),
    "record in the output": file(
        "{output}/.marin/record.json", "ls", "cat", "audit bytes", "audit", "audit of", empty=False
    ),
    "revocation": file(".marin/revocations/{revocation}", *PLANS, "lineage", "audit", "gc", empty=False),
    "acceptance": file(".marin/accepted/{acceptance}", *PLANS, "lineage", "audit", empty=False),
    "state marker": file(".marin/state/{fail}/.marin/made_by.json", "plan", "run"),
    "code": file(".marin/code/{code}.json", "audit", "audit of"),
    "failure": file("{failed}/.marin/failure.json", "plan", "status", "status of", empty=False),
    "outside list": file(".marin/outside/{listing}.json"),
    "stamps": file(".marin/stamps/{stamped}"),
    "verified": file(".marin/verified/{verified}"),
    "needs of a run": file(".marin/uses/{uses}.json", "gc", empty=False),
    "beat of a run": file(".marin/uses/{uses}.beat", "gc", empty=False),
    "events": file(".marin/runs/{events}"),
}


@dataclass(frozen=True)
class Lab:
    """A store with files to damage. whole: the original content of each file."""

    folder: Path
    names: dict[str, str]
    whole: dict[str, bytes]

    def path(self, held: File) -> Path:
        return self.folder / "store" / held.name.format(**self.names)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """Return a store that holds every kind of control file."""
    folder = tmp_path_factory.mktemp("garbage")
    lines, script, prefix = folder / "lines.txt", folder / "exp1_toy.py", str(folder / "store")
    lines.write_text("\n".join(map(str, range(30))))
    script.write_text(EXPERIMENT.format(lines=str(lines)))
    for more in ((), ("--rebuild", "many")):
        call = ["run", str(script), "--prefix", prefix, "--backend", "inline", *more]
        assert CliRunner().invoke(main, call).exit_code == Exit.FAILED  # one of its steps fails
    store = Store(prefix)
    experiment = built_by(*load_build(str(script)), Scale.REHEARSAL)
    many, fail = experiment.results["many"], experiment.results["fail"]
    other = Write(text="bad", label="other")
    bad = run(prefix, end=other).results[other].record
    assert bad is not None
    revoke(store, bad, "bad")
    lines.write_text("\n".join(map(str, range(31))))
    plan = make_plan(experiment, store, on_drift=OnDrift.ACCEPT, because="a test")
    accept_planned(plan)
    record = plan.of(many).record
    assert isinstance(record, Record)
    read = {held.identity: made.root for held in fail.dependencies if (made := plan.of(held).record) is not None}
    store.mark_state(fail.identity, WorkInProgress(code=plan.today[fail].code.digest, inputs=read, outside={}))
    os.utime(folder / "store" / record.attempt / "text.txt", (1, 1))
    assert CliRunner().invoke(main, ["audit", "--bytes", "--prefix", prefix]).exit_code == Exit.DRIFT
    (uses, *_) = {name.partition(".")[0] for name in store.objects.list(".marin/uses")}
    store.objects.write(claim_name(fail.identity, 3), b"")  # a power cut leaves an empty file
    store.objects.write(f".marin/uses/{uses}.beat", Beat(holder=this_process(), since="today").to_json())
    folders = ("stamps", "verified", "runs", "revocations", "accepted")
    only = {name: store.objects.list(f".marin/{name}")[-1] for name in folders}
    names = {
        "many": many.identity, "fail": fail.identity, "output": record.attempt,
        "code": record.code, "failed": store.attempts("toy-fail")[-1], "listing": record.outside["in all"][-32:],
        "stamped": only["stamps"], "verified": only["verified"], "events": only["runs"],
        "revocation": only["revocations"], "acceptance": only["accepted"], "uses": uses,
    }  # fmt: skip
    whole = {what: (folder / "store" / held.name.format(**names)).read_bytes() for what, held in FILES.items()}
    made = Lab(folder, names, whole)
    for held in FILES.values():
        assert made.path(held).is_file(), held.name
    for command in COMMANDS:  # with undamaged files
        code, said = asked(made, command)
        assert code == (Exit.DRIFT if command.startswith("audit") else Exit.OK), (command, said)
    return made


def asked(lab: Lab, command: str) -> tuple[int, str]:
    """Return the exit code and the output without white space, because tables and terminals break names."""
    call = [*COMMANDS[command], "--prefix", str(lab.folder / "store")]
    call = [str(lab.folder / word) if word.endswith(".py") else word for word in call]
    done = CliRunner().invoke(main, call, env={"COLUMNS": "1000"})
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, "".join(done.output.split())


@pytest.mark.parametrize("what", FILES)
@pytest.mark.parametrize("garbage", GARBAGE)
def test_garbage_is_named_and_never_a_traceback(lab: Lab, what: str, garbage: str) -> None:
    held, content = FILES[what], GARBAGE[garbage]
    path = lab.path(held)
    whole = lab.whole[what]
    path.unlink(missing_ok=True)  # a verification replaces an earlier one
    try:
        path.mkdir() if content is None else path.write_bytes(content)
        for command in COMMANDS:
            code, said = asked(lab, command)
            assert code in (Exit.OK, Exit.FAILED, Exit.DRIFT, Exit.EXPERIMENT, Exit.STORE), (command, said)
            if command in held.needed and (content or content is None or not held.empty):
                assert path.name in said, (command, code, said)
    finally:
        path.rmdir() if content is None else path.unlink(missing_ok=True)
        path.write_bytes(whole)


def test_a_prefix_that_is_not_utf_8_is_a_prefix(tmp_path: Path) -> None:
    project = Project(tmp_path / "project")
    project.store = tmp_path / os.fsdecode(b"st\xffore")
    project.run("--only", "end")
    project.run("--rebuild", "say")
    for call in (["ls", "--json"], ["audit", "--bytes"], ["status"], ["status", "latest"], ["logs", "say"]):
        done = CliRunner().invoke(main, [*call, "--prefix", str(project.store)])
        assert done.exit_code == Exit.OK, done.output
    other = str(tmp_path / "other")
    done = CliRunner().invoke(main, ["mirror", "repeat", "--from", str(project.store), "--to", other])
    assert done.exit_code == Exit.OK, done.output
    assert json.loads(CliRunner().invoke(main, ["ls", "--json", "--prefix", other]).stdout)


@pytest.mark.parametrize("what", ["record", "events"])
def test_a_difference_needs_no_control_file(lab: Lab, what: str) -> None:
    """A separate test, because ``marin diff`` starts processes."""
    path = lab.path(FILES[what])
    path.write_bytes(GARBAGE["deep"] or b"")
    try:
        script = str(lab.folder / "exp1_toy.py")
        done = CliRunner().invoke(main, ["diff", script, script, "--prefix", str(lab.folder / "store")])
        assert done.exit_code == Exit.OK, done.output
    finally:
        path.write_bytes(lab.whole[what])
