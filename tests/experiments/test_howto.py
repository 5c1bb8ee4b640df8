"""docs/howto: its experiments run, and what its pages show is true."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import click
import pytest

from marin.cli.commands import main
from marin.cli.exits import Exit
from marin_operators.text_files import TextFiles
from tests.support.project import ROOT

PAGES = ROOT / "docs/howto"
EXAMPLES = sorted(path.name for path in PAGES.glob("*.py"))


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A person's folder: the examples and some text."""
    for path in PAGES.glob("*.py"):
        shutil.copy(path, tmp_path)
    (tmp_path / "text").mkdir()
    for name, text in topics.items():
        (tmp_path / f"text/{name.lower()}.txt").write_text(text)
    return tmp_path


def ran(folder: Path, example: str, *arguments: str, ends: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, example, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "160"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == ends, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("example", EXAMPLES)
@pytest.mark.parametrize("scale", ["rehearsal", "full"])
def test_an_example_plans_in_a_folder_of_its_own(mine: Path, example: str, scale: str) -> None:
    assert "dry run: nothing was started" in ran(mine, example, "--dry-run", "--scale", scale)


def test_a_new_operator_runs_and_its_change_is_seen(mine: Path) -> None:
    assert "✓ [3/3] drop-short/own" in ran(mine, "drop_short.py", "--backend", "inline")
    file = mine / "drop_short.py"
    file.write_text(file.read_text().replace(">= self.words", "> self.words"))
    said = ran(mine, "drop_short.py", "--dry-run", ends=Exit.DRIFT)
    assert re.search(r"stop +drop-short/own +drifted\n.*DropShort changed", said)


def blocks(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def unspaced(code: str) -> str:
    """A page is formatted for itself: without the indentation of the function that it quotes."""
    return "".join(code.split()).replace(",)", ")")


@pytest.mark.parametrize("page", sorted(PAGES.glob("*.md")), ids=lambda page: page.stem)
def test_code_on_a_page_is_from_an_example_or_builds_by_itself(page: Path) -> None:
    examples = "".join(unspaced((PAGES / name).read_text()) for name in EXAMPLES)
    names = {"training": TextFiles(path="/text")}
    for block in blocks(page):
        if unspaced(block) not in examples:
            exec(block, names)


@pytest.mark.parametrize("page", sorted(PAGES.glob("*.md")), ids=lambda page: page.stem)
def test_links_of_a_page_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
        assert target.startswith("https://") or (page.parent / target).exists(), target


def commands() -> list[str]:
    lines = (line.split("   ")[0] for page in PAGES.glob("*.md") for line in page.read_text().splitlines())
    return sorted({line for line in lines if line.startswith(".venv/bin/marin ")})


@pytest.mark.parametrize("line", commands())
def test_a_command_on_a_page_has_the_options_that_it_is_given(line: str) -> None:
    _, name, *words = shlex.split(line)
    command = main.get_command(click.Context(main), name)
    assert command is not None
    command.make_context(name, words, resilient_parsing=False)  # raises for what it does not know


def test_documents_are_read_in_python_as_the_page_says(mine: Path) -> None:
    ran(mine, "drop_short.py", "--backend", "inline")
    names: dict[str, Any] = {}
    exec(blocks(PAGES / "read-outputs.md")[0], names)
    [folder] = (mine / "store/text-files").iterdir()
    identity = json.loads((folder / ".marin/record.json").read_text())["identity"]
    assert sorted(names["texts"](str(mine / "store"), identity)) == sorted(topics.values())


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_own_text_is_trained_on_and_a_sweep_takes_up_what_was_trained(mine: Path) -> None:
    for name, old, new in (
        ("own_text.py", "REHEARSAL: 100", "REHEARSAL: 20"),  # to be quick
        ("sweep.py", "(2e-3, 5e-3, 1e-2)", "(2e-3, 5e-3)"),
    ):
        source = (mine / name).read_text()
        assert old in source
        (mine / name).write_text(source.replace(old, new))
    said = ran(mine, "own_text.py")
    assert "filtered" in said
    assert "One seed an arm" in said
    said = ran(mine, "sweep.py")
    assert "2 seeds an arm" in said
    compared = next((mine / "store/compare").glob("learning-rate-*"))
    report = json.loads((compared / "report.json").read_text())
    assert report["runs"] == {"lr 0.002": 2, "lr 0.005": 2}
    trained = [path.name for path in (mine / "store/train").iterdir()]
    assert len(trained) == 5, "the run of own_text.py was made again"


def test_the_experiment_of_the_readme_runs(mine: Path) -> None:
    [experiment] = blocks(ROOT / "README.md")
    (mine / "exp1.py").write_text(experiment)
    said = ran(mine, "exp1.py", "--backend", "inline")
    assert "3 ran" in said
    assert "• as code: documents" in said
    assert len(experiment.splitlines()) <= 25
