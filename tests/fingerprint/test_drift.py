"""Test that an edit of one thing in a project changes exactly the right units."""

import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.fingerprint.project import changes, read, read_each, write

CHANGED = "def changed(x):\n    return x + 1\n"
TWICE = f"""from lib.first import changed
{CHANGED}
from lib.first import changed as chosen
from lib.second import changed as chosen
MOST = 2
from lib.first import *
"""
PROJECT = {
    "op.py": '''"""An operator."""
from __future__ import annotations

import json
import logging
from enum import Enum
from typing import TYPE_CHECKING, Any, cast

import lib.table as tables
import lib.twice as twice
from lib import clean, rules
from lib.shapes import Square
from lib.stars import *
from lib.wrap import loud
from marin import Tokens
from marin.steps.resources import CPU, Resources
from marin.steps.step import ExecutorStep
from marin.steps.value import execution, since, value

if TYPE_CHECKING:
    from marin.steps.step import Context

LIMIT = 10
THRESHOLD = 3
SPARE = 99
thrice = rules.times(3)
type Words = list[str]

try:
    import orjson_that_nobody_has as fast
except ImportError:
    fast = None

if LIMIT > 5:
    def conditional(x):
        return x + 1
else:
    def conditional(x):
        return x - 1


def limited(x, limit=LIMIT):
    return min(x, limit)


@loud
def decorated(x: int) -> int:
    """Docstring."""
    return x


def outer(x):
    def inner(y):
        return y * 2
    return inner(x)


def even(n):
    return n == 0 or odd(n - 1)


def odd(n):
    return n != 0 and even(n - 1)


def unrelated(x):
    return x


class Mode(Enum):
    FAST = "fast"
    SLOW = "slow"


Mode = value("mode")(Mode)


@value("size")
class Size:
    width: int = 4
    height: int = since(2, default=5)

    def area(self):
        return self.width * self.height


class Common:
    factor = 2

    def shared(self, x):
        return x * self.factor


class Step(Common, ExecutorStep[Tokens], op="step", version=1):
    """Makes something."""

    mode: Any
    size: Any
    text_field: str = "text"
    resources: Resources = execution(default=CPU)
    weight = 7

    def run(self, ctx: Context) -> Tokens:
        """Run it."""
        # a comment
        from lib.lazy import late

        total = clean(3)
        total += rules.keep(total) + tables.rows(total)
        total += limited(total) + decorated(total) + outer(total) + conditional(total)
        total += thrice(total) + late(total) + starred(total) + Square(2).area()
        total += THRESHOLD if even(4) else len([n for n in range(3)])
        total += twice.changed(total) + twice.chosen(total) + twice.MOST
        words: Words = []
        return cast(Any, json.dumps([total, words]))


def build():
    return Step(mode=Mode.FAST, size=Size())
''',
    "lib/__init__.py": "from lib.text import clean\n\nVERSION = 1\n",
    "lib/text.py": (
        "from lib.deep import deeper\n\n\ndef clean(x):\n    return deeper(x)\n\n\ndef dirty(x):\n    return x\n"
    ),
    "lib/text2.py": "def clean(x):\n    return x\n",
    "lib/deep.py": "def deeper(x):\n    return x - 1\n",
    "lib/rules.py": (
        "FLOOR = 1\n\n\ndef keep(x):\n    return x > FLOOR\n\n\n"
        "def times(k):\n    def by(x):\n        return k * x\n    return by\n"
    ),
    "lib/table.py": "from lib.deep import deeper as rows\n",
    "lib/shapes.py": (
        "class Shape:\n    sides = 0\n\n    def area(self):\n        return 0\n\n\n"
        "class Square(Shape):\n    def __init__(self, side):\n        self.side = side\n\n"
        "    def area(self):\n        return self.side ** 2\n"
    ),
    "lib/stars.py": "__all__ = ['starred']\n\n\ndef starred(x):\n    return x\n\n\ndef unstarred(x):\n    return x\n",
    "lib/wrap.py": (
        "import functools\n\n\ndef loud(f):\n    @functools.wraps(f)\n"
        "    def inside(*args):\n        return f(*args)\n    return inside\n\n\ndef quiet(f):\n    return f\n"
    ),
    "lib/lazy.py": "import numpy as np\n\n\ndef late(x):\n    return int(np.abs(x))\n",
    "lib/twice.py": TWICE,
    "lib/first.py": "MOST = 1\n\n\ndef changed(x):\n    return x\n",
    "lib/second.py": "def changed(x):\n    return -x\n",
    "lib/never.py": "def never(x):\n    return x\n",
}


