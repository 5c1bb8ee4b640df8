"""A file that moves with its code unchanged is no drift. A change that only looks like a move is drift."""

import ast
import inspect
import re
import sys
import textwrap

import pytest

from marin.fingerprint.fingerprint import CodeFingerprint, compare
from marin.fingerprint.source.normalize import normalise
from marin.fingerprint.source.syntax import Syntax
from marin.steps.value import digest
from tests.fingerprint.cases import HEAD, STEP
from tests.fingerprint.project import read_each, write

RULES = """
import logging
from lib.words import WORDS
LIMIT = 3
log = logging.getLogger(__name__)


class Rule:
    limit = LIMIT

    def keep(self, x):
        log.info("keeps")
        return [x, WORDS][: self.limit]


def keep(x):
    return Rule().keep(x)
"""
OTHER = "def keep(x):\n    return -x\n"
LIB = {
    "lib/__init__.py": "",
    "lib/rules.py": RULES,
    "lib/other.py": OTHER,
    "lib/twin.py": OTHER,
    "lib/words.py": "WORDS = ['a']\n",
    "lib/use.py": "import lib.rules\nfrom lib import other, twin\n\n"
    "def both(x):\n    return lib.rules.keep(x) + other.keep(x) + twin.keep(x)\n",
    "op.py": HEAD
    + "from lib.use import both\nfrom lib.rules import keep as k\n"
    + STEP.format(body="return both(k(1))"),
}


def edited(moves=(), **replaced):
    """Return LIB with files moved and texts replaced."""
    files = dict(LIB)
    for old, new in moves:
        files[new] = files.pop(old)
        for depth in range(1, new.count("/")):
            files.setdefault("/".join(new.split("/")[: depth + 1]) + "/__init__.py", "")
    return {
        name: _replaced(text, replaced.get(name.rpartition("/")[2].removesuffix(".py"), ()))
        for name, text in files.items()
    }


def _replaced(text, pairs):
    for old, new in pairs:
        assert old in text, old
        text = text.replace(old, new)
    return text


