"""Test fingerprints within one process: caching, cost, and their form as data."""

import ast
import importlib
import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from marin.errors import CorruptRecord, ExperimentError
from marin.fingerprint.fingerprint import Change, CodeFingerprint, compare, source_diff
from marin.fingerprint.of_step import Fingerprinter, code_fingerprint
from marin.fingerprint.origin import LIBRARY
from marin.fingerprint.source.syntax import parse
from tests.fingerprint.project import write

OPERATORS = 12
MODULES = 40

OPERATOR = """
class Step{n}(ExecutorStep[Tokens], op="step{n}"):
    number: int
    called: str = "x"
    inputs: tuple[ExecutorStep[Tokens], ...] = ()
    size: object = Size()

    def run(self, ctx):
        from lib import {modules}
        return {calls}
"""
HEAD = """
from marin import Tokens
from marin.steps.step import ExecutorStep
from marin.steps.value import value

@value("fingerprint_test_size")
class Size:
    width: int = 1
    heights: tuple[int, ...] = (1, 2)
"""
FUNCTION = """
def work_{n}(rows, limit=LIMIT):
    kept = [row for row in rows if row.score > limit]
    for row in kept:
        row.text = " ".join(word.strip() for word in row.text.split())
        if len(row.text) > LIMIT and row.source in TABLE:
            row.count = TABLE[row.source] + len(row.text)
    with open("x") as handle:
        lines = sorted(handle, key=lambda line: (len(line), line))
    return sum(row.count for row in kept) + len(lines) + {call}
"""


@pytest.fixture(scope="module")
def operators(tmp_path_factory):
    """Make 12 operators that each reach 40 modules of 300 lines."""
    folder = tmp_path_factory.mktemp("large")
    files = {"lib/__init__.py": "", "pyproject.toml": ""}
    for number in range(MODULES):
        functions = [FUNCTION.format(n=n, call=f"work_{n - 1}(rows)" if n else "0") for n in range(27)]
        files[f"lib/module{number}.py"] = "import numpy as np\n\nLIMIT = 3\nTABLE = {'a': 1}\n" + "".join(functions)
    modules = ", ".join(f"module{n}" for n in range(MODULES))
    calls = " + ".join(f"module{n}.work_26([])" for n in range(MODULES))
    steps = [OPERATOR.format(n=n, modules=modules, calls=calls) for n in range(OPERATORS)]
    write(folder, {**files, "fingerprint_test_operators.py": HEAD + "".join(steps)})
    sys.path.insert(0, str(folder))
    try:
        yield importlib.import_module("fingerprint_test_operators")
    finally:
        sys.path.remove(str(folder))


def test_a_file_is_parsed_once_however_many_steps_reach_it(operators, monkeypatch):
    parsed, parse = list[str](), ast.parse

    def noted(source, filename="<unknown>", *arguments, **options):
        if filename.endswith(".py"):
            parsed.append(filename)
        return parse(source, filename, *arguments, **options)

    monkeypatch.setattr(ast, "parse", noted)
    fingerprinter = Fingerprinter()
    first = fingerprinter.fingerprint(operators.Step0(number=0))
    assert len(first.units) > MODULES * 28
    assert len(parsed) == len(set(parsed)) >= MODULES

    steps = []
    for number in range(10_000):
        make = getattr(operators, f"Step{number % OPERATORS}")
        steps.append(make(number=number, inputs=tuple(steps[-3:]), size=operators.Size(width=number)))
    made = {id(fingerprinter.fingerprint(step)) for step in steps[:OPERATORS]}
    assert len(made) == OPERATORS
    count = len(parsed)
    assert {id(fingerprinter.fingerprint(step)) for step in steps} == made
    assert len(parsed) == count


def test_values_decide_the_fingerprint(operators):
    plain = operators.Step0(number=0, size=None)
    valued = operators.Step0(number=0, size=(operators.Size(),))
    assert "fingerprint_test_operators.Size" in code_fingerprint(valued).units
    # The field's default names Size, so Size is always reached.
    assert code_fingerprint(plain).units == code_fingerprint(valued).units
    assert code_fingerprint(plain) is code_fingerprint(replace(plain, number=5))


def test_edits_are_seen_by_a_new_fingerprinter_only(tmp_path, monkeypatch):
    write(tmp_path, {"fingerprint_test_edited.py": HEAD.replace("size", "edited_size") + OPERATOR_ALONE})
    monkeypatch.syspath_prepend(str(tmp_path))
    step = importlib.import_module("fingerprint_test_edited").Step()
    fingerprinter = Fingerprinter()
    before = fingerprinter.fingerprint(step)
    path = tmp_path / "fingerprint_test_edited.py"
    path.write_text(path.read_text().replace("return 1", "return 2"))
    assert fingerprinter.fingerprint(step) is before
    after = Fingerprinter().fingerprint(step)
    (change,) = compare(before, after)
    assert (change.kind, change.name) == ("changed", "fingerprint_test_edited.Step")
    shown = source_diff(change, before.sources, after.sources).splitlines()
    assert [line for line in shown if line.startswith(("-  ", "+  "))] == ["-        return 1", "+        return 2"]


