"""Mutate every constant, operator, condition and statement of a project: marin sees each change of the output.

The oracle runs each mutant: a mutant whose ``run()`` gives another result under an equal fingerprint would be
silently stale. Docstrings and annotations that nothing reads must change neither the result nor the fingerprint.
"""

import ast
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fingerprint.project import CHECKOUT, write

PROJECT = {
    "pyproject.toml": "",
    "op.py": '''
"""The operator."""
import importlib
import json
from functools import partial, reduce, singledispatch
from pathlib import Path
from typing import Any

import lib.table as tables
import lib.plugins
from lib import clean, rules
from lib.base import Shape, kinds
from lib.registry import TABLE
from lib.stars import *
from marin import Tokens
from marin.steps.step import ExecutorStep
from marin.steps.value import since, value

LIMIT = 10
SETTINGS = {"low": 1, "high": 9}
SETTINGS["middle"] = 5
SETTINGS.update(top=LIMIT - 1)
FIRST = len(SETTINGS)
SETTINGS["late"] = 11
HERE = Path(__file__).parent
thrice = rules.times(3)
shifted = partial(rules.shift, by=2)
WAYS = {"sum": sum, "most": lambda numbers: max(numbers) + 1}

if LIMIT > 5:
    def chosen(x: int) -> int:
        return x + 1
else:
    def chosen(x: int) -> int:
        return x - 1


def loud(times):
    """Makes a decorator."""
    def decorate(function):
        def inside(*args):
            return function(*args) * times
        return inside
    return decorate


@loud(2)
def decorated(x: int, more: int = 4) -> int:
    """Adds."""
    total: int = x + more
    return total


@singledispatch
def show(x):
    return "other"


@show.register(int)
def _(x):
    return f"int {x + 1}"


def counted(numbers, start=0):
    count = start
    for number in numbers:
        if number > SETTINGS["low"] and not number == SETTINGS["middle"]:
            count += number
        elif number < -3:
            break
    else:
        count -= 1
    while count > 100:
        count //= 2
    return count


def careful(x):
    try:
        return 10 // x
    except ZeroDivisionError:
        return rules.FLOOR
    finally:
        SEEN.append(x)


SEEN = []


def matched(pair):
    match pair:
        case [0, y]:
            return y
        case [x, y] if x > y:
            return x
        case _:
            return -1


@value("mutation_size")
class Size:
    width: int = 4
    height: int = since(2, default=5)

    def area(self) -> int:
        """Width by height."""
        return self.width * self.height


class Common:
    factor = 2

    def shared(self, x: int) -> int:
        return x * self.factor

    @property
    def twice(self) -> int:
        return self.factor * 2

    @staticmethod
    def fixed() -> int:
        return 17

    @classmethod
    def named(cls) -> str:
        return cls.__name__ + "!"


class Step(Common, ExecutorStep[Tokens], op="step"):
    """Makes something."""

    size: Any
    weight = 7

    def run(self, ctx):
        """Run it."""
        from lib.lazy import late

        plugin = importlib.import_module("lib.plugins.one")
        made = [clean(3), rules.keep(2), tables.rows(2), chosen(1), decorated(1), show(3), counted([1, 2, 5, 7])]
        made += [careful(0), careful(3), matched([0, 4]), matched([5, 1]), matched([1, 5]), thrice(2), shifted(5)]
        made += [WAYS["sum"]([1, 2]), WAYS["most"]([1, 2]), self.size.area(), self.shared(3), self.twice, self.fixed()]
        made += [self.named(), self.weight, late(2), starred(4), TABLE["a"](2), TABLE["b"](3)]
        made += [kinds["Square"](3).area()]
        made += [getattr(rules, "ke" + "ep")(0), plugin.go(2), (HERE / "lib" / "data.txt").read_text(), FIRST]
        made += [reduce(lambda a, b: a * b, [2, 3]), eval("rules.FLOOR + 1"), SEEN, sorted(SETTINGS.items())]
        made += [[n * n for n in range(3) if n], {k: v for k, v in SETTINGS.items() if v > 4}, Shape.made]
        made += [globals()["chosen"](6), tables.lookup("second"), tables.Mode.FAST.value, tables.make(3)(4)]
        return json.dumps(made, sort_keys=True)


def build():
    return Step(size=Size())
''',
    "lib/__init__.py": '"""A library."""\nfrom lib.text import clean\n',
    "lib/text.py": "from .deep import deeper\n\n\ndef clean(x: int) -> int:\n    return deeper(x) * 2\n\n\n"
    "def dirty(x):\n    return x + 1\n",
    "lib/deep.py": "OFFSET = 1\n\n\ndef deeper(x):\n    return x - OFFSET\n",
    "lib/rules.py": "FLOOR = 1\nUNUSED = 5\n\n\ndef keep(x):\n"
    "    return x > FLOOR\n\n\ndef drop(x):\n    return x < 0\n\n\n"
    "def times(k):\n    def by(x):\n        return k * x\n    return by\n\n\ndef shift(x, by=1):\n    return x + by\n",
    "lib/table.py": """
from enum import Enum

from lib.deep import deeper as rows

_LOOKUP = {"first": 1}
for _name, _number in (("second", 2), ("third", 3)):
    _LOOKUP[_name] = _number * 2


class Mode(Enum):
    FAST = "fast"
    SLOW = "slow"


def lookup(name):
    return _LOOKUP[name]


def make(k):
    class Made:
        extra = k + 1

        def __call__(self, x):
            return x * self.extra
    return Made()
""",
    "lib/registry.py": "TABLE = {}\n\n\ndef register(name, scale=1):\n    def add(f):\n"
    "        TABLE[name] = lambda x: f(x) * scale\n        return f\n    return add\n",
    "lib/plugins/__init__.py": "from lib.plugins import one, two\n",
    "lib/plugins/one.py": "from lib.registry import register\n\n\n@register('a', 3)\n"
    "def a(x):\n    return helper(x) + 1\n\n\n"
    "def helper(x):\n    return x * 5\n\n\ndef go(x):\n    return x + 40\n\n\ndef idle(x):\n    return x\n",
    "lib/plugins/two.py": "from lib.registry import register\n\n\ndef b(x):\n"
    "    return x + 2\n\n\n_entered = register('b')(b)\n",
    "lib/base.py": """
kinds = {}


class Shape:
    made = 0

    def __init_subclass__(cls):
        kinds[cls.__name__] = cls
        Shape.made += 2

    def __init__(self, side):
        self.side = side


class Square(Shape):
    def area(self):
        return self.side ** 2


class Line(Shape):
    def area(self):
        return 0
""",
    "lib/stars.py": "__all__ = ['starred']\n\n\ndef starred(x):\n"
    "    return x + 6\n\n\ndef unstarred(x):\n    return x\n",
    "lib/lazy.py": "def late(x):\n    import lib.deep as d\n\n    return d.deeper(x) + 30\n",
    "lib/never.py": "def never(x):\n    return x\n",
    "lib/data.txt": "beside",
}
SERVER = """
import json, os, signal, sys
import marin.fingerprint.of_step
from tests.support.toy import Write
marin.fingerprint.of_step.code_fingerprint(Write(text=""))  # reads the engine's source, for all that follow
for project in sys.stdin:
    project = project.strip()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        signal.setitimer(signal.ITIMER_PROF, 3)  # of CPU; a mutant may loop for ever, the signal ends it
        sys.path.insert(0, project)
        for part in ("digest", "output"):
            try:
                if part == "digest":
                    import op
                    step = op.build()
                    said = marin.fingerprint.of_step.code_fingerprint(step).digest
                else:
                    said = step.run(None)
            except BaseException as error:
                said = f"{type(error).__name__}: {error}"
            os.write(writing, json.dumps([part, said]).encode() + b"\\n")
        os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with open(reading, "rb") as pipe:
        print(json.dumps(dict(map(json.loads, pipe.read().splitlines()))), flush=True)
"""
REMOVED = (ast.Assign, ast.AugAssign, ast.Expr, ast.Return, ast.ImportFrom, ast.FunctionDef)
OPPOSITE = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult, ast.Pow: ast.Mult,
    ast.Gt: ast.LtE, ast.Lt: ast.GtE, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
}  # fmt: skip