FOLLOW = {"use": [("lib.rules", "lib.text.rules")], "op": [("lib.rules", "lib.text.rules")]}
MOVE = [("lib/rules.py", "lib/text/rules.py")]
SWAP = [("lib/rules.py", "lib/one.py"), ("lib/other.py", "lib/two.py")]
CASES = {
    "a module that moved": (edited(MOVE, **FOLLOW), set()),
    "two modules that moved": (
        edited(
            SWAP,
            use=[
                ("import lib.rules\nfrom lib import other,", "import lib.one\nfrom lib import two as other,"),
                ("lib.rules", "lib.one"),
            ],
            op=[("lib.rules", "lib.one")],
        ),
        set(),
    ),
    "a function that moved, and uses what stayed": (
        edited(
            rules=[("\n\ndef keep(x):\n    return Rule().keep(x)\n", "")],
            use=[("lib.rules", "lib.more")],
            op=[("lib.rules", "lib.more")],
        )
        | {"lib/more.py": "from lib.rules import Rule\n\ndef keep(x):\n    return Rule().keep(x)\n"},
        set(),
    ),
    "a class, a function and a constant with new names": (
        edited(
            rules=[("Rule", "Bound"), ("def keep(x)", "def retain(x)"), ("LIMIT", "MOST")],
            use=[("lib.rules.keep", "lib.rules.retain")],
            op=[("import keep as k", "import retain as k")],
        ),
        set(),
    ),
    "a new name, and a change": (
        edited(
            rules=[("def keep(x):\n    return Rule", "def retain(x):\n    return -Rule")],
            use=[("lib.rules.keep", "lib.rules.retain")],
            op=[("import keep as k", "import retain as k")],
        ),
        {"added lib.rules.retain", "removed lib.rules.keep", "changed lib.use.both"},
    ),
    "a new name for one, and another under the old name": (
        edited(
            rules=[("def keep(x):", "def keep(x):\n    return [x]\n\n\ndef retain(x):")],
            use=[("lib.rules.keep", "lib.rules.retain")],
        ),
        {"changed lib.rules.keep"},
    ),
    "a module that moved and changed": (
        edited(MOVE, **FOLLOW, rules=[("LIMIT = 3", "LIMIT = 4")]),
        {"added lib.text.rules.LIMIT", "removed lib.rules.LIMIT"},
    ),
    "moved, and the two are taken for each other": (
        edited(
            SWAP,
            use=[("lib.rules", "lib.two"), ("lib import other,", "lib import one as other,")],
            op=[("lib.rules", "lib.one")],
        ),
        {"changed lib.use.both"},
    ),
    "another function of the same name": (
        edited(use=[("lib.rules", "lib.other"), ("lib import other,", "lib import rules as other,")]),
        {"changed lib.use.both"},
    ),
    "two of one name and text that moved": (
        edited(
            [("lib/other.py", "lib/one.py"), ("lib/twin.py", "lib/two.py")],
            use=[("import other, twin", "import one as other, two as twin")],
        ),
        {"added lib.one.keep", "added lib.two.keep", "removed lib.other.keep", "removed lib.twin.keep"},
    ),
    "a constant of the new module under the old name": (
        edited(
            rules=[("\n\ndef keep(x):\n    return Rule().keep(x)\n", "\n\ndef stays(x):\n    return Rule()\n")],
            use=[("lib.rules", "lib.more")],
            op=[("lib.rules", "lib.more"), ("both(k(1))", "both(k(1))")],
        )
        | {
            "lib/more.py": "class Rule:\n    def keep(self, x):\n        return 7\n\n"
            "def keep(x):\n    return Rule().keep(x)\n"
        },
        {"removed lib.rules.LIMIT", "removed lib.rules.Rule", "removed lib.rules.log", "added lib.more.Rule"},
    ),
}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("moved")
    projects = [
        write(folder / str(number), files)
        for number, files in enumerate([LIB, *(files for files, _ in CASES.values())])
    ]
    first, *others = read_each(projects)
    return first, dict(zip(CASES, others, strict=True))


@pytest.mark.parametrize("name", CASES)
def test_only_what_changed_counts(found, name):
    before, after = found[0], found[1][name]
    assert before.units, before.opaque
    assert after.units, after.opaque
    counted = {
        f"{change.kind} {change.name}" for change in compare(before, after) if change.kind not in ("moved", "gained")
    }
    assert before.digest != after.digest, "nothing moved"
    wanted = CASES[name][1]
    assert wanted <= counted
    assert bool(wanted) == bool(counted), counted


def fingerprint(**texts):
    named = {name.replace("__", "."): text for name, text in texts.items()}
    return CodeFingerprint({name: digest(text.encode()) for name, text in named.items()}, {}, sources=named)


USED = {"lib__a__LIMIT": "LIMIT = 3", "lib__b__LIMIT": "LIMIT = 5"}
KEEP = "def keep(x):\n    return x + LIMIT"


def test_a_function_that_finds_another_value_where_it_went_has_not_moved():
    before, after = fingerprint(**USED, lib__a__keep=KEEP), fingerprint(**USED, lib__b__keep=KEEP)
    assert {change.kind for change in compare(before, after)} == {"added", "removed"}
    imported = fingerprint(**USED, lib__b__keep=f"{KEEP}\n# LIMIT is lib.a.LIMIT")
    assert {change.kind for change in compare(before, imported)} == {"moved"}


def kinds(then, now, **others):
    return {change.kind for change in compare(fingerprint(lib__f=then, **others), fingerprint(lib__f=now, **others))}


