"""Without an extra's packages, a step that needs them names the extra to install. Other steps work."""

import ast
import importlib.metadata
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from marin.errors import BROUGHT_BY, extra_with
from marin.training.process import Listeners, run_training
from tests.support.project import EXPERIMENT, ROOT, Project
from tests.test_layering import FILES
from tests.training.runs import small_spec

BLOCKER = """
import os, sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in os.environ.get("BLOCKED", "").split(","):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocker())
"""


def required(line: str) -> str:
    """Return the distribution that a requirement names."""
    return re.split(r"[^\w.-]", line, maxsplit=1)[0].lower().replace("_", "-")


PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
BASE = {required(line) for line in PYPROJECT["dependencies"]} | {"markupsafe"}  # jinja2 brings markupsafe


OWN = ("marin", "operators", "infra", "experiments")
KNOWN = {*OWN, *sys.stdlib_module_names, *(name.replace("-", "_") for name in BASE)}
IMPORTS = re.compile(r"^\s*(?:from|import) (\w+)", re.MULTILINE)  # also matches some prose


def optional_modules() -> list[str]:
    """Return all modules that marin imports anywhere and that neither Python nor the light install holds."""
    found: set[str] = set()
    for path in FILES:
        text = path.read_text()
        if set(IMPORTS.findall(text)) <= KNOWN:  # parsing takes 30 times as long
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import):
                found |= {name.name.partition(".")[0] for name in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.partition(".")[0])
    return sorted(found - KNOWN)


OPTIONAL = optional_modules()


@pytest.mark.parametrize("module", OPTIONAL)
def test_every_optional_import_has_an_extra_and_it_is_the_smallest(module: str) -> None:
    named = extra_with(module)
    assert named in ("data", "train", "eval", "run")
    distribution = BROUGHT_BY.get(module, module.replace("_", "-"))
    extras = PYPROJECT["optional-dependencies"]
    assert distribution in {required(line) for line in extras[named]}
    if named == "run":
        assert not any(
            distribution in {required(line) for line in extras[small]} for small in ("data", "train", "eval")
        )


@pytest.mark.parametrize("module", sorted(set(BROUGHT_BY) - {"levanter", "sklearn", "yaml"}))
def test_what_another_package_brings_is_brought_by_it(module: str) -> None:
    brought = {required(line).removeprefix("marin-") for line in importlib.metadata.requires(BROUGHT_BY[module]) or []}
    assert module in brought


@pytest.fixture
def light(tmp_path: Path) -> Project:
    """Return a project whose Python finds only the light install."""
    steps = "".join(
        f"""
class Use_{module}(ExecutorStep[Blob], op="use-{module.replace("_", "-")}"):
    def run(self, ctx: Context) -> Blob:
        import {module}
        return Blob(bytes=1)

"""
        for module in OPTIONAL
    )
    results = ", ".join(f'"{module}": Use_{module}(label="{module}")' for module in OPTIONAL)
    experiment = EXPERIMENT.replace("def build", f"{steps}\n\ndef build").replace("results={", f"results={{{results}, ")
    project = Project(tmp_path / "project", experiment)
    (project.folder / "sitecustomize.py").write_text(BLOCKER)
    return project


def marin(project: Project, *arguments: str, expect: int) -> str:
    environment = {**project.environment(), "BLOCKED": ",".join(OPTIONAL)}
    program = [str(Path(sys.executable).with_name("marin")), *arguments]
    done = subprocess.run(program, capture_output=True, text=True, env=environment, cwd=project.folder, check=False)
    said = done.stdout + done.stderr
    assert done.returncode == expect, said
    assert "Traceback" not in said
    return said


def test_each_step_names_the_extra_that_it_needs_and_the_others_run(light: Project) -> None:
    assert "never built" in marin(light, "plan", str(light.file), expect=0)
    said = marin(light, "run", str(light.file), "--backend", "inline", expect=1)
    for module in OPTIONAL:
        needs = f"use-{module.replace('_', '-')}/{module} needs {module}, which is not installed"
        assert f"{needs}: pip install 'marin[{extra_with(module)}]'" in said
    assert f"2 ran, {len(OPTIONAL)} failed" in said
    failures = marin(light, "status", str(light.file), expect=0)
    assert failures.count("pip install 'marin[") == len(OPTIONAL)


def test_commands_name_it_too(light: Project) -> None:
    (light.folder / "exp2_early.py").write_text("import pyarrow\n\n\ndef build(scale): ...\n")
    (light.folder / "notes.jsonl").write_text("{}\n")
    marin(light, "run", str(light.file), "--backend", "inline", "--only", "end", expect=0)
    adopting = ("adopt", "notes.jsonl", "--label", "x", "--because", "y", "--kind")
    for arguments, extra in (
        (("run", str(light.file), "--backend", "ray"), "run"),
        (("plan", str(light.file), "--prefix", "gs://bucket/store"), "run"),
        (("ls", "--prefix", "s3://bucket/store"), "run"),
        (("plan", "exp2_early.py"), "data"),
        ((*adopting, "documents"), "data"),
        ((*adopting, "tokenizer"), "data"),
    ):
        said = marin(light, *arguments, expect=1)
        assert "MissingDependency: " in said
        assert f"pip install 'marin[{extra}]'" in said, said


def test_what_is_there_and_broken_is_not_called_missing(tmp_path: Path) -> None:
    project = Project(tmp_path / "project")
    (project.folder / "pyarrow.py").write_text("import rensa.gone\n")
    (project.folder / "exp2_early.py").write_text("import pyarrow\n\n\ndef build(scale): ...\n")
    environment = {**project.environment(), "BLOCKED": ""}
    program = [str(Path(sys.executable).with_name("marin")), "plan", "exp2_early.py"]
    done = subprocess.run(program, capture_output=True, text=True, env=environment, cwd=project.folder, check=False)
    assert done.returncode == 4
    assert "rensa.gone" in done.stderr
    assert "pip install" not in done.stderr


def test_the_training_process_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sitecustomize.py").write_text(BLOCKER)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("BLOCKED", "jax,levanter,haliax,equinox")
    with pytest.raises(ModuleNotFoundError) as raised:
        run_training(small_spec(tmp_path), tmp_path / "log.txt", Listeners())
    assert extra_with(raised.value.name or "") == "train"