@dataclass(frozen=True)
class Edit:
    name: str
    file: str
    old: str
    new: str
    expected: tuple[str, ...] = ()


EDITS = [
    # Edits that do not count
    Edit("comment", "op.py", "# a comment", "# another"),
    Edit("docstring of a method", "op.py", '"""Run it."""', '"""Run it\n        well."""'),
    Edit("docstring of a class", "op.py", '    """Makes something."""\n', ""),
    Edit("docstring of a module", "op.py", '"""An operator."""', '"""Another."""'),
    Edit("docstring of a helper", "lib/rules.py", "def keep(x):\n", 'def keep(x):\n    """Keep."""\n'),
    Edit("formatting", "op.py", "return min(x, limit)", "return min(\n        x,\n        limit,\n    )"),
    Edit("quotes", "op.py", 'text_field: str = "text"', "text_field: str = 'text'"),
    Edit("lines shifted", "op.py", "LIMIT = 10", "\n\n\nLIMIT = 10"),
    Edit("functions reordered", "lib/rules.py", "FLOOR = 1\n", "def early(x):\n    return x\n\n\nFLOOR = 1\n"),
    Edit("annotation of an argument", "op.py", "def decorated(x: int) -> int", "def decorated(x: 'float') -> object"),
    Edit("annotation of a field", "op.py", "text_field: str", "text_field: Any"),
    Edit("annotation of a local", "op.py", "words: Words = []", "words: list[Any] = []"),
    Edit("type alias", "op.py", "type Words = list[str]", "type Words = list[int]"),
    Edit("type of a cast", "op.py", "cast(Any, ", "cast(Tokens, "),
    Edit("type-only import", "op.py", "    from marin.steps.step import Context", "    from lib.never import Context"),
    Edit("import order", "op.py", "import json\nimport logging\n", "import logging\nimport json\n"),
    Edit("unused import", "op.py", "import logging\n", "import logging\nfrom lib.never import never\n"),
    Edit("two imports on one line", "op.py", "import json\nimport logging\n", "import json, logging\n"),
    Edit("absolute import made relative", "lib/text.py", "from lib.deep", "from .deep"),
    Edit(
        "re-export skipped",
        "op.py",
        "from lib import clean, rules",
        "from lib import rules\nfrom lib.text import clean",
    ),
    Edit("where it runs", "op.py", "execution(default=CPU)", "execution(default=Resources(cpus=2))"),
    Edit("unused constant", "op.py", "SPARE = 99", "SPARE = 100"),
    Edit(
        "unrelated function, same module", "op.py", "def unrelated(x):\n    return x", "def unrelated(x):\n    return 2"
    ),
    Edit(
        "unrelated function, reached module",
        "lib/text.py",
        "def dirty(x):\n    return x",
        "def dirty(x):\n    return 2",
    ),
    Edit("unrelated module", "lib/never.py", "return x", "return x + 1"),
    Edit("constant of a package that is only passed through", "lib/__init__.py", "VERSION = 1", "VERSION = 2"),
    Edit("name that a star import leaves out", "lib/stars.py", "def unstarred(x):", "def unstarred(x, y):"),
    Edit("how the step is built", "op.py", "size=Size())", "size=Size(width=9))"),
    # Edits that count
    Edit("body", "op.py", "total = clean(3)", "total = clean(4)", ("changed op.Step",)),
    Edit("local renamed", "op.py", "inner", "innermost", ("changed op.outer",)),
    Edit("number kind", "op.py", "clean(3)", "clean(3.0)", ("changed op.Step",)),
    Edit("class attribute", "op.py", "weight = 7", "weight = 8", ("changed op.Step",)),
    Edit("field default", "op.py", '= "text"', '= "body"', ("changed op.Step",)),
    Edit("field made a class variable", "op.py", "text_field: str", "text_field: ClassVar[str]", ("changed op.Step",)),
    Edit("new field", "op.py", "    weight = 7", "    extra: int = 0\n    weight = 7", ("changed op.Step",)),
    Edit("base class", "op.py", "factor = 2", "factor = 3", ("changed op.Common",)),
    Edit("helper, same module", "op.py", "min(x, limit)", "max(x, limit)", ("changed op.limited",)),
    Edit("helper, other module", "lib/rules.py", "x > FLOOR", "x >= FLOOR", ("changed lib.rules.keep",)),
    Edit("helper's helper", "lib/deep.py", "x - 1", "x - 2", ("changed lib.deep.deeper",)),
    Edit("constant", "op.py", "THRESHOLD = 3", "THRESHOLD = 4", ("changed op.THRESHOLD",)),
    Edit("constant, other module", "lib/rules.py", "FLOOR = 1", "FLOOR = 2", ("changed lib.rules.FLOOR",)),
    Edit("constant in a default", "op.py", "LIMIT = 10", "LIMIT = 11", ("changed op.LIMIT",)),
    Edit("default argument", "op.py", "limit=LIMIT", "limit=10", ("changed op.limited",)),
    Edit("recursion", "op.py", "odd(n - 1)", "odd(n - 3)", ("changed op.even",)),
    Edit("recursion, other side", "op.py", "even(n - 1)", "even(n - 3)", ("changed op.odd",)),
    Edit("decorator", "lib/wrap.py", "return f(*args)", "return -f(*args)", ("changed lib.wrap.loud",)),
    Edit("decorator removed", "op.py", "@loud\n", "", ("changed op.decorated", "removed lib.wrap.loud")),
    Edit("decorator added", "op.py", "def limited", "@loud\ndef limited", ("changed op.limited",)),
    Edit("closure value", "op.py", "rules.times(3)", "rules.times(4)", ("changed op.thrice",)),
    Edit("closure factory", "lib/rules.py", "k * x", "k + x", ("changed lib.rules.times",)),
    Edit("dataclass default", "op.py", "width: int = 4", "width: int = 5", ("changed op.Size",)),
    Edit("since default", "op.py", "default=5", "default=6", ("changed op.Size.height",)),
    Edit("value's method", "op.py", "self.width * self.height", "self.width", ("changed op.Size",)),
    Edit("enum member", "op.py", 'SLOW = "slow"', 'SLOW = "slower"', ("changed op.Mode",)),
    Edit("nested function", "op.py", "y * 2", "y * 3", ("changed op.outer",)),
    Edit("conditional definition", "op.py", "x + 1", "x + 2", ("changed op.conditional",)),
    Edit("condition", "op.py", "if LIMIT > 5", "if LIMIT > 6", ("changed op.conditional",)),
    Edit("method of an imported class", "lib/shapes.py", "** 2", "** 3", ("changed lib.shapes.Square",)),
    Edit("base of an imported class", "lib/shapes.py", "sides = 0", "sides = 1", ("changed lib.shapes.Shape",)),
    Edit("function-local import", "lib/lazy.py", "int(", "float(", ("changed lib.lazy.late",)),
    Edit(
        "function-local import swapped",
        "op.py",
        "from lib.lazy import late",
        "from lib.never import never as late",
        ("changed op.Step", "removed lib.lazy.late", "added lib.never.never", "package numpy"),
    ),
    Edit("star import", "lib/stars.py", "def starred(x):", "def starred(x, y):", ("changed lib.stars.starred",)),
    Edit(
        "import swapped, same name",
        "op.py",
        "from lib import clean, rules",
        "from lib import rules\nfrom lib.text2 import clean",
        ("changed op.Step", "removed lib.text.clean", "added lib.text2.clean"),
    ),
    Edit(
        "function and import of one name swapped",
        "lib/twice.py",
        f"from lib.first import changed\n{CHANGED}",
        f"{CHANGED}from lib.first import changed\n",
        ("changed op.Step",),
    ),
    Edit(
        "imports of one name swapped",
        "lib/twice.py",
        "from lib.first import changed as chosen\nfrom lib.second import changed as chosen",
        "from lib.second import changed as chosen\nfrom lib.first import changed as chosen",
        ("changed op.Step",),
    ),
    Edit(
        "constant and star import swapped",
        "lib/twice.py",
        "MOST = 2\nfrom lib.first import *\n",
        "from lib.first import *\nMOST = 2\n",
        ("changed op.Step",),
    ),
    Edit(
        "re-export moved",
        "lib/__init__.py",
        "from lib.text import clean",
        "from lib.text2 import clean",
        ("changed op.Step", "removed lib.text.clean", "added lib.text2.clean"),
    ),
    Edit(
        "module aliased to another",
        "op.py",
        "import lib.table as tables",
        "import lib.other as tables",
        ("changed op.Step", "added lib.other.rows"),
    ),
    Edit(
        "standard library swapped, same name", "op.py", "import json\n", "import pickle as json\n", ("changed op.Step",)
    ),
    Edit("builtin shadowed", "op.py", "SPARE = 99", "len = abs", ("added op.len",)),
    Edit(
        "statement that runs on import",
        "lib/deep.py",
        "def",
        "import os\nos.umask(2)\n\ndef",
        ("added lib.deep.<on import>",),
    ),
    Edit(
        "variable changed after its definition",
        "op.py",
        "LIMIT = 10",
        "LIMIT = 10\nLIMIT += 1",
        ("changed op.LIMIT", "changed op.limited", "changed op.conditional"),  # these take its value on import
    ),
]