def mutants(source: str) -> Iterator[tuple[str, str, bool]]:
    """Yield (the mutation in words, the mutated source, True if nothing may read the mutated part)."""
    tree = ast.parse(source)
    nodes = list(ast.walk(tree))
    docs = {id(each.body[0].value) for each in nodes if is_documented(each)}
    for index, node in enumerate(nodes):
        for what, change in changes_of(node):
            mutated = ast.parse(source)  # 20 times faster than a deep copy
            change(next(itertools.islice(ast.walk(mutated), index, None)))
            line = getattr(node, "lineno", 0)
            idle = id(node) in docs or what == "annotation"
            yield f"{line}: {what} {ast.unparse(node)[:40]!r}", ast.unparse(ast.fix_missing_locations(mutated)), idle


def is_documented(node: ast.AST) -> bool:
    kinds = (ast.FunctionDef, ast.ClassDef, ast.Module)
    return isinstance(node, kinds) and ast.get_docstring(node) is not None


def changes_of(node: ast.AST):
    if isinstance(node, ast.Constant) and not isinstance(node.value, (bytes, type(None))):
        held = node.value
        other = (not held) if isinstance(held, bool) else held + 1 if isinstance(held, int) else f"{held}~"
        yield "constant", lambda target: setattr(target, "value", other)
    if isinstance(node, ast.BinOp) and type(node.op) in OPPOSITE:
        yield "operator", lambda target: setattr(target, "op", OPPOSITE[type(node.op)]())
    if isinstance(node, ast.Compare) and type(node.ops[0]) in OPPOSITE:
        yield "comparison", lambda target: setattr(target, "ops", [OPPOSITE[type(node.ops[0])]()])
    if isinstance(node, (ast.If, ast.While)):
        yield "condition", lambda target: setattr(target, "test", ast.UnaryOp(ast.Not(), target.test))
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        for number in range(len(node.decorator_list)):
            yield "decorator", lambda target, number=number: target.decorator_list.pop(number)
    if isinstance(node, ast.arg) and node.annotation is not None:
        yield "annotation", lambda target: setattr(target, "annotation", ast.Name("object"))
    for name in ("body", "orelse", "finalbody"):
        body = getattr(node, name, None)
        for number, statement in enumerate(body if isinstance(body, list) else []):
            constant = isinstance(getattr(statement, "value", None), ast.Constant)
            if isinstance(statement, REMOVED) and not constant:
                yield "statement", lambda target, name=name, number=number: drop(target, name, number)


