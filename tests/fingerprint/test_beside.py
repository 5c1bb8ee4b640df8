"""Files beside the code, annotations and docstrings: each counts exactly where the code reads it."""

from dataclasses import replace

import pytest

from tests.fingerprint.project import changes, read_each
from tests.fingerprint.seen import Seen, edited_projects

DATA = {"lib/words.txt": "one", "lib/other.txt": "one", "lib/deep/a.txt": "one", "lib/deep/b.txt": "two"}
WORDS = Seen("", "", "from pathlib import Path", DATA, "lib/words.txt", "one", "two", ("lib/words.txt",))
HERE = "from lib.here import HERE, load"


def reading(name: str, expression: str, **other) -> Seen:
    """lib/here.py has HERE, its folder, and load(), which gives the expression."""
    module = f"from pathlib import Path\nHERE = Path(__file__).parent\n\ndef load(name='x'):\n    return {expression}\n"
    files = {**DATA, "lib/here.py": module, **other.pop("files", {})}
    body = other.pop("body", "return load()")
    return replace(WORDS, name=name, body=body, top=HERE, files=files, **other)


NOT = {"changes": ()}
DEEP = {"file": "lib/deep/b.txt", "old": "two", "new": "three", "changes": ("lib/deep/",)}
POINT = "@dataclass\nclass Point:\n    x: int = 0\n"
SIZE = {"file": "op.py", "old": "x: int", "new": "x: float"}
TEXT = {"file": "op.py", "old": "Says it", "new": "Says that"}