def edited(edit: Edit, folder: Path) -> Path:
    files = {**PROJECT, "lib/other.py": "def rows(x):\n    return x\n"}
    assert edit.old in files[edit.file], f"{edit.name}: nothing to edit"
    files[edit.file] = files[edit.file].replace(edit.old, edit.new)
    if "ClassVar" in edit.new:
        files[edit.file] = files[edit.file].replace("TYPE_CHECKING, Any", "TYPE_CHECKING, Any, ClassVar", 1)
    return write(folder, files)


@pytest.fixture(scope="module")
def fingerprints(tmp_path_factory):
    """Return the fingerprints before any edit and after each. Every one has its own process and its own checkout."""
    folder = tmp_path_factory.mktemp("drift")
    projects = {"": write(folder / "before", PROJECT)}
    projects |= {edit.name: edited(edit, folder / f"edit-{number}") for number, edit in enumerate(EDITS)}
    return dict(zip(projects, read_each(list(projects.values())), strict=True))


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.name)
def test_edit_names_exactly_what_changed(fingerprints, edit):
    before, after = fingerprints[""], fingerprints[edit.name]
    assert changes(before, after) == set(edit.expected)
    assert (before.digest == after.digest) == (not edit.expected)


def test_all_that_is_reached_and_nothing_else(fingerprints):
    assert set(fingerprints[""].units) == {
        *(f"op.{name}" for name in ("Step", "Common", "Mode", "Size", "LIMIT", "THRESHOLD", "thrice", "conditional")),
        *(f"op.{name}" for name in ("limited", "decorated", "outer", "even", "odd")),
        *("lib.text.clean", "lib.deep.deeper", "lib.rules.keep", "lib.rules.times", "lib.rules.FLOOR"),
        *("lib.shapes.Square", "lib.shapes.Shape", "lib.stars.starred", "lib.wrap.loud", "lib.lazy.late"),
        *("lib.twice.changed", "lib.twice.MOST", "lib.first.changed", "lib.first.MOST", "lib.second.changed"),
        "marin.data.artifacts.Tokens",
    }
    assert fingerprints[""].opaque == ()
    assert set(fingerprints[""].packages) == {"numpy", "python"}


def test_same_everywhere(fingerprints, tmp_path):
    """Test other hash seeds, working directories and checkout locations, and a run as a script."""
    elsewhere = write(tmp_path / "some where" / "else", PROJECT)
    main = "\n\nif __name__ == '__main__':\n    import json, sys\n"
    main += "    from marin.fingerprint.of_step import code_fingerprint\n"
    main += "    print(json.dumps(code_fingerprint(build()).to_json()))\n"
    script = write(tmp_path / "script", {**PROJECT, "op.py": PROJECT["op.py"] + main})

    for again in (
        read(elsewhere, hash_seed="1"),
        read(elsewhere, hash_seed="2", cwd=tmp_path),
        read(script, command=[sys.executable, "op.py"]),
        read(script, command=[sys.executable, str(script / "op.py")], cwd=tmp_path),
    ):
        assert again == fingerprints[""]
        assert again.digest == fingerprints[""].digest
