"""Test which steps re-run when step a of a chain a → b → c changes: the ideal column, cell by cell, as a user meets it.

Each row edits one thing in a project, then runs four commands, each in its own process. ``marin plan`` must find the
drift and name the units. ``marin plan`` of the step must show the difference. ``marin run`` must stop and start
nothing. ``marin run --on-drift rebuild`` must run exactly the row's steps.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.forks import Ended, Forks

EXPERIMENT = '''
"""Does it run?"""
from marin.steps.experiment import Experiment
from marin.steps.scale import Scale
from steps.a import A, Shout
from steps.rest import Join


def build(scale: Scale) -> Experiment:
    a = A(text="hello", how=Shout(), label="a")
    b = Join(source=a, label="b")
    return Experiment(issue=1, question=__doc__, results={"end": Join(source=b, label="c")})
'''
A = '''
"""The step that is edited."""
from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import lib.tables as tables
from lib import clean
from lib.plain import *
from lib.words import shout
from marin import Artifact, Context, ExecutorStep, value
from . import near


LIMIT = 40
SETTINGS = {"mark": "!"}
SETTINGS["end"] = "."
HERE = Path(__file__).parent


def times(k):
    def by(text):
        return text * k

    return by


twice = times(2)


def as_it_is(function):
    return function


def helper(text: str, mark: str = "?") -> str:
    """Marks a text."""
    # why it does
    return text[:LIMIT] + mark


def outer(text):
    def inner(part):
        return part.strip() + "'"

    return inner(text)


class Tone(Enum):
    LOUD = "loud"
    SOFT = "soft"


class Maker:
    joint = "-"

    def made(self, text):
        return self.joint.join([text, self.tail, self.size(3)])

    @property
    def tail(self):
        return "tail"

    @staticmethod
    def size(n):
        return str(n)


class Special(Maker):
    pass


@dataclass
class Pair:
    left: str = "l"


@value("chain_shout")
class Shout:
    loud: bool = True

    def apply(self, text):
        return shout(text) if self.loud else text


class Text(Artifact, kind="chain-text"):
    bytes: int


class A(ExecutorStep[Text], op="chain-a"):
    """Makes the first text."""

    text: str
    how: Shout
    weight = 7

    def run(self, ctx: Context) -> Text:
        from lib.late import late

        words = [self.how.apply(self.text), helper(self.text), clean(self.text), tables.rows(1), plain(2), late(3)]
        words += [twice("x"), outer(" y "), Special().made("z"), Pair().left, Tone.SOFT.value, SETTINGS["mark"]]
        words += [near.near(), (HERE / "words.txt").read_text(), json.dumps(self.weight), SETTINGS["end"]]
        ctx.out.write_text("text.txt", " ".join(words))
        return Text(bytes=1)
'''
REST = """
from marin import Context, ExecutorStep
from steps.a import Text


class Join(ExecutorStep[Text], op="chain-join"):
    source: ExecutorStep[Text]

    def run(self, ctx: Context) -> Text:
        ctx.out.write_text("text.txt", ctx[self.source].directory.read_text("text.txt") + "+")
        return Text(bytes=1)
