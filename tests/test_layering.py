"""Imports point one way, files stay short, and importing an experiment is light and pure."""

import ast
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import networkx as nx
import pytest

ROOT = Path(__file__).resolve().parents[1]
MAX_LINES = 400
MAY_IMPORT = {  # folder: its own modules, and these
    "marin": {"marin"},
    "operators": {"marin", "operators"},
    "infra": {"marin", "infra"},
    "experiments": {"marin", "operators", "infra", "experiments"},
}
CATALOGUE = "operators.datasets."
# Packages of marin: each knows itself and those before it. None of the engine is known to the library.
CHAIN = ("store", "steps", "fingerprint", "plan", "executor", "report", "upkeep", "cli")
LIBRARY = ("text", "data", "training", "evaluation")
LIBRARY_MAY_IMPORT = {
    "marin.errors",
    "marin.store.numbers",
    "marin.fingerprint.observation.listening",
    "marin.fingerprint.observation.observation",
    "marin.steps.artifact",
    "marin.steps.reaches",
    "marin.steps.resources",
    "marin.steps.scale",
    "marin.steps.value",
    "marin.store.files.checksums",
    "marin.store.files.directory",
}
ENGINE = ("store", "executor", "upkeep", "steps")
ENGINE_LINES = 13_780
VAGUE = {"utils", "util", "common", "helper", "helpers", "base", "misc"}
HEAVY = {
    "datatrove",
    "haliax",
    "jax",
    "levanter",
    "lm_eval",
    "matplotlib",
    "pyarrow",
    "ray",
    "scipy",
    "tokenizers",
    "torch",
    "transformers",
}
WRITTEN_FOR_PEOPLE = ROOT / "marin/cli/project"  # what `marin new` writes, which is no part of marin
FILES = sorted(
    path
    for folder in MAY_IMPORT
    for path in (ROOT / folder).rglob("*.py")
    if not path.is_relative_to(WRITTEN_FOR_PEOPLE)
)
MODULES = {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in FILES}


def imported(tree: ast.AST, module: str, *, top_only: bool = False) -> Iterator[str]:
    """Yield the full names that a module imports, also inside functions unless top_only.

    ``from a import b`` gives a.b if a.b is a module, else a.
    """
    for node in top_level(tree) if top_only else ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = module if MODULES[module].name == "__init__.py" else module.rpartition(".")[0]
            above = package.rsplit(".", node.level - 1)[0] if node.level else ""
            source = ".".join(part for part in (above, node.module) if part)
            for name in node.names:
                full = f"{source}.{name.name}"
                yield full if full in MODULES else source


def top_level(tree: ast.AST) -> Iterator[ast.AST]:
    """Everything that importing executes: not the bodies of functions, nor what only the type checker sees."""
    for node in ast.iter_child_nodes(tree):
        checking = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) and not checking:
            yield node
            yield from top_level(node)


def parsed(module: str) -> ast.Module:
    return ast.parse(MODULES[module].read_text())


def in_library(module: str) -> bool:
    return any(f"{module}.".startswith(f"marin.{part}.") for part in LIBRARY)


def place(module: str) -> int:
    """Return the module's place in the chain, or -1 if no package of the chain holds the module."""
    parts = module.split(".")
    return CHAIN.index(parts[1]) if parts[0] == "marin" and len(parts) > 1 and parts[1] in CHAIN else -1


def import_faults(module: str, tree: ast.Module) -> list[str]:
    """List the forbidden imports of this module."""
    faults: list[str] = []
    for name in imported(tree, module):
        top = name.split(".")[0]
        if (top in MAY_IMPORT and top not in MAY_IMPORT[module.split(".")[0]]) or top == "tests":
            faults.append(f"{module} imports {name}: {module.split('.')[0]} may not know {top}")
        elif f"{name}.".startswith(CATALOGUE) and module.startswith("operators.") and not module.startswith(CATALOGUE):
            faults.append(f"{module} imports {name}: operators may not know the catalogue")
        elif top == "marin" and in_library(module) and not in_library(name) and name not in LIBRARY_MAY_IMPORT:
            faults.append(f"{module} imports {name}: the library may not know the engine")
        elif not in_library(module) and -1 < place(module) < place(name):
            faults.append(f"{module} imports {name}: {CHAIN[place(module)]} may not know {CHAIN[place(name)]}")
    return faults


def circles() -> list[list[str]]:
    """Modules that import each other, in groups; what only the type checker imports counts too."""
    graph = nx.DiGraph()
    for module in MODULES:
        graph.add_edges_from((module, name) for name in imported(parsed(module), module) if name in MODULES)
    return [sorted(group) for group in nx.strongly_connected_components(graph) if len(group) > 1]


def test_the_tree_is_found() -> None:
    assert {
        "marin.steps.step",
        "marin.text.normalize",
        "operators.tokenize",
        "experiments.exp1529_mantis",
    } <= MODULES.keys()


