"""Test the kept results of rehearsals: sentences of their reports, and whether today's experiments gave them."""

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from experiments import rehearse, rehearsed, table
from experiments.rehearsed import ANSWERED_BY, Rehearsal, RunTime, asked, sentence, version_of
from marin.training.reading_report import report
from marin.training.readings import Reading
from operators.compare import Compare
from operators.compare_trainings import CompareTrainings

NAMES = sorted(path.stem for path in table.FOLDER.glob("exp*.py"))
TOOK = RunTime(seconds=90, version="0", day="2026-11-23", revision="abc", cores=2, load=(0.1, 2.0))


def raccoon() -> table.Entry:
    return table.entry("exp898_raccoon")


@pytest.mark.parametrize("name", NAMES)
def test_every_experiment_says_which_rows_of_its_reports_answer_it(name: str) -> None:
    results = table.entry(name).rehearsal.results
    for result, rows in ANSWERED_BY[name].items():
        step = results[result]
        if isinstance(step, CompareTrainings):
            assert step.readings.keys() >= set(rows) != set()
        else:
            assert bool(rows) is isinstance(step, Compare)


def test_what_is_kept_is_of_experiments_whose_arms_differ() -> None:
    """Arms with bit-identical results answer nothing, because their difference had no effect."""
    kept = rehearsed.kept()
    assert kept.keys() <= set(NAMES)
    signed = {name: re.findall(r"[+−]\d[\d.e]*", each) for name, one in kept.items() for each in one.answers.values()}
    assert [name for name, found in signed.items() if found and set(found) == {"+0"}] == []


def test_a_reading_is_told_with_its_interval_and_whether_it_shows() -> None:
    losses = {"long": [3.0, 2.9, 3.1, 2.5], "short": [3.125, 3.0, 3.25, 2.625], "noisy": [3.5, 2.6, 2.8, 2.9]}
    arms = {arm: [{"step": step, "loss": loss} for step, loss in enumerate(held)] for arm, held in losses.items()}
    made, _ = report(
        arms, "long", {"loss": Reading(metric="loss", first=0, end=4), "one": Reading(metric="loss", first=0, end=1)}
    )
    told = sentence(made, ("loss", "one"))
    assert told == (
        "loss: long 2.88 ± 0.42, short − long +0.125 ± 0.032, noisy − long +0.075 ± 0.69 (does not show); "
        "one: long 3, short − long +0.125, noisy − long +0.5."
    )


def test_differences_of_scores_are_told_by_arm_with_their_unit_and_what_a_star_means() -> None:
    better: dict[str, Any] = {"value": -0.1476, "low": -0.1683, "high": -0.1269, "shown": True, "verdict": "better"}
    same = {**better, "value": 0.01, "low": -0.02, "high": 0.04, "shown": False}
    read = {**better, "contaminated": ["a"]}
    rows: list[dict[str, Any]] = [
        {"metric": "bpb/code", "unit": "bits/byte", "contaminated": [], "differences": {"b": better, "c": same}},
        {"metric": "bpb/web", "unit": "bits/byte", "contaminated": [], "differences": {"b": same, "c": better}},
        {"metric": "gsm/olmes/bpb", "unit": "bits/byte", "contaminated": ["a"], "differences": {"b": read, "c": same}},
    ]
    star = "* At gsm, a was trained on items."
    made: dict[str, Any] = {"answer": [], "arms": ["a", "b", "c"], "baseline": "a", "rows": rows, "star": star}
    assert sentence(made, ("bpb/",)) == (
        "b − a, bits/byte: code text −0.148 ± 0.021, web text +0.01 ± 0.03 (does not show); "
        "c − a, bits/byte: code text +0.01 ± 0.03 (does not show), web text −0.148 ± 0.021."
    )
    assert sentence(made, ("gsm/olmes/bpb",)) == (
        "b − a, bits/byte: gsm (OLMES prompts) −0.148 ± 0.021*; "
        "c − a, bits/byte: gsm (OLMES prompts) +0.01 ± 0.03 (does not show). * At gsm, a was trained on items."
    )


def test_a_verdict_is_told_in_its_own_words() -> None:
    verdicts = {"candidates": {"flan": {"sentence": "flan: ADOPT. Better."}, "hq": {"sentence": "hq: REJECT. Worse."}}}
    assert sentence(verdicts, ()) == "flan: ADOPT. Better. hq: REJECT. Worse."
    assert sentence({"verdict": "Seen from 16 on. Never without."}, ()) == "Seen from 16 on."


def test_an_answer_of_another_version_is_marked_in_the_table() -> None:
    today = {identity: "loss: +1 (+.5 … +1.5)*." for identity in asked("exp898_raccoon", raccoon().rehearsal)}
    assert table.answer(raccoon(), Rehearsal(answers=today)) == "loss: +1 (+.5 … +1.5)\\*."
    older = table.answer(raccoon(), Rehearsal(answers={"0123456789ab": "loss: +1."}))
    assert older == f"{table.OLDER}loss: +1."
    assert table.answer(raccoon(), None) == "never measured"
    assert table.answer(table.entry("exp600_kestrel"), Rehearsal(answers=today)).startswith(table.OLDER)


def test_a_duration_of_another_version_is_marked_in_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one whose answer is today's: an experiment may have got another result beside it."""
    monkeypatch.setattr(rehearsed, "KEPT", tmp_path / "rehearsed.json")
    now = TOOK.model_copy(update={"version": version_of(raccoon().rehearsal), "seconds": 60.0})
    rehearsed.KEPT.write_bytes(rehearsed.REHEARSALS.dump_json({raccoon().name: Rehearsal(shared=now, alone=TOOK)}))
    assert (
        "steps; alone 1 min 30 s (load 0.1 to 2, an earlier version); after others 1 min 0 s (load 0.1 to 2) |"
        in table.page()
    )


def test_what_was_measured_of_another_version_is_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rehearsed, "KEPT", tmp_path / "rehearsed.json")
    rehearsed.KEPT.write_text("{}")
    rehearsed.write("b", {"1": "so"}, {"shared": TOOK})
    rehearsed.write("a", {"2": "so"}, {"alone": TOOK})
    rehearsed.write("b", {"1": "so"}, {"alone": TOOK})
    assert rehearsed.kept()["b"] == Rehearsal(answers={"1": "so"}, shared=TOOK, alone=TOOK)
    rehearsed.write("b", {"3": "no"}, {"alone": TOOK})
    assert rehearsed.kept() == {
        "a": Rehearsal(answers={"2": "so"}, alone=TOOK), "b": Rehearsal(answers={"3": "no"}, alone=TOOK)
    }  # fmt: skip


def test_an_experiment_that_fails_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rehearse, "FOLDER", tmp_path)
    (tmp_path / "good.py").write_text("import pathlib, sys; pathlib.Path(sys.argv[2]).mkdir()")
    (tmp_path / "bad.py").write_text("raise SystemExit(3)")
    assert rehearse.rehearse("good", "1", tmp_path / "store").seconds >= 0
    assert (tmp_path / "store").is_dir()
    with pytest.raises(SystemExit, match="bad ended with 3"):
        rehearse.rehearse("bad", "1", tmp_path / "store")


@pytest.mark.parametrize(("given", "said"), [([], "exists already"), (["exp1"], "no experiment is called exp1; there")])
def test_durations_are_from_an_empty_store(
    given: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(sys, "argv", ["rehearse", str(tmp_path), *given])
    with pytest.raises(SystemExit):
        rehearse.main()
    assert said in capsys.readouterr().err