"""
FILES = {
    "pyproject.toml": "",
    "chain.py": EXPERIMENT,
    "steps/__init__.py": "",
    "steps/a.py": A,
    "steps/near.py": "def near():\n    return 'near'\n",
    "steps/rest.py": REST,
    "steps/words.txt": "words beside the code",
    "lib/__init__.py": "from lib.text import clean\n",
    "lib/text.py": "from lib.deep import deep\n\n\ndef clean(x):\n    return deep(x)\n",
    "lib/deep.py": "MARK = '<'\n\n\ndef deep(x):\n    return MARK + x\n",
    "lib/tables.py": "def rows(n):\n    return 'row' * n\n",
    "lib/plain.py": "__all__ = ['plain']\n\n\ndef plain(n):\n    return 'plain' * n\n",
    "lib/late.py": "def late(n):\n    return 'late' * n\n",
    "lib/words.py": "def shout(text):\n    return text.upper()\n\n\ndef unrelated():\n    return 1\n",
}


@dataclass(frozen=True)
class Row:
    """The edits of one file, in order, the units that marin must name, and the steps that must run."""

    change: str
    file: str
    edits: Mapping[str, str]
    units: tuple[str, ...] = ()
    runs: str = ""


def row(change: str, old: str, new: str, *units: str, runs: str = "abc", file: str = "steps/a.py") -> Row:
    return Row(change, file, {old: new}, units, runs if units else "")


ROWS = [
    # Edits that do not count
    row("comment", "# why it does", "# why it really does"),
    row("docstring", '"""Marks a text."""', '"""Puts a mark behind\n    a text."""'),
    row("docstring of the step", '"""Makes the first text."""', '"""Makes it."""'),
    row("lines shifted", "LIMIT = 40", "\n\n\n\nLIMIT = 40"),
    row("formatting", "text[:LIMIT] + mark", "(\n        text[ :LIMIT]\n        + mark\n    )"),
    row("annotation", "text: str, mark: str", "text: object, mark: 'str | None'"),
    row("import order", "import json\nimport logging\n", "import logging\nimport json\n"),
    row("unused import", "import logging\n", "import logging\nimport re\n"),
    row("unrelated function, reached module", "return 1", "return 2", file="lib/words.py"),
    row("definitions reordered", "def near", "def far():\n    return 1\n\n\ndef near", file="steps/near.py"),
    # The same bytes: a runs, nothing else
    row("refactor, same bytes", "return text[:LIMIT] + mark", "short = text[:LIMIT]\n    return short + mark",
        "changed steps.a.helper", runs="a"),
    row("local variable renamed", "part", "piece", "changed steps.a.outer", runs="a"),
    row("decorator added", "def helper", "@as_it_is\ndef helper",
        "changed steps.a.helper", "added steps.a.as_it_is", runs="a"),
    row("constant that changes no byte", "LIMIT = 40", "LIMIT = 50", "changed steps.a.LIMIT", runs="a"),
    # Other bytes: the whole chain runs
    row("body, new bytes", '" ".join(words)', '"_".join(words)', "changed steps.a.A"),
    row("helper, same module", "+ mark", "+ mark + mark", "changed steps.a.helper"),
    row("constant, same module", "LIMIT = 40", "LIMIT = 3", "changed steps.a.LIMIT"),
    row("helper, other module", "text.upper()", "text.title()", "changed lib.words.shout", file="lib/words.py"),
    row("helper of a helper", "MARK + x", "x + MARK", "changed lib.deep.deep", file="lib/deep.py"),
    row("constant of a helper's module", "MARK = '<'", "MARK = '>'", "changed lib.deep.MARK", file="lib/deep.py"),
    row("helper through a re-export", "deep(x)", "deep(x) + x", "changed lib.text.clean", file="lib/text.py"),
    row("re-export moved", "from lib.text import clean", "from lib.deep import deep as clean",
        "changed steps.a.A", "removed lib.text.clean", runs="a", file="lib/__init__.py"),
    row("helper through import as", "'row'", "'line'", "changed lib.tables.rows", file="lib/tables.py"),
    row("helper through a star import", "'plain' * n", "'simple' * n", "changed lib.plain.plain", file="lib/plain.py"),
    row("helper through a relative import", "'near'", "'far'", "changed steps.near.near", file="steps/near.py"),
    row("helper imported inside run", "'late'", "'early'", "changed lib.late.late", file="lib/late.py"),
    row("default argument", 'mark: str = "?"', 'mark: str = "??"', "changed steps.a.helper"),
    row("closure value", "times(2)", "times(3)", "changed steps.a.twice"),
    row("closure factory", "text * k", "text * k + '~'", "changed steps.a.times"),
    row("nested function", "part.strip() + \"'\"", "part.strip()", "changed steps.a.outer"),
    row("base class", 'joint = "-"', 'joint = "/"', "changed steps.a.Maker"),
    row("property", 'return "tail"', 'return "head"', "changed steps.a.Maker"),
    row("static method", "return str(n)", "return str(n + 1)", "changed steps.a.Maker"),
    row("dataclass default", 'left: str = "l"', 'left: str = "left"', "changed steps.a.Pair"),
    row("class attribute", "weight = 7", "weight = 8", "changed steps.a.A"),
    row("enum member", 'SOFT = "soft"', 'SOFT = "softer"', "changed steps.a.Tone"),
    row("method of a value in a field", "shout(text) if", "shout(text) + '!' if", "changed steps.a.Shout"),
    row("global changed on import", 'SETTINGS["end"] = "."', 'SETTINGS["end"] = ";"', "changed steps.a.SETTINGS"),
    row("file beside the code", "words beside", "other words", "changed steps/words.txt", file="steps/words.txt"),
    Row("decorator that does something", "steps/a.py",
        {"return function\n": "return lambda *a: function(*a) + '*'\n", "def helper": "@as_it_is\ndef helper"},
        ("changed steps.a.helper", "added steps.a.as_it_is"), "abc"),
]  # fmt: skip
NAMES = {"chain-a/a": "a", "chain-join/b": "b", "chain-join/c": "c"}


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    with Forks() as server:
        yield server


@pytest.fixture(scope="module")
def committed(forks: Forks, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the project with its chain in the store."""
    folder = tmp_path_factory.mktemp("table") / "before"
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    assert ran(forks, folder) == "abc"
    assert ran(forks, folder) == ""
    return folder


