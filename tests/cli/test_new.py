"""Test ``marin new``: its projects run as they are, and existing files stay untouched."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from marin.cli.exits import Exit
from marin.cli.new import FILES, NAME
from tests.support.new_project import MARIN, marin, new_project, told

EXPERIMENT = "exp1_filter.py"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return new_project(tmp_path_factory.mktemp("new") / "study")


@pytest.fixture
def study(made: Path, tmp_path: Path) -> Path:
    """Return a copy of the project that a test may change."""
    return shutil.copytree(made, tmp_path / "study")


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_project_is_an_experiment_an_operator_a_test_and_text(made: Path) -> None:
    texts = {name for name in files(made) if name.startswith("text/")}
    assert len(texts) > 50
    assert files(made).keys() - texts == {
        ".gitignore",
        "README.md",
        "exp1_filter.py",
        "pyproject.toml",
        "study/__init__.py",
        "study/drop_short.py",
        "study/own_text.py",
        "study/pages/__init__.py",
        "study/pages/drop_short.py",
        "tests/test_drop_short.py",
    }
    ours = {name: content.decode() for name, content in files(made).items() if name not in texts}
    assert [name for name, content in ours.items() if NAME in content] == []
    assert "://" not in ours["pyproject.toml"]
    assert ours["study/own_text.py"] == (FILES / NAME / "own_text.py").read_text().replace(NAME, "study")


@pytest.mark.parametrize("scale", ["rehearsal", "full"])
@pytest.mark.parametrize("way", ["marin run", "python"])
def test_it_plans_as_it_is(made: Path, scale: str, way: str) -> None:
    program = [str(MARIN), "run"] if way == "marin run" else [sys.executable]
    said = told(made, *program, EXPERIMENT, "--dry-run", "--scale", scale)
    assert f"exp1_filter · {scale} · issue 1\n" in said
    assert "dry run: nothing was started" in said


@pytest.mark.parametrize("decoy", ["experiments", "datasets", "project", "text", "data"])
def test_a_package_of_ones_own_hides_nothing(study: Path, decoy: str) -> None:
    (study / decoy).mkdir(exist_ok=True)
    (study / decoy / "__init__.py").write_text(f"raise RuntimeError('this {decoy} is somebody else s')\n")
    assert "13 steps: 13 run" in marin(study, "run", EXPERIMENT, "--dry-run")


@pytest.mark.parametrize("program", [("marin", "run"), ("python",), ("python", "-m", "marin", "run")])
def test_a_folder_that_hides_marins_own_is_named_at_the_start(study: Path, program: tuple[str, ...]) -> None:
    command = [str(MARIN.with_name(program[0])), *program[1:], EXPERIMENT, "--dry-run"]
    for decoy in ("infra", "operators"):
        (study / decoy).mkdir()
        told(study, *command)  # only data: Python finds marin's package
        (study / decoy / "__init__.py").touch()
        done = subprocess.run(command, cwd=study, capture_output=True, text=True, check=False)
        assert done.returncode != 0
        assert f"ExperimentError: {study / decoy} hides the package '{decoy}' that comes with marin (" in done.stderr
        assert f"Rename it, say to my_{decoy}, also where it is imported" in done.stderr.splitlines()[-1]
        (study / decoy / "__init__.py").unlink()


def test_what_it_says_to_type_next_works(tmp_path: Path) -> None:
    """The printed commands work in a shell without this environment."""
    lines = re.findall(r"^next: (.*)$", marin(tmp_path, "new", "study"), re.MULTILINE)
    assert len(lines) == 2
    script = " && ".join([*lines, lines[1]]) + " --dry-run"  # the last command runs nothing
    script = script.replace(f"{lines[1]} &&", f"{lines[1]} --only nothing ||", 1)
    said = told(tmp_path, "bash", "-c", script, PATH="/usr/bin:/bin")
    assert "--only nothing: this experiment's results are all, filtered, comparison" in said
    assert "dry run: nothing was started" in said


def test_its_own_test_format_and_lint_pass(study: Path) -> None:
    assert "2 passed" in told(study, sys.executable, "-m", "pytest", "-p", "no:cacheprovider")
    for check in (("check",), ("format", "--check")):
        told(study, str(MARIN.with_name("ruff")), *check, ".")


def made_by(study: Path) -> set[str]:
    """Return the outputs of the project's operator, without their attempts."""
    return {path.stem for path in (study / "store/drop-short").iterdir()}


def test_a_change_of_its_operator_is_seen_and_goes_on_in_the_three_ways_of_the_page(study: Path) -> None:
    (study / "small.py").write_text(
        "from marin import Experiment\nfrom study.own_text import OwnText\n\n\n"
        "def build(scale):\n    return Experiment(issue=3, question='?', results={'text': OwnText(scale).training})\n"
    )
    here = ("run", "small.py", "--backend", "inline")
    assert "3 ran" in marin(study, *here)
    operator = study / "study/drop_short.py"
    operator.write_text(operator.read_text().replace(">= self.words", "> self.words"))
    said = marin(study, *here, ends=Exit.DRIFT)
    assert re.search(r"stop +drop-short/own +drifted\n.*DropShort changed", said)
    explained = marin(study, "plan", "small.py", "drop-short/own")
    assert "-        kept = (document for document in given if len(document.text.split()) >= self.words)" in explained
    assert "+        kept = (document for document in given if len(document.text.split()) > self.words)" in explained
    marin(study, *here, "--on-drift", "accept", "--because", "only faster")
    assert "only faster" in marin(study, "plan", "small.py", "drop-short/own")
    operator.write_text(operator.read_text().replace("> self.words", "> 1 + self.words"))
    assert "1 ran" in marin(study, *here, "--on-drift", "rebuild")  # with the same bytes, nothing else runs
    assert len(old := made_by(study)) == 1
    operator.write_text(operator.read_text().replace("version=1", "version=2"))
    marin(study, *here)
    assert old < made_by(study)