@pytest.mark.parametrize(
    ("then", "now"),
    [
        ("def f(x):\n    a = x\n    return a", "def f(x):\n    b = x\n    return b"),
        ("def f(x):\n    return [a for a in x if a]", "def f(x):\n    return [b for b in x if b]"),
        ("def f(x):\n    a = [a for a in x]\n    return a", "def f(x):\n    b = [a for a in x]\n    return b"),
        (
            "def f(x):\n    a = 0\n\n    def g():\n        nonlocal a\n        a += x\n    g()\n    return a",
            "def f(x):\n    b = 0\n\n    def g():\n        nonlocal b\n        b += x\n    g()\n    return b",
        ),
        (
            "def f():\n    try:\n        return 1\n    except ValueError as a:\n        raise a",
            "def f():\n    try:\n        return 1\n    except ValueError as b:\n        raise b",
        ),
        ("f = {a: 1 for a in (1, 2)}", "f = {b: 1 for b in (1, 2)}"),
    ],
)
def test_a_local_variable_may_have_another_name(then, now):
    assert kinds(then, now) == set()


@pytest.mark.parametrize(
    ("then", "now"),
    [
        ("def f(a):\n    return a", "def f(b):\n    return b"),  # callers may write the name
        ("def f(x):\n    return lambda a=1: a", "def f(x):\n    return lambda b=1: b"),
        ("def f(a=x):\n    x = 1\n    return a", "def f(a=y):\n    y = 1\n    return a"),
        ("def f():\n    return [x for x in x]", "def f():\n    return [y for y in y]"),
        ("def f():\n    a = 1\n    return locals()", "def f():\n    b = 1\n    return locals()"),
        ("def f():\n    a = 1\n    return f'{a=}'", "def f():\n    b = 1\n    return f'{b=}'"),
        (
            "def f(sql):\n    a, b = sql\n    return sql('select a') + b",
            "def f(sql):\n    b, a = sql\n    return sql('select a') + a",
        ),
        ("def f(x):\n    a = 3\n    return x.query('y > @a')", "def f(x):\n    b = 3\n    return x.query('y > @a')"),
        (
            "def f():\n    try:\n        a = 1\n    except ImportError:\n        a = 2\n    return a",
            "def f():\n    try:\n        b = 1\n    except ImportError:\n        b = 2\n    return b",
        ),
        ("def f():\n    global a\n    a = 1", "def f():\n    global b\n    b = 1"),
        (
            "def f():\n\n    class C:\n        a = 1\n    return C",
            "def f():\n\n    class C:\n        b = 1\n    return C",
        ),
        ("def f():\n    a = b = 1\n    a += 1\n    return a", "def f():\n    a = b = 1\n    a += 1\n    return b"),
        ("def f():\n    a = 1\n    return g", "def f():\n    g = 1\n    return g"),
        ("class f:\n    a = 1", "class f:\n    b = 1"),
    ],
)
def test_any_other_name_counts(then, now):
    assert kinds(then, now, lib__x="x = 1", lib__y="y = 2", lib__g="g = 1") == {"changed"}


@pytest.mark.parametrize(
    ("then", "now"),
    [
        ({"lib.max": "def max(x):\n    return x", "lib.f": "def f(x):\n    return max(x)"},
         {"lib.most": "def most(x):\n    return x", "lib.f": "def f(x):\n    return max(x)"}),
        ({"lib.first": "def first(x):\n    return x", "lib.f": "def f(x):\n    return max(x)"},
         {"lib.max": "def max(x):\n    return x", "lib.f": "def f(x):\n    return max(x)"}),
        ({"lib.a": "def a(x):\n    return x", "lib.M": "M = {f.__name__: f for f in (a,)}"},
         {"lib.b": "def b(x):\n    return x", "lib.M": "M = {f.__name__: f for f in (b,)}"}),
        ({"lib.is_a": "def is_a(x):\n    return x", "lib.f": "def f():\n    return [*globals()]"},
         {"lib.b": "def b(x):\n    return x", "lib.f": "def f():\n    return [*globals()]"}),
        ({"lib.is_a": "def is_a(x):\n    return x", "lib.f": "def f(m):\n    return getattr(m, 'is_a', None)"},
         {"lib.b": "def b(x):\n    return x", "lib.f": "def f(m):\n    return getattr(m, 'is_a', None)"}),
        ({"lib.A": "class A:\n\n    def f(self):\n        self.__x = 1"},
         {"lib.B": "class B:\n\n    def f(self):\n        self.__x = 1"}),
        ({"model.run": "def run(x):\n    return x", "lib.f": "def f(model):\n    return model.run(1)"},
         {"model.go": "def go(x):\n    return x", "lib.f": "def f(model):\n    return model.go(1)"}),
        ({"lib.SQL": "SQL = 'select * from df'", "lib.f": "def f(x):\n    df = x\n    return sql(SQL)"},
         {"lib.SQL": "SQL = 'select * from df'", "lib.f": "def f(x):\n    dg = x\n    return sql(SQL)"}),
        ({"lib.a.f": "def f(x):\n    return lib.b.g(x)", "lib.b.g": "def g(x):\n    return x"}, {"lib.h": "h = 1"}),
    ],
)  # fmt: skip
def test_a_new_name_that_something_else_looks_up_counts(then, now):
    before, after = (
        CodeFingerprint({name: digest(text.encode()) for name, text in texts.items()}, {}, sources=texts)
        for texts in (then, now)
    )
    assert {change.kind for change in compare(before, after)} - {"moved"}