def run(forks: Forks, folder: Path, *options: str) -> Ended:
    return forks.marin(folder, "run", "chain.py", "--backend", "inline", "--prefix", "store", *options)


def ran(forks: Forks, folder: Path, *options: str) -> str:
    """Return the steps that a run ran, by the events in the store."""
    before = set((folder / "store/.marin/runs").glob("*"))
    ended = run(forks, folder, *options)
    assert ended.code == 0, ended.said
    events = [
        json.loads(line)
        for path in set((folder / "store/.marin/runs").glob("*")) - before
        for line in path.read_text().splitlines()
    ]
    done = [event for event in events if event["event"] == "ended" and event.get("status") == "ran"]
    return "".join(sorted(NAMES[event["step"]] for event in done))


@pytest.mark.parametrize("edit", ROWS, ids=lambda edit: edit.change)
def test_exactly_the_ideal_steps_run(forks: Forks, committed: Path, tmp_path: Path, edit: Row) -> None:
    folder = tmp_path / "edited"
    shutil.copytree(committed, folder, symlinks=True)
    source = (folder / edit.file).read_text()
    for old, new in edit.edits.items():
        assert old in source, f"nothing to edit: {old!r}"
        source = source.replace(old, new)
    (folder / edit.file).write_text(source)

    planned = forks.marin(folder, "plan", "chain.py", "--prefix", "store", "--json")
    decisions = {NAMES[each["step"]]: each for each in json.loads(planned.said)["steps"]}
    assert [name for name, each in decisions.items() if each["drift"]] == (["a"] if edit.units else [])
    if not edit.units:
        assert planned.code == 0
        assert ran(forks, folder) == ""
        return

    assert planned.code == 3
    said = decisions["a"]["drift"]
    for unit in edit.units:
        kind, name = unit.split(" ", 1)
        word = {"changed": "changed", "added": "is now used", "removed": "is no longer used"}[kind]
        assert any(line.startswith(f"{name} ") and word in line for line in said), said
    stopped = run(forks, folder)
    assert (stopped.code, edit.units[0].split(" ", 1)[1] in stopped.said) == (3, True), stopped.said

    explained = forks.marin(folder, "plan", "chain.py", "chain-a/a", "--prefix", "store", "--json")
    shown = json.loads(explained.said)[0]["diffs"]
    for unit in edit.units:
        kind, name = unit.split(" ", 1)
        if "/" in name:
            continue  # a file: its record is a digest
        marks = {line[0] for line in shown[name].splitlines()[2:] if line[:1] in "+-"}
        assert marks & {"changed": {"+", "-"}, "added": {"+"}, "removed": {"-"}}[kind], shown[name]

    assert ran(forks, folder, "--on-drift", "rebuild") == edit.runs
    assert ran(forks, folder) == ""
