"""Test ``marin microanneal``: its file, its refusals, and a whole microannealing."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from marin.cli.exits import Exit
from marin.cli.microanneal import command
from tests.cli.test_compare_command import Learnt
from tests.support.new_project import marin, told
from tests.support.project import ROOT
from tests.support.topics import topics
from tests.support.toy import run

RUNS = re.compile(r"^run ", re.MULTILINE)  # a line of a plan
QUICK = ("--tokens", "2048", "--shortest", "0.03", "--max-epochs", "100", "--seeds", "2")


def folder(tmp_path: Path) -> Path:
    """Write the experiment of docs/howto, with its own text."""
    for name, texts in (("data/web", topics()[::2]), ("data/new", topics()[1::4]), ("own text", topics()[3::4])):
        (tmp_path / name).mkdir(parents=True)
        for number, text in enumerate(texts):
            (tmp_path / name / f"{number}.txt").write_text(text)
    source = (ROOT / "docs/howto/microanneal.py").read_text().replace("/data/", f"{tmp_path}/data/")
    (tmp_path / "exp9_new.py").write_text(source)
    return tmp_path


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_folder_of_text_becomes_a_page_with_a_verdict(tmp_path: Path) -> None:
    where = folder(tmp_path)
    told(where, sys.executable, "exp9_new.py", "--backend", "inline", "--only", "base")
    guard = ("--guard", "gsm/lm_eval/bpb=9")
    anneal = ("microanneal", "--checkpoint", "run@16", "--candidate", "own text", *guard, *QUICK)
    said = marin(where, *anneal, "--dry-run")
    assert "made microanneal_own_text.py" in said
    assert "judge/own-text" in said
    assert RUNS.search(said)
    assert "dry run: nothing was started" in said
    said = told(where, sys.executable, "microanneal_own_text.py", "--backend", "inline")
    assert re.search(r"own-text: (ADOPT|REJECT|EQUIVALENT|INCONCLUSIVE)\. ", said)
    (page,) = (where / "store/.marin/pages").glob("microanneal_own_text-*.html")
    assert "Candidates against the control" in page.read_text()
    (judged,) = (where / "store/judge").glob("own-text-*")
    report = json.loads((judged / "report.json").read_text())
    assert set(report["candidates"]) == {"own-text"}
    assert report["guard"] == {"gsm/lm_eval/bpb": 9.0}
    # A second call finds everything cached, and never overwrites an edited file.
    again = marin(where, *anneal, "--dry-run")
    assert re.search(r"^cached ", again, re.MULTILINE)
    assert not RUNS.search(again)
    (where / "microanneal_own_text.py").write_text("edited = True\n")
    assert "with other contents; nothing was written" in marin(where, *anneal, ends=Exit.EXPERIMENT)


def refused(tmp_path: Path, *arguments: str) -> str:
    done = CliRunner(env={"COLUMNS": "200"}).invoke(command, [*arguments, "--prefix", str(tmp_path / "store")])
    assert done.exit_code != 0
    return done.output


@pytest.mark.parametrize("given", ["mmlu/acc", "=0.1", "mmlu/acc=little", "mmlu/acc=-1"])
def test_a_guard_without_what_it_may_lose_is_refused(given: str, tmp_path: Path) -> None:
    said = refused(tmp_path, "--checkpoint", "run", "--candidate", "text", "--guard", given)
    assert "wanted a metric and how much it may lose, such as mmlu/acc=0.01" in said


def test_a_store_without_that_checkpoint_is_refused(tmp_path: Path) -> None:
    assert "there is no store at" in refused(tmp_path, "--checkpoint", "run", "--candidate", "text")


def test_a_candidate_gets_a_label_that_the_experiment_leaves_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sums").mkdir()
    (tmp_path / "exp_with_sums.py").write_text(
        "from marin import Experiment\nfrom operators.text_files import TextFiles\n\n\n"
        "def build(scale):\n"
        "    results = {'held': TextFiles(path='/data/held', label='sums')}\n"
        "    return Experiment(issue=1, repository='', question='?', results=results)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    run(str(tmp_path / "store"), end=Learnt(seed=1, label="run"))
    said = refused(tmp_path, "--checkpoint", "run", "--candidate", "sums", "--experiment", "exp_with_sums.py")
    assert "candidate sums gets the name sums-2, because exp_with_sums.py has steps with the label sums" in said
    assert '"sums-2": Candidate(path=' in (tmp_path / "microanneal_sums_2.py").read_text()