def variables(function):
    """Return the names that a function binds as plain variables, in its own scope alone."""
    nodes = list(ast.walk(function))
    inner = {name.id for each in nodes if isinstance(each, ast.comprehension) for name in names(each.target)}
    held = {each.arg for each in nodes if isinstance(each, ast.arg)} | inner
    return {each.id for each in names(function) if isinstance(each.ctx, ast.Store)} - held


def names(node):
    return [each for each in ast.walk(node) if isinstance(each, ast.Name)]


def test_one_use_under_another_name_counts_and_all_uses_do_not():
    """Test each local variable of real functions. A single renamed use would read or write another variable."""
    found = 0
    for function in ast.walk(ast.parse(inspect.getsource(textwrap))):
        if not isinstance(function, ast.FunctionDef):
            continue
        normalise([function], Syntax("lib", "lib"))
        then = ast.unparse(function)
        strings = " ".join(str(each.value) for each in ast.walk(function) if isinstance(each, ast.Constant))
        for name in sorted(variables(function) - {*re.findall(r"\w+", strings)} - sys.stdlib_module_names):
            uses = [each for each in names(function) if each.id == name]
            for some in (uses, *([use] for use in uses if len(uses) > 1)):
                for use in some:
                    use.id = "renamed"
                wanted = set() if len(some) == len(uses) else {"changed"}
                assert kinds(then, ast.unparse(function)) == wanted, (name, ast.unparse(function))
                for use in some:
                    use.id = name
            found += 1
    assert found > 10


def test_data_beside_code_is_compared_as_it_is():
    for then, now in (("one  # a", "one  # b"), ("# a is b", "# a is c"), ("one", "one ")):
        before, after = fingerprint(**{"lib/words.txt": then}), fingerprint(**{"lib/words.txt": now})
        assert {change.kind for change in compare(before, after)} == {"changed"}
        assert {change.kind for change in compare(before, fingerprint(**{"lib/text/words.txt": then}))} == {"moved"}
        assert {change.kind for change in compare(before, fingerprint(**{"lib/text/words.txt": now}))} != {"moved"}


def test_older_fingerprints_do_not_say_where_the_names_of_paths_lead():
    """An older fingerprint lists no names in a path that it followed. Every other difference counts."""
    here = "def here():\n    return Path(__file__).parent"
    now = f"{here}\n# Path is pathlib.Path\n# keep is lib.rules.keep"
    assert compare(fingerprint(lib__here=f"{here}\n# keep is lib.rules.keep"), fingerprint(lib__here=now)) == ()
    for then in (now.replace("pathlib.Path", "lib.Path"), f"{here}\n# keep is lib.rules.drop", here):
        assert {change.kind for change in compare(fingerprint(lib__here=then), fingerprint(lib__here=now))} == {
            "changed"
        }


def test_code_that_says_where_it_stands_has_not_moved():
    before, after = (fingerprint(**{f"lib.{name}.keep": "def keep(x):\n    return __name__"}) for name in "ab")
    assert {change.kind for change in compare(before, after)} == {"added", "removed"}
