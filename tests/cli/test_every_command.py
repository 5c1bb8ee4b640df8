"""Test every command as a new user meets it: narrow, wide, piped, without colours, with no store, with wrong names.

A command without a row here fails the first test.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from marin.cli.commands import LINES, module_of
from marin.cli.exits import Exit
from tests.support.forks import Ended, Forks
from tests.support.project import EXPERIMENT, WORDS

OK, USAGE, DRIFT, EXPERIMENT_ERROR, STORE_ERROR = Exit.OK, Exit.USAGE, Exit.DRIFT, Exit.EXPERIMENT, Exit.STORE
STEP = "say/" + "a label that is longer than most people would ever choose, with spaces"
FILE = "exp1_toy.py"
RUN = ("run", FILE, "--backend", "inline")
ADOPT = ("adopt", "--label", "mine", "--because", "a test")
# Calls on a full store, which all succeed.
CALLS: dict[str, list[tuple[str, ...]]] = {
    "new": [],  # makes a folder: tests/cli/test_new.py
    "plan": [  # --phases, of trainings: tests/cli/test_phases_command.py
        ("plan", FILE),
        ("plan", FILE, "--every-step", "--json"),
        ("plan", FILE, "repeat"),
        ("plan", FILE, STEP, "--json"),
    ],
    "run": [RUN, (*RUN, "--rebuild", "repeat", "--logs"), (*RUN, "--dry-run")],
    "status": [  # --health, of trainings: tests/cli/test_health_command.py
        ("status",),
        ("status", FILE),
        ("status", "--json"),
        ("status", "latest"),
        ("status", "-n", "1"),
    ],
    "logs": [("logs", "repeat"), ("logs", STEP, "--json")],
    "ls": [("ls",), ("ls", "--files"), ("ls", "--json")],
    "cat": [("cat", "repeat"), ("cat", "repeat", "--file", "text.txt"), ("cat", "repeat", "--json")],
    "diff": [("diff", FILE, "exp2_other.py"), ("diff", FILE, "exp2_other.py", "--markdown")],
    "serve": [],  # goes on until it is ended: tests/report/serve
    "lineage": [("lineage", "repeat"), ("lineage", STEP, "--down"), ("lineage", STEP, "--down", "--markdown")],
    "audit": [
        ("audit",),
        ("audit", FILE),
        ("audit", "repeat"),
        ("audit", "--json"),
        ("audit", "--bytes"),
        ("audit", "repeat", "--bytes", "--json"),
    ],
    "audit contamination": [],  # of text: tests/report/test_contamination.py
    "accept": [],
    "revoke": [("revoke", STEP, "--because", "a test", "--dry-run")],
    "adopt": [(*ADOPT, "words.txt", "--kind", "raw_files")],
    "mirror": [("mirror", "repeat", "--to", "other", "--dry-run")],
    "gc": [("gc",), ("gc", "--json"), ("gc", "repeat"), ("gc", "repeat", "--json")],
    "inspect": [],  # of trainings: tests/cli/test_inspect_command.py
    "compare": [
        ("compare", "marin 32b mantis", "OLMo 2 32B"),
        ("compare", "Llama 3.1 8B", "deeper starling", "--json"),
    ],
    "microanneal": [],  # of trainings: tests/cli/test_microanneal_command.py
    "submit": [("submit", FILE, "--dry-run")],
    # Commands about clusters: tests/cli/test_cluster_commands.py keeps a cluster.
    **{name: [] for name in LINES if name.startswith("cluster ")},
    "completion": [("completion", "bash"), ("completion", "zsh"), ("completion", "fish")],
}
# Wrong names and calls without sense: the call, its exit code, and a text that the message must hold.
type Wrong = tuple[tuple[str, ...], Exit, str]


def misspelt(*call: str, says: str = "repeat/repeat") -> Wrong:
    return call, EXPERIMENT_ERROR, says


WRONG: dict[str, list[Wrong]] = {
    "new": [
        (("new", "My-Study"), USAGE, "did you mean my_study?"),
        (("new", "lib"), EXPERIMENT_ERROR, "exists already"),
        misspelt("new", "experiment", "x", says="is no project"),
        (("new",), USAGE, "PROJECT"),
    ],
    "plan": [
        misspelt("plan", "exp1_toi.py", says=FILE),
        misspelt("plan", FILE, "repaet"),
        misspelt("plan", FILE, "--phases", says="trains nothing"),
        (("plan", FILE, "repeat", "--phases"), USAGE, "leave out STEP"),
        (("plan",), USAGE, "EXPERIMENT"),
    ],
    "run": [
        misspelt(*RUN, "--only", "ent", says="end"),
        misspelt(*RUN, "--rebuild", "repaet"),
        misspelt(*RUN, "--on-drift", "accept", says="--because"),
        ((*RUN, "--backend", "slurm"), USAGE, "inline"),
    ],
    "status": [
        misspelt("status", "exp1_toi.py", says=FILE),
        misspelt("status", "exp1_toi", says="exp1_toy"),
        misspelt("status", "repaet", "--health"),
        misspelt("status", "repeat", "--health", says="has no metrics.jsonl"),
        (("status", "--health"), USAGE, "TRAINING"),
        (("status", "-n", "0"), USAGE, "-n"),
    ],
    "logs": [misspelt("logs", "repaet"), misspelt("logs", "repeat", "--attempt", "77", says="there are 1")],
    "ls": [misspelt("ls", "repaet"), misspelt("ls", "--kind", "toy-blub", says="toy-blob")],
    "cat": [
        misspelt("cat", "repaet"),
        (("cat", "repeat", "--where", "text"), USAGE, "is no condition"),
        misspelt("cat", "repeat", "--file", "text.tx", says="text.txt"),
    ],
    "diff": [misspelt("diff", FILE, "exp3.py", says="exp3.py"), misspelt("diff", FILE, says="git")],
    "serve": [
        (("serve", "--port", "99999"), USAGE, "65535"),
        (("serve", "--prefix", "nowhere"), STORE_ERROR, "there is no store at"),
    ],
    "lineage": [misspelt("lineage", "repaet"), (("lineage", "repeat", "--up"), USAGE, "--up")],
    "audit": [
        misspelt("audit", "exp1_toi.py", says=FILE),
        misspelt("audit", "repaet"),
        misspelt("audit", "repaet", "--bytes"),
        (("audit", FILE, "repeat"), USAGE, "one kind at a time"),
        (("audit", "--days", "0"), USAGE, "--days"),
    ],
    "audit contamination": [
        (("audit", "contamination"), USAGE, "--against"),
        misspelt("audit", "contamination", "repaet", "--against", "words.txt"),
        misspelt("audit", "contamination", "repeat", "--against", "words.txt", says="wanted documents or tokens"),
        misspelt("audit", "contamination", "--against", "words.txt", says="not a suite"),
        misspelt("audit", "contamination", "--against", "suite.jsonl", says="holds no documents and no tokens"),
    ],
    "accept": [
        misspelt("accept", FILE, "repeat", "--because", "x", says="nothing to accept"),
        misspelt("accept", FILE, "repaet", "--because", "x"),
        misspelt("accept", FILE, says="marin plan"),
    ],
    "revoke": [misspelt("revoke", "repaet", "--because", "x"), misspelt("revoke", "repeat", says="--because")],
    "adopt": [
        ((*ADOPT, "nothing.txt", "--kind", "raw_files"), Exit.FAILED, "nothing.txt"),
        misspelt(*ADOPT, "words.txt", "--kind", "raw_fils", says="raw_files"),
        (("adopt", "words.txt"), USAGE, "--label"),
    ],
    "mirror": [misspelt("mirror", "repaet", "--to", "other"), (("mirror", "repeat"), USAGE, "--to")],
    "gc": [
        misspelt("gc", "--experiment", "exp1_toi.py", says=FILE),
        (("gc", "--only", "x"), USAGE, "expired"),
        misspelt("gc", "repaet"),
        misspelt("gc", STEP, says="--even-if-read"),
        (("gc", "repeat", "--now"), USAGE, "STEP"),
        (("gc", "--even-if-read", "--delete"), USAGE, "STEP"),
    ],
    "inspect": [
        misspelt("inspect", FILE, says="trains nothing"),
        misspelt("inspect", "exp1_toi.py", says=FILE),
    ],
    "compare": [
        misspelt("compare", "repaet", "OLMo 2 32B"),
        misspelt("compare", "OLMo 3 32B", "mantis", says="OLMo 2 32B"),
        misspelt("compare", "repeat", "mantis", says="wanted a checkpoint"),
        (("compare", "mantis"), USAGE, "at least two"),
    ],
    "microanneal": [
        misspelt("microanneal", "--checkpoint", "repaet", "--candidate", "words.txt"),
        misspelt("microanneal", "--checkpoint", "repeat", "--candidate", "words.txt", says="wants a checkpoint"),
        (("microanneal", "--checkpoint", "repeat"), USAGE, "--candidate"),
    ],
    "submit": [
        misspelt("submit", "exp1_toi.py", says=FILE),
        ((("submit", FILE, "--address", "127.0.0.1:1")), Exit.FAILED, "nothing answers there"),
    ],
    "cluster up": [(("cluster", "up", "nothing.yaml"), USAGE, "nothing.yaml")],
    "cluster down": [(("cluster", "down", "nothing.yaml"), USAGE, "nothing.yaml")],
    **{
        f"cluster {name}": [
            (("cluster", name, *more, "--address", "127.0.0.1:1"), Exit.FAILED, "nothing answers there")
        ]
        for name, *more in (("status",), ("jobs",), ("logs", "exp1"), ("dashboard",))
    },
    "completion": [(("completion", "tcsh"), USAGE, "fish")],
}
# Commands that need no existing store. The others report a missing store.
WITHOUT_STORE = {"plan", "compare", "diff", "run", "submit", "status", "adopt", "completion"}
# The former beginnings of command lines, and today's.
WAS: dict[tuple[str, ...], tuple[str, ...]] = {
    ("explain", FILE, "repeat"): ("plan", FILE, "repeat"),
    ("phases", FILE): ("plan", "--phases", FILE),
    ("runs", "latest"): ("status", "latest"),
    ("health", "repeat"): ("status", "--health", "repeat"),
    ("verify", "repeat"): ("audit", "--bytes", "repeat"),
    ("verify", "--bytes"): ("audit", "--every-byte"),
    ("rm", "repeat"): ("gc", "repeat"),
    ("rm", "--delete"): ("gc", "--only", "named", "--delete"),  # with an empty variable it must not delete others
    ("lineage", "up", "repeat"): ("lineage", "repeat"),
    ("lineage", "down", STEP): ("lineage", "--down", STEP),
}
COLOUR = re.compile(r"\x1b\[(?:\d+;)*(?:3\d|4\d|9\d|10\d)(?:;\d+)*m")


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    with Forks(*(f"marin.cli.{name}" for name in map(module_of, LINES))) as server:
        yield server


@pytest.fixture(scope="module")
def lab(forks: Forks, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with two experiments, and a store that holds the outputs of one experiment."""
    folder = tmp_path_factory.mktemp("commands") / "lab"
    (folder / "lib").mkdir(parents=True)
    (folder / "lib/__init__.py").write_text("")
    (folder / "lib/words.py").write_text(WORDS)
    (folder / "words.txt").write_text("one two\n")
    (folder / "suite.jsonl").write_text(
        '{"question": "How many wings have nine geese and two hens?", "answer": "22"}\n'
    )
    source = EXPERIMENT.replace('label="say"', f'label="{STEP.removeprefix("say/")}"')
    (folder / FILE).write_text(source)
    (folder / "exp2_other.py").write_text(source.replace('text="hello"', 'text="goodbye"'))
    ran = forks.marin(folder, *RUN)
    assert ran.code == 0, ran.said
    return folder