def test_imports_point_one_way() -> None:
    assert [fault for module in MODULES for fault in import_faults(module, parsed(module))] == []


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("marin.steps.step", "from operators.tokenize import Tokenize"),
        ("marin.steps.step", "def late():\n    import experiments.exp1529_mantis"),
        ("operators.tokenize", "from infra import hardware"),
        ("operators.tokenize", "def late():\n    from operators.datasets import math"),
        ("operators.tokenize", "import tests.support.toy"),
        ("marin.text.normalize", "from marin.steps.step import ExecutorStep"),
        ("marin.text.normalize", "from marin.store import store"),
        ("marin.store.ends", "from marin.steps import step"),
        ("marin.plan.plan", "def late():\n    from marin.executor import commit"),
        ("marin.text.normalize", "def late():\n    from ..plan.plan import Plan"),
        ("marin.text.normalize", "from marin import Context"),
    ],
)
def test_an_import_against_the_direction_is_seen(module: str, source: str) -> None:
    assert len(import_faults(module, ast.parse(source))) == 1


def test_no_module_imports_itself_by_way_of_others() -> None:
    assert circles() == []


def test_the_top_level_fits_on_a_hand_and_each_package_says_what_it_is() -> None:
    entries = [path for path in (ROOT / "marin").iterdir() if path.suffix == ".py" or any(path.rglob("*.py"))]
    assert len(entries) <= 15
    packages = [name for name, path in MODULES.items() if path.name == "__init__.py"]
    assert [name for name in packages if not ast.get_docstring(parsed(name))] == []


def test_pages_name_no_operator() -> None:
    """Operators bring their own sections; see marin.report.section."""
    found = re.compile(r'class \w+\([^)]*\bop="([^"]+)"')
    operators = {name for module in MODULES if module.startswith("operators.")
                 for name in found.findall(MODULES[module].read_text())}  # fmt: skip
    assert "judge" in operators
    operators -= {"label"}  # every step has one
    pages = [module for module in MODULES if module.startswith(("marin.report.page.", "marin.report.serve."))]
    named = {(module, node.value) for module in pages for node in ast.walk(parsed(module))
             if isinstance(node, ast.Constant) and node.value in operators}  # fmt: skip
    assert named == set()


def test_files_are_short_enough_to_read() -> None:
    lines = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in FILES}
    assert {name: count for name, count in lines.items() if count > MAX_LINES} == {}


def test_the_engine_does_not_grow() -> None:
    """Whoever adds lines to these packages finds others to take away, and lowers the bound with what is saved."""
    engine = [path for path in FILES if path.relative_to(ROOT).parts[:2] in {("marin", name) for name in ENGINE}]
    assert sum(len(path.read_text().splitlines()) for path in engine) <= ENGINE_LINES


def test_no_module_has_a_name_that_says_nothing() -> None:
    assert [module for module in MODULES if VAGUE & set(module.split("."))] == []


def test_nothing_heavy_is_imported_at_the_top() -> None:
    light = [module for module in MODULES if not in_library(module)]
    heavy = {
        module: names
        for module in light
        if (names := HEAVY & {name.split(".")[0] for name in imported(parsed(module), module, top_only=True)})
    }
    assert heavy == {}


def fresh(script: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


EXPERIMENTS = [path.stem for path in sorted((ROOT / "experiments").glob("exp*.py"))]


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_an_experiment_is_short(experiment: str) -> None:
    assert len((ROOT / "experiments" / f"{experiment}.py").read_text().splitlines()) <= 80


def test_importing_an_experiment_is_light() -> None:
    """One process imports all experiments; the failure names the first that imports a heavy package."""
    heavy = sorted(HEAVY | {"fsspec", "jinja2", "networkx", "numpy"})
    said = fresh(
        f"""
        import importlib, sys

        for name in {EXPERIMENTS}:
            importlib.import_module("experiments." + name)
            if brought := set(sys.modules) & set({heavy}):
                print(name, "imports", *brought)
                break
        """
    )
    assert said == ""


def test_building_an_experiment_does_no_input_output_and_reads_no_environment() -> None:
    said = fresh(
        """
        import importlib, os, sys

        FORBIDDEN = ("open", "os.", "socket.", "subprocess.", "shutil.", "tempfile.", "glob.", "pathlib.", "urllib.")
        forbidden, seen = True, []

        def hook(event, arguments):
            if forbidden and event.startswith(FORBIDDEN):
                seen.append((event, str(arguments)))

        class Watched(type(os.environ)):
            def __getitem__(self, name):
                if forbidden:
                    seen.append(("environment", name))
                return super().__getitem__(name)

            def __iter__(self):
                if forbidden:
                    seen.append(("environment", "all"))
                return super().__iter__()

        forbidden = False
        builds = {name: importlib.import_module("experiments." + name).build for name in EXPERIMENTS}
        from marin.steps.scale import Scale

        os.environ.__class__ = Watched
        sys.addaudithook(hook)
        forbidden = True
        os.environ.get("HOME")
        os.path.exists("/") and os.listdir("/")
        assert [event for event, _ in seen] == ["environment", "os.listdir"], "the watch is blind"
        seen.clear()
        counts = []
        for name, build in builds.items():
            counts += [len(build(scale).steps()) for scale in Scale]
            assert not seen, (name, seen)
        forbidden = False
        print(*counts)
        """.replace("EXPERIMENTS", repr(EXPERIMENTS))
    )
    counts = [int(count) for count in said.split()]
    assert len(counts) == 2 * len(EXPERIMENTS)
    assert min(counts) > 5
