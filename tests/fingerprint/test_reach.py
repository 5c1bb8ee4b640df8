"""Test the code that a fingerprint follows, the code that it leaves out, and its notes on code it cannot follow."""

import os
import time
from pathlib import Path

import pytest

from tests.fingerprint.cases import CODE, HEAD, OTHER_STEP, RULES, STEP, Case
from tests.fingerprint.project import Refused, read, read_each, write

CASES = [
    *CODE,
    # Finding modules
    Case(
        "submodule of a package, never imported by name",
        "import lib.inner.deep\n        return lib.inner.deep.f()",
        files={"lib/__init__.py": "", "lib/inner/__init__.py": "", "lib/inner/deep.py": "def f():\n    return 1\n"},
        has=("lib.inner.deep.f",),
    ),
    Case(
        "folder without __init__",
        "from lib.rules import keep\n        return keep(1)",
        files={"pyproject.toml": "", "lib/rules.py": RULES["lib/rules.py"]},
        has=("lib.rules.keep",),
    ),
    Case(
        "relative imports",
        "return f()",
        "from lib.inner import f",
        {
            "lib/__init__.py": "",
            "lib/inner/__init__.py": "from .deep import f\n",
            "lib/inner/deep.py": "from ..rules import keep\nfrom . import beside\n\ndef f():\n"
            "    return keep(beside.g())\n",
            "lib/inner/beside.py": "def g():\n    return 1\n",
            "lib/rules.py": RULES["lib/rules.py"],
        },
        has=("lib.inner.deep.f", "lib.inner.beside.g", "lib.rules.keep"),
    ),
    Case(
        "circular imports and re-exports",
        "return a.f()",
        "from lib import a",
        {
            "lib/__init__.py": "",
            "lib/a.py": "from lib import b\n\ndef f():\n    return b.g()\n",
            "lib/b.py": "from lib import a\nfrom lib.a import *\n\ndef g():\n    return a.f()\n",
        },
        has=("lib.a.f", "lib.b.g"),
    ),
    Case(
        "either of two imports",
        "return f(1)",
        "try:\n    from lib.fast import f\nexcept ImportError:\n    from lib.slow import f",
        {"lib/__init__.py": "", "lib/fast.py": "def f(x):\n    return 1\n", "lib/slow.py": "def f(x):\n    return 2\n"},
        has=("lib.fast.f", "lib.slow.f"),
    ),
    Case(
        "a folder of the project named like an installed package",
        "from lib.reader import load\n        return load()",
        files={
            "pyproject.toml": "",
            "lib/__init__.py": "",
            "lib/reader.py": "def load():\n    import datasets\n    return datasets.load()\n",
            "lib/datasets/__init__.py": "def load():\n    return 1\n",
        },
        has=("lib.reader.load",),
        lacks=("lib.datasets.load",),
        packages=("datasets",),
    ),
    Case(
        "packages",
        "import os, yaml, numpy as np, nobody_has_this\n        return yaml, np.abs, nobody_has_this.x, os",
        "import click",
        packages=("PyYAML", "nobody_has_this", "numpy"),
    ),
    # Steps, values and artifacts
    Case(
        "another step in a field or a constructor",
        "return 1",
        whole=HEAD
        + OTHER_STEP
        + "class Step(ExecutorStep[Tokens], op='step'):\n    of: Other\n    def run(self, ctx):\n"
        "        return isinstance(self.of, Other)\n    def again(self):\n        return Other()\n\n"
        "def build():\n    return Step(of=Other())\n",
        has=("op.Step",),
        lacks=("op.Other", "op.helper"),
    ),
    Case(
        "another step that is run inside",
        "return Other().run(ctx)",
        OTHER_STEP,
        has=("op.Other", "op.helper"),
    ),
    Case(
        "another step's method",
        "return Other.run(self, ctx)",
        OTHER_STEP,
        has=("op.Other", "op.helper"),
    ),
    Case(
        "base step",
        "return 1",
        whole=HEAD + OTHER_STEP + "class Step(Other, op='step'):\n    pass\n\ndef build():\n    return Step()\n",
        has=("op.Step", "op.Other", "op.helper"),
    ),
    Case(
        "artifacts: the step's own and those of its inputs",
        "return 1",
        whole=HEAD + "class Image(Artifact, kind='image'):\n    def open(self):\n        return helper()\n\n"
        "class Sound(Artifact, kind='sound'):\n    pass\n\ndef helper():\n    return 1\n\n"
        "class Step(ExecutorStep[Sound], op='step'):\n    of: 'tuple[ExecutorStep[Image], ...]' = ()\n"
        "    def run(self, ctx):\n        return ctx[self.of[0]].open()\n\ndef build():\n    return Step()\n",
        has=("op.Step", "op.Image", "op.Sound", "op.helper"),
    ),
    Case(
        "values at any depth",
        "return 1",
        whole=HEAD + "from enum import Enum\nfrom typing import Any\n@value('leaf')\nclass Leaf:\n    x: int = 1\n"
        "    def go(self):\n        return helper()\n\n@value('mode')\nclass Mode(Enum):\n    A = 1\n\n"
        "@value('unused')\nclass Unused:\n    x: int = 1\n\ndef helper():\n    return 1\n\n"
        "@value('tree')\nclass Tree:\n    at: Any\n\n"
        "class Step(ExecutorStep[Tokens], op='step'):\n    tree: Any\n    def run(self, ctx):\n        return 1\n\n"
        "def build():\n    return Step(tree={1: (Tree(at={Mode.A: frozenset([Leaf()])}),)})\n",
        has=("op.Step", "op.Tree", "op.Mode", "op.Leaf", "op.helper"),
        lacks=("op.Unused",),
    ),
    Case(
        "a step class made in a function",
        "return 1",
        whole=HEAD + "def make():\n    class Step(ExecutorStep[Tokens], op='step'):\n        def run(self, ctx):\n"
        "            return helper()\n    return Step()\n\ndef helper():\n    return 1\n\nbuild = make\n",
        has=("op.make", "op.helper"),
    ),
]