def test_every_command_is_here() -> None:
    assert list(CALLS) == list(WRONG) == list(LINES)


def unbroken(ended: Ended, expected: Exit) -> str:
    assert ended.code == expected, ended.said
    assert "Traceback" not in ended.said
    assert ended.said.strip()
    return ended.said


@pytest.mark.parametrize("command", CALLS)
def test_what_there_is(forks: Forks, lab: Path, command: str) -> None:
    """Tables fit a terminal of any width. A pipe gets whole lines without colours or trailing blanks."""
    for call in (*CALLS[command], (*command.split(), "--help")):
        for width in ("60", "80", "120"):
            said = unbroken(forks.marin(lab, *call, environment={"COLUMNS": width}), OK)
            for line in said.replace(STEP, "say").splitlines():
                # The terminal breaks sentences, names and paths, so that users can copy them whole.
                assert len(line) <= int(width) or not re.search(r"\S {3,}\S", line), (width, line)
        piped = unbroken(forks.marin(lab, *call, unset=("COLUMNS",), environment={"TERM": "xterm-256color"}), OK)
        assert "\x1b" not in piped
        plain = unbroken(forks.marin(lab, *call, environment={"NO_COLOR": "1", "FORCE_COLOR": "1"}), OK)
        assert not COLOUR.search(plain)