def test_nothing_is_overwritten(study: Path) -> None:
    before = files(study)
    said = marin(study.parent, "new", "study", ends=Exit.EXPERIMENT)
    assert "study exists already; nothing was written" in said
    (study.parent / "file").write_text("mine")
    assert "file exists already" in marin(study.parent, "new", "file", ends=Exit.EXPERIMENT)
    marin(study, "new", "experiment", "filter")
    assert files(study).keys() - before.keys() == {"exp2_filter.py"}
    assert "exp2_filter.py exists already" in marin(
        study, "new", "experiment", "filter", "--issue", "2", ends=Exit.EXPERIMENT
    )
    assert {name: content for name, content in files(study).items() if name in before} == before


def test_an_empty_folder_may_be_there(tmp_path: Path) -> None:
    (tmp_path / "deep/study").mkdir(parents=True)
    assert "next: cd deep/study" in marin(tmp_path, "new", "deep/study")
    assert (tmp_path / "deep/study" / EXPERIMENT).exists()


def test_a_repository_around_it_is_not_touched(tmp_path: Path) -> None:
    told(tmp_path, "git", "init", "-q")
    before = files(tmp_path / ".git")
    new_project(tmp_path / "study")
    assert files(tmp_path / ".git") == before
    assert not (tmp_path / "study/.git").exists()


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("my-study", "did you mean my_study?"),
        ("MyStudy", "did you mean mystudy?"),
        ("2nd", "did you mean nd?"),
        ("ünder", "wanted up to 40 lower-case letters, digits and underscores"),
        ("class", "no keyword of Python"),
        ("x" * 41, "up to 40"),
        ("", "a letter first"),
        ("json", "Python or marin has something of that name"),
        ("pyarrow", "Python or marin has something of that name"),
        ("marin", "Python or marin has something of that name"),
        ("tests", "Python or marin has something of that name"),
        ("operators", "Python or marin has something of that name"),
    ],
)
def test_a_name_that_cannot_be_says_which_can(tmp_path: Path, name: str, says: str) -> None:
    assert says in marin(tmp_path, "new", name, ends=Exit.USAGE)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("a", "b"), "wanted marin new a, or marin new experiment NAME"),
        (("experiment",), "marin new experiment NAME"),
        (("a", "--issue", "3"), "--issue is the number of an experiment"),
        (("experiment", "a", "--issue", "0"), "--issue"),
    ],
)
def test_other_words_are_wrong_usage(tmp_path: Path, words: tuple[str, ...], says: str) -> None:
    assert says in marin(tmp_path, "new", *words, ends=Exit.USAGE)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    said = marin(tmp_path, "new", "file/study", ends=Exit.EXPERIMENT)
    assert "file/study/README.md cannot be written: Not a directory" in said


def test_another_experiment_is_of_the_next_issue_or_the_one_it_is_told(study: Path) -> None:
    said = marin(study, "new", "experiment", "warm_up")
    assert "made exp2_warm_up.py" in said
    assert "made exp9_seeds.py" in marin(study, "new", "experiment", "seeds", "--issue", "9")
    assert "made exp10_last.py" in marin(study, "new", "experiment", "last")
    source = (study / "exp9_seeds.py").read_text()
    assert source.startswith('"""Exp 9: seeds.\n')
    [following] = re.findall(r"^next: (.*)$", said, re.MULTILINE)
    said = told(study, "bash", "-c", following, PATH="/usr/bin:/bin")
    assert "exp2_warm_up · rehearsal · issue 2\n" in said
    assert re.search(r"^run +sweep/warm up", said, re.MULTILINE)
    assert "own_text.py" in marin(study / "text", "new", "experiment", "x", ends=Exit.EXPERIMENT)


def mixed(folder: Path) -> None:
    """Rewrite the text files as files of every kind."""
    texts = [path.read_text() for path in sorted(folder.glob("*.txt"))]
    for path in folder.glob("*.txt"):
        path.unlink()
    lines = "\n".join(json.dumps({"text": text}) for text in texts[20:40]).encode()
    for number, text in enumerate(texts[:20]):
        (folder / f"{number}.{'md' if number % 2 else 'txt'}").write_text(text)
    (folder / "lines.jsonl.zst").write_bytes(zstandard.compress(lines))
    pq.write_table(pa.table({"text": texts[40:]}), folder / "rows.parquet")


def test_a_file_that_was_added_is_named_with_the_ways_on_that_there_are(study: Path) -> None:
    (study / "small.py").write_text(
        "from marin import Experiment\nfrom study.own_text import OwnText\n\n\n"
        "def build(scale):\n    return Experiment(issue=3, question='?', results={'text': OwnText(scale).training})\n"
    )
    marin(study, "run", "small.py", "--backend", "inline")
    study = study.rename(study.parent / "moved")
    assert "3 cached" in marin(study, "run", "small.py", "--dry-run")
    for name in ("mine", *(f"more-{n}" for n in range(20))):
        (study / f"text/{name}.md").write_text("my own words " * 20)
    said = marin(study, "run", "small.py", "--backend", "inline", ends=Exit.DRIFT)
    assert re.search(r"outside data \S+/text/mine\.md is new", said)
    assert (
        said.count("and 9 more changes: `marin plan FILE STEP` lists them all") == 2
    )  # in the plan, and in the message
    assert " ".join(said.split()).count(" is new: ") == 2 * 12  # for a folder's name of any length
    assert "Two ways on:" in said
    assert "operator's version" not in said
    assert "3 ran" in marin(study, "run", "small.py", "--backend", "inline", "--on-drift", "rebuild")
