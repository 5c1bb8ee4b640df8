"""Source, annotations and docstrings count exactly where the code reads them."""

from dataclasses import replace

import pytest

from marin.fingerprint.fingerprint import CodeFingerprint, compare
from tests.fingerprint.project import changes, read_each
from tests.fingerprint.seen import Seen, edited_projects

NOT = {"changes": ()}
POINT = "@dataclass\nclass Point:\n    x: int = 0\n"
LINE = "@dataclass\nclass Line:\n    start: 'Point | None' = None\n"
PARSED = "def parsed(kind, data): return TypeAdapter(kind).validate_python(data)\n"
SIZE = {"file": "op.py", "old": "x: int", "new": "x: float"}
TEXT = {"file": "op.py", "old": "Says it", "new": "Says that"}

CASES = [
    # Source, and modules without
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
        "a dataclass within one given to pydantic",
        "return TypeAdapter(Line).validate_python({})",
        "from dataclasses import dataclass\nfrom pydantic import TypeAdapter\n" + POINT + LINE,
        changes=("op.Point",),
        **SIZE,
    ),
    Seen(
        "a dataclass that reaches pydantic by a variable",
        "return parsed(Line, {})",
        "from dataclasses import dataclass\nfrom pydantic import TypeAdapter\n" + POINT + LINE + PARSED,
        changes=("op.Point",),
        **SIZE,
    ),
    Seen(
        "a function given to pydantic",
        "return TypeAdapter(f)",
        "from pydantic import TypeAdapter\ndef f(x: int): return x",
        changes=("op.f",),
        **SIZE,
    ),
    Seen(
        "an annotation of a helper beside pydantic",
        "return parsed(f(1), {})",
        "from pydantic import TypeAdapter\ndef f(x: int): return x\n" + PARSED,
        **SIZE,
        **NOT,
    ),
    Seen(
        "a docstring of a helper beside pydantic",
        "return parsed(f(), {})",
        "from pydantic import TypeAdapter\ndef f():\n    '''Says it.'''\n    return int\n" + PARSED,
        **TEXT,
        **NOT,
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
    found = read_each(edited_projects(CASES, tmp_path_factory.mktemp("read")))
    return dict(zip((case.name for case in CASES), zip(found[::2], found[1::2], strict=True), strict=True))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_it_counts_exactly_where_it_is_read(pairs, case):
    before, after = pairs[case.name]
    assert before.units, before.opaque
    assert changes(before, after) == {f"changed {name}" for name in case.changes}


def test_an_older_fingerprint_differs_by_what_changed_alone(pairs):
    """An older fingerprint holds annotations and docstrings that no longer count."""
    now = pairs["a docstring of a helper beside pydantic"][0]
    said = "# f: 'Says it.'"
    sources = {name: f"{text}\n{said}" if name == "op.f" else text for name, text in now.sources.items()}
    units = {name: f"old {digest}" if name == "op.f" else digest for name, digest in now.units.items()}
    then = CodeFingerprint.from_json({"units": units, "packages": dict(now.packages), "sources": sources})
    assert compare(then, now) == ()
    changed = replace(then, sources=sources | {"op.f": f"def f():\n    return str\n{said}"})
    assert [(change.kind, change.name) for change in compare(changed, now)] == [("changed", "op.f")]
    assert compare(replace(then, format=now.format), now) != ()  # a fingerprint of today's format leaves nothing out