CASES = [
    # Files
    reading("path / constant", "(HERE / 'words.txt').read_text()"),
    reading("open", "open(HERE / 'words.txt')"),
    reading("__file__ in place", "(Path(__file__).parent / 'words.txt').read_text()"),
    reading("with_name", "Path(__file__).with_name('words.txt').read_bytes()"),
    reading("joinpath", "HERE.joinpath('words.txt').open()"),
    reading("resolve and parents", "(Path(__file__).resolve().parents[0] / 'words.txt').read_text()"),
    reading("up and down", "(HERE.parent / 'lib' / 'words.txt').read_text()"),
    reading(
        "os.path",
        "__import__('os') and open(os.path.join(os.path.dirname(__file__), 'words.txt'))",
        files={
            "lib/here.py": "import os\nHERE = 1\n\ndef load():\n"
            "    return open(os.path.join(os.path.dirname(__file__), 'words.txt'))\n"
        },
    ),
    reading("the folder from elsewhere", "1", body="return (HERE / 'words.txt').read_text()"),
    reading(
        "a path held in a constant",
        "1",
        files={
            "lib/here.py": "from pathlib import Path\nHERE = Path(__file__).parent\nWORDS = HERE / 'words.txt'\n\n"
            "def load():\n    return WORDS.read_text()\n"
        },
    ),
    reading("a path given to a function", "len(HERE / 'words.txt')"),
    reading(
        "importlib.resources",
        "files('lib').joinpath('words.txt').read_text()",
        files={
            "lib/here.py": "from importlib.resources import files\nHERE = 1\n\ndef load():\n"
            "    return files('lib').joinpath('words.txt').read_text()\n"
        },
    ),
    reading(
        "importlib.resources, own package",
        "1",
        files={
            "lib/here.py": "from importlib import resources\nHERE = 1\n\ndef load():\n"
            "    return (resources.files(__package__) / 'words.txt').read_text()\n"
        },
    ),
    reading(
        "importlib.resources.read_text",
        "1",
        files={
            "lib/here.py": "from importlib import resources\nimport lib\nHERE = 1\n\ndef load():\n"
            "    return resources.read_text(lib, 'words.txt')\n"
        },
    ),
    reading(
        "pkgutil.get_data",
        "1",
        files={
            "lib/here.py": "import pkgutil\nHERE = 1\n\ndef load():\n    return pkgutil.get_data('lib', 'words.txt')\n"
        },
    ),
    reading("a file that comes later", "(HERE / 'late.txt').exists()", file="lib/words.txt", **NOT),
    reading("another file", "(HERE / 'words.txt').read_text()", file="lib/other.txt", **NOT),
    reading("only its name", "HERE.name + Path(__file__).stem", **NOT),
    reading("only named", "1", **NOT),
    reading("a computed name", "(HERE / 'deep' / name).read_text()", **DEEP),
    reading("an f-string", "open(HERE / 'deep' / f'{name}.txt')", **DEEP),
    reading("glob", "list((HERE / 'deep').glob('*'))", **DEEP),
    reading("a folder given to a function", "len(HERE / 'deep')", **DEEP),
    reading("a computed name in another folder", "(HERE / 'deep' / name).read_text()", **NOT),
    reading(
        "the source itself",
        "open(__file__).read()",
        file="lib/here.py",
        old="def load",
        new="# why\ndef load",
        changes=("lib/here.py",),
    ),
    Seen(
        "inspect.getsource",
        "import inspect\n        return inspect.getsource(keep)",
        "from lib.rules import keep",
        old="def drop",
        new="# why\ndef drop",
        changes=("lib/rules.py",),
    ),
    Seen(
        "a compiled module",
        "from lib.fast import f\n        return f()",
        "",
        {"lib/fast.so": "machine code"},
        "lib/fast.so",
        "machine",
        "other",
        ("lib/fast.so",),
    ),
    # Annotations
    Seen(
        "annotations that nothing reads", "return Point()", "from dataclasses import dataclass\n" + POINT, **SIZE, **NOT
    ),
    Seen(
        "get_type_hints",
        "return get_type_hints(Point)",
        "from dataclasses import dataclass\nfrom typing import get_type_hints\n" + POINT,
        changes=("op.Point",),
        **SIZE,
    ),
    Seen(
        "__annotations__",
        "return Point.__annotations__",
        "from dataclasses import dataclass\n" + POINT,
        changes=("op.Point",),
        **SIZE,
    ),
    Seen(
        "inspect.signature",
        "import inspect\n        return inspect.signature(f)",
        "def f(x: int): return x",
        changes=("op.f",),
        **SIZE,
    ),
    Seen(
        "a model of pydantic",
        "return M(x=1)",
        "from pydantic import BaseModel\nclass M(BaseModel):\n    x: int",
        changes=("op.M",),
        **SIZE,
    ),
    Seen(
        "a model within a model",
        "return M(p={})",
        "from pydantic import BaseModel\nclass P(BaseModel):\n    x: int\nclass M(BaseModel):\n    p: P",
        changes=("op.P",),
        **SIZE,
    ),
    Seen(
        "a dataclass given to pydantic",
        "return TypeAdapter(Point).validate_python({})",
        "from dataclasses import dataclass\nfrom pydantic import TypeAdapter\n" + POINT,
        changes=("op.Point",),
        **SIZE,
    ),
    Seen(
        "a class given to some package",
        "return click.echo(list[Point])",
        "import click\nfrom dataclasses import dataclass\n" + POINT,
        changes=("op.Point",),
        **SIZE,
    ),
    Seen(
        "a decorator of some package",
        "return f(1)",
        "import click\n@click.command()\ndef f(x: int): return x",
        changes=("op.f",),
        **SIZE,
    ),
    Seen(
        "singledispatch",
        "return show(1)",
        "from functools import singledispatch\n@singledispatch\ndef show(x): ...\n"
        "@show.register\ndef _(x: int): return 1",
        changes=("op._",),
        **SIZE,
    ),
    Seen("a module of jax", "return M(1)", "import equinox\nclass M(equinox.Module):\n    x: int", **SIZE, **NOT),
    Seen(
        "ClassVar",
        "return Point()",
        "from dataclasses import dataclass\nfrom typing import ClassVar\n" + POINT,
        file="op.py",
        old="x: int",
        new="x: 'ClassVar[int]'",
        changes=("op.Point",),
    ),
    Seen(
        "InitVar",
        "return Point()",
        "from dataclasses import InitVar, dataclass\n" + POINT,
        file="op.py",
        old="x: int",
        new="x: InitVar[int]",
        changes=("op.Point",),
    ),
    # Docstrings
    Seen("docstrings that nothing reads", "return f()", "def f():\n    '''Says it.'''\n    return 1", **TEXT, **NOT),
    Seen("__doc__", "return f.__doc__", "def f():\n    '''Says it.'''\n    return 1", changes=("op.f",), **TEXT),
    Seen(
        "getdoc",
        "return inspect.getdoc(f)",
        "import inspect\ndef f():\n    '''Says it.'''\n    return 1",
        changes=("op.f",),
        **TEXT,
    ),
    Seen(
        "a model's docstring",
        "return M.model_json_schema()",
        "from pydantic import BaseModel\nclass M(BaseModel):\n    '''Says it.'''",
        changes=("op.M",),
        **TEXT,
    ),
    # Order
    Seen(
        "a value taken between two changes",
        "return B",
        "A = 1\nA = A + 1\nB = A",
        file="op.py",
        old="A = A + 1\nB = A",
        new="B = A\nA = A + 1",
        changes=("op.B",),
    ),
    Seen(
        "a value taken around a statement",
        "return B",
        "T = {}\nB = len(T)\nT['a'] = 1",
        file="op.py",
        old="B = len(T)\nT['a'] = 1",
        new="T['a'] = 1\nB = len(T)",
        changes=("op.B",),
    ),
    Seen(
        "the environment before an import",
        "return np.x",
        "import os\nos.environ['A'] = '1'\nimport numpy as np",
        file="op.py",
        old="os.environ['A'] = '1'\nimport numpy as np",
        new="import numpy as np\nos.environ['A'] = '1'",
        changes=("op.<on import>",),
    ),
    Seen(
        "definitions in another order",
        "return f() + g()",
        "def f():\n    return 1\ndef g():\n    return 2\n",
        file="op.py",
        old="def f():\n    return 1\ndef g():\n    return 2\n",
        new="def g():\n    return 2\ndef f():\n    return 1\n",
        **NOT,
    ),
    # Looks like something else
    Seen(
        "not the main guard",
        "return A",
        "A = 1\nif __name__ != '__main__':\n    A = 2",
        file="op.py",
        old="A = 2",
        new="A = 3",
        changes=("op.A",),
    ),
    Seen(
        "not typing's TYPE_CHECKING",
        "return A",
        "TYPE_CHECKING = True\nif TYPE_CHECKING:\n    A = 2",
        file="op.py",
        old="A = 2",
        new="A = 3",
        changes=("op.A",),
    ),
    Seen(
        "not typing's overload",
        "return f(1)",
        "def overload(f): return f\n@overload\ndef f(x): return 1",
        file="op.py",
        old="return 1",
        new="return 2",
        changes=("op.f",),
    ),
    Seen(
        "not typing's cast",
        "return f(abs)",
        "from typing import cast\ndef f(cast): return cast(1, 2)",
        file="op.py",
        old="cast(1, 2)",
        new="cast(3, 2)",
        changes=("op.f",),
    ),
]


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    found = read_each(edited_projects(CASES, tmp_path_factory.mktemp("beside")))
    return dict(zip((case.name for case in CASES), zip(found[::2], found[1::2], strict=True), strict=True))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_it_counts_exactly_where_it_is_read(pairs, case):
    before, after = pairs[case.name]
    assert before.units, before.opaque
    assert changes(before, after) == {f"changed {name}" for name in case.changes}