@pytest.mark.parametrize("command", CALLS)
def test_a_reader_that_leaves_early_is_no_error(forks: Forks, lab: Path, command: str) -> None:
    for call in (*CALLS[command], (*command.split(), "--help")):
        ended = forks.marin(lab, *call, reader_gone=True)
        assert ended.code in (OK, Exit.PIPE_CLOSED, 1 if call[-1] == "--help" else OK), ended.said
        assert "Traceback" not in ended.said
        assert "Error" not in ended.said


@pytest.mark.parametrize("command", CALLS)
def test_what_there_is_not(forks: Forks, lab: Path, command: str) -> None:
    for call, code, named in WRONG[command]:
        said = unbroken(forks.marin(lab, *call), code)
        assert named in said, said
        assert "\x1b" not in said


@pytest.mark.parametrize("command", CALLS)
@pytest.mark.parametrize("empty", [False, True], ids=["no store", "empty store"])
def test_no_store_and_an_empty_one(forks: Forks, lab: Path, command: str, empty: bool) -> None:
    prefix = lab / "empty" if empty else lab / "none"
    if empty:
        prefix.mkdir(exist_ok=True)
    for call in CALLS[command]:
        if command in ("new", "completion", "adopt") or call[0] == "run":
            continue
        asked = (*call, "--from" if command == "mirror" else "--prefix", str(prefix))
        ended = forks.marin(lab, *asked)
        assert "Traceback" not in ended.said
        assert ended.said.strip()
        if ended.code != OK:
            assert str(prefix) in ended.said or "step" in ended.said, ended.said
            assert ended.code in (EXPERIMENT_ERROR, STORE_ERROR), ended.said
        else:
            assert command in WITHOUT_STORE or empty, ended.said
        assert list(prefix.iterdir()) == [] if empty else not prefix.exists()


@pytest.mark.parametrize("earlier", WAS, ids=" ".join)
def test_an_earlier_name_works_and_says_the_new_one(forks: Forks, lab: Path, earlier: tuple[str, ...]) -> None:
    was, now = forks.marin(lab, *earlier), forks.marin(lab, *WAS[earlier])
    note, _, stderr = was.stderr.partition(" now\n")
    assert note.startswith(f"`marin {earlier[0]}")
    assert f" is `marin {WAS[earlier][0]}" in note
    assert (was.code, was.stdout, stderr) == (now.code, now.stdout, now.stderr)
