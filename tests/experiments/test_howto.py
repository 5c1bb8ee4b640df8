"""docs/howto: its experiments run, and what its pages show is true."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from marin.executor.make_here import make_here
from marin_operators.text_files import TextFiles
from tests.support.new_project import marin, new_project
from tests.support.project import ROOT

PAGES = ROOT / "docs/howto"


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What `marin new` writes, without its layout."""
    made = new_project(tmp_path_factory.mktemp("new") / "my_project")
    marin(made, "new", "experiment", "sweep")
    return "".join(unspaced(path.read_text()) for path in sorted(made.rglob("*.py")))


def blocks(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def unspaced(code: str) -> str:
    """A page is formatted for itself: without the indentation of the function that it quotes."""
    return "".join(code.split()).replace(",)", ")")


@pytest.mark.parametrize("page", sorted(PAGES.glob("*.md")), ids=lambda page: page.stem)
def test_code_on_a_page_is_from_an_example_or_builds_by_itself(page: Path, examples: str) -> None:
    names = {"training": TextFiles(path="/text")}
    for block in blocks(page):
        if unspaced(block) not in examples:
            exec(block, names)


@pytest.mark.parametrize("page", sorted(PAGES.glob("*.md")), ids=lambda page: page.stem)
def test_links_of_a_page_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
        assert target.startswith("https://") or (page.parent / target).exists(), target


def test_documents_are_read_in_python_as_the_page_says(tmp_path: Path) -> None:
    (tmp_path / "text").mkdir()
    for name in "ab":
        (tmp_path / f"text/{name}.txt").write_text(name)
    step, prefix = TextFiles(path=str(tmp_path / "text")), str(tmp_path / "store")
    make_here(step, prefix)
    names: dict[str, Any] = {}
    exec(blocks(PAGES / "read-outputs.md")[0], names)
    assert names["texts"](prefix, step.identity) == ["a", "b"]


def test_the_experiment_of_the_readme_runs(tmp_path: Path) -> None:
    [experiment] = blocks(ROOT / "README.md")
    (tmp_path / "exp1.py").write_text(experiment)
    done = subprocess.run(
        [sys.executable, "exp1.py", "--backend", "inline"],
        cwd=tmp_path,
        env={**os.environ, "COLUMNS": "160"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 ran" in done.stdout
    assert "• as code: documents" in done.stdout
    assert len(experiment.splitlines()) <= 25