def drop(target: ast.AST, name: str, number: int) -> None:
    getattr(target, name)[number] = ast.Pass()


def every_mutant() -> Iterator[tuple[str, str, str, bool]]:
    for file, source in PROJECT.items():
        if file.endswith(".py"):
            for what, text, idle in mutants(source):
                yield file, what, text, idle


@pytest.fixture(scope="module")
def server():
    environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": str(CHECKOUT)}
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )

    def ask(project: Path) -> dict[str, str]:
        process.stdin.write(f"{project}\n")
        process.stdin.flush()
        return json.loads(process.stdout.readline())

    yield ask
    process.stdin.close()
    process.wait()
    process.stdout.close()


@pytest.mark.parametrize(
    ("some", "enough"), [(60, 25), pytest.param(None, 200, marks=pytest.mark.slow)], ids=["some", "all"]
)
def test_what_changes_the_output_changes_the_fingerprint(server, tmp_path, some, enough):
    every = list(every_mutant())
    chosen = every[:: len(every) // some] if some else every
    plain = {file: ast.unparse(ast.parse(text)) if file.endswith(".py") else text for file, text in PROJECT.items()}
    project = write(tmp_path / "project", plain)
    before = server(project)
    assert before["output"].startswith("["), before
    assert len(before["digest"]) == 64, before
    assert server(project) == before
    missed, needless, seen = [], [], 0
    for file, what, text, idle in chosen:
        (project / file).write_text(text)
        after = server(project)
        same = after["digest"] == before["digest"]
        if after.get("output") != before["output"]:
            seen += 1
            missed += [f"{file}:{what}"] if same else []
        if idle and not same:
            needless.append(f"{file}:{what}")
        (project / file).write_text(plain[file])
    assert missed == []
    assert needless == []
    assert seen > enough