OPERATOR_ALONE = """
class Step(ExecutorStep[Tokens], op="step"):
    def run(self, ctx):
        return 1
"""


def test_a_broken_module_that_a_step_imports_late_is_named(tmp_path, monkeypatch):
    broken = OPERATOR_ALONE.replace('op="step"', 'op="late-step"').replace(
        "return 1", "import fingerprint_test_broken\n        return fingerprint_test_broken.f()"
    )
    write(
        tmp_path,
        {
            "fingerprint_test_late.py": HEAD.replace("test_size", "test_late_size") + broken,
            "fingerprint_test_broken.py": "x = 1\ndef f(:\n",
        },
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    step = importlib.import_module("fingerprint_test_late").Step()
    with pytest.raises(ExperimentError, match=r"fingerprint_test_broken\.py:2"):
        Fingerprinter().fingerprint(step)


def test_json_round_trip():
    made = CodeFingerprint({"a.f": "1"}, {"python": "3.12"}, ("a.py:1: f evaluates a string",), {"a.f": "x = 1"})
    again = CodeFingerprint.from_json(json.loads(json.dumps(made.to_json(sources=True))))
    assert again == made
    assert (again.opaque, again.sources, again.digest) == (made.opaque, made.sources, made.digest)
    assert CodeFingerprint.from_json(made.to_json()).sources == {}


@pytest.mark.parametrize(
    ("data", "named"),
    [
        ([], "list"),
        ({"packages": {}}, "units"),
        ({"units": {"a": 1}, "packages": {}}, "units"),
        ({"units": {}, "packages": []}, "packages"),
        ({"units": {}, "packages": {}, "opaque": "x"}, "opaque"),
        ({"units": {}, "packages": {}, "opaque": [1]}, "opaque"),
        ({"units": {}, "packages": {}, "sources": {"a": None}}, "sources"),
    ],
)
def test_garbled_json_is_refused(data, named):
    with pytest.raises(CorruptRecord, match=named):
        CodeFingerprint.from_json(data)


def test_compare():
    old = CodeFingerprint({"a": "1", "b": "1", "c": "1"}, {"numpy": "1", "gone": "1"}, ("then",))
    new = CodeFingerprint({"a": "1", "b": "2", "d": "1"}, {"numpy": "2", "new": "3"}, ("now",))
    assert compare(old, new) == (
        Change("changed", "b", "1", "2"),
        Change("added", "d", "", "1"),
        Change("removed", "c", "1", ""),
        Change("package", "gone", "1", ""),
        Change("package", "new", "", "3"),
        Change("package", "numpy", "1", "2"),
    )
    assert compare(old, old) == ()
    assert source_diff(compare(old, new)[-1], {}, {}) == "numpy: 1 → 2"
    assert source_diff(compare(old, new)[-2], {}, {}) == "new: not used → 3"
    assert source_diff(Change("added", "d", "", "1"), {}, {"d": "x = 1"}).splitlines()[-1] == "+x = 1"


def test_digest_is_of_units_alone():
    made = CodeFingerprint({"a": "1", "b": "2"}, {"numpy": "1"}, ("note",))
    assert made.digest == CodeFingerprint({"b": "2", "a": "1"}, {"numpy": "2"}).digest
    assert made.digest != CodeFingerprint({"a": "2", "b": "1"}, {"numpy": "1"}).digest


# Modules of the engine that operators and the library may import. Calls into others would be in no fingerprint.
CONTRACT = frozenset(
    {
        "errors",
        "fingerprint.observation.listening",
        "fingerprint.observation.observation",
        "steps.artifact",
        "steps.lifetime",
        "steps.reaches",
        "steps.resources",
        "steps.scale",
        "steps.step",
        "steps.value",
        "store.files.checksums",
        "store.files.directory",
    }
)


def engine_imports(path: Path) -> set[str]:
    """Return the modules of marin without the library that a file imports when it runs."""
    module = parse(path.read_bytes(), "operators.x", path, is_package=False)
    nodes = [node for node in ast.walk(ast.parse(path.read_bytes())) if isinstance(node, (ast.Import, ast.ImportFrom))]
    targets = [target for node in nodes for target in module.loaded_by(node)]
    named = {target.module.removeprefix("marin.") for target in targets if target.module.startswith("marin.")}
    return {name for name in named if name.split(".")[0] not in LIBRARY}


def test_operators_and_library_use_only_the_contract_of_the_engine():
    """Calls into other parts of marin would not be in the fingerprint. (The table of datasets and the
    pages of operators are no steps.)"""
    root = Path(sys.modules["marin"].__file__ or "").parent
    every = (root.parent / "operators").glob("**/*.py")
    files = [path for path in every if path.stem != "catalogue_table" and path.parent.name != "pages"]
    files += [path for part in LIBRARY for path in (root / part).glob("**/*.py")]
    assert len(files) > len(LIBRARY)
    beyond = {str(path.relative_to(root.parent)): engine_imports(path) - CONTRACT for path in files}
    assert {path: parts for path, parts in beyond.items() if parts} == {}