@pytest.fixture(scope="module")
def fingerprints(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reach")
    projects = [
        write(
            folder / f"case-{number}",
            {**case.files, "op.py": case.whole or HEAD + case.top + "\n" + STEP.format(body=case.body)},
        )
        for number, case in enumerate(CASES)
    ]
    return dict(zip((case.name for case in CASES), read_each(projects), strict=True))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_reach(fingerprints, case):
    found = fingerprints[case.name]
    assert not isinstance(found, Refused), found.opaque
    assert set(case.has) <= found.units.keys()
    assert not set(case.lacks) & found.units.keys()
    assert len(found.opaque) == len(case.opaque), found.opaque
    for note, expected in zip(found.opaque, case.opaque, strict=True):
        assert expected in note
    assert set(found.packages) - {"python"} == set(case.packages)


def test_a_package_that_is_not_installed_is_recorded(fingerprints):
    packages = fingerprints["packages"].packages
    assert packages["nobody_has_this"] == "not installed"
    assert packages["numpy"][0].isdigit()
    assert packages["python"].startswith("3.")


def test_no_engine_unit(fingerprints):
    for found in fingerprints.values():
        engine = [name for name in found.units if name.startswith("marin.") and not name.startswith("marin.data.")]
        assert engine == []


def test_a_function_that_wraps_itself_in_a_file_that_was_just_written(tmp_path: Path) -> None:
    """marin compares a fresh file with the process's memory, function by function and through every wrapper."""
    itself = "import functools\n\ndef a():\n    return 1\n\na = functools.wraps(a)(a)\n"
    project = write(tmp_path, {"op.py": HEAD + itself + STEP.format(body="return a()")})
    later = time.time() + 3600
    os.utime(project / "op.py", (later, later))
    assert "op.a" in read(project).units
