"""Test CompareTrainings on written metrics: values, differences with intervals, and refused fields."""

import json
from pathlib import Path
from typing import Any, cast

import pytest

from marin.data.artifacts import Checkpoint
from marin.errors import BadField, NothingScored
from marin.report.section import Interval, Page, Table
from marin.store.files.directory import Directory
from marin.training.readings import Reading
from operators.compare_trainings import CompareTrainings
from operators.pages.compare_trainings import section
from tests.operators.running import Given, run_step

WITHOUT, WITH = Given(name_of_input="without z-loss"), Given(name_of_input="with z-loss")
NOISE = (0.02, -0.02, 0.01, -0.01)  # of the batch, so that both arms have it


def metrics(folder: Path, slope: float, turn: int = 0) -> Checkpoint:
    """Eight steps from step 4 on. The loss grows by the slope each step; norms every other one, averages at the end."""
    folder.mkdir()
    rows: list[dict[str, Any]] = []
    for step in range(4, 12):
        row = {"step": step, "loss": 3 + slope * step + NOISE[(step + turn) % 4]}
        if step % 2:
            row["norm/lm_head"] = 10 + slope * step
        if step == 11:
            row |= {"held_out/micro_loss": 2.5, "held_out_ema/micro_loss": 2.4 + slope}
        rows.append(row)
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    made = Checkpoint(step=12, tokens=1, parameters=1, architecture="llama", loss=3.0)
    return made.at(Directory(str(folder)))


READINGS = {
    "loss": Reading(metric="loss", first=8, end=12),
    "growth of the loss": Reading(metric="loss", first=8, end=12, since=(4, 8)),
    "norm of the head": Reading(metric="norm/lm_head", first=4, end=12),
    "gap of the average": Reading(metric="held_out/micro_loss", first=11, end=12, minus="held_out_ema/micro_loss"),
}


def compared(tmp_path: Path, readings: dict[str, Reading] = READINGS) -> dict[str, Any]:
    arms = {"without": metrics(tmp_path / "a", 0.5), "with": metrics(tmp_path / "b", 0.1)}
    step = CompareTrainings(arms={"without": WITHOUT, "with": WITH}, baseline="with", readings=readings)
    made: Any = run_step(step, {WITHOUT: arms["without"], WITH: arms["with"]}, tmp_path)
    found = json.loads(made.directory.read_text("report.json"))
    return {
        **found,
        "op": step.op,
        "headline": made.headline,
        "output": made.directory,
        "row": {row["name"]: row for row in found["rows"]},
    }


def test_values_and_differences_paired_by_step(tmp_path: Path) -> None:
    found = compared(tmp_path)
    rows = found["row"]
    loss = rows["loss"]
    assert loss["values"]["without"]["value"] == pytest.approx(3 + 0.5 * 9.5)
    apart = loss["differences"]["without"]
    assert apart["value"] == pytest.approx(0.4 * 9.5)
    assert apart["low"] < apart["value"] < apart["high"]
    assert apart["verdict"] == "shows"
    growth = rows["growth of the loss"]
    assert (growth["values"]["without"]["value"], growth["values"]["with"]["value"]) == pytest.approx((2.0, 0.4))
    assert growth["differences"]["without"]["value"] == pytest.approx(1.6)
    assert rows["norm of the head"]["values"]["with"]["rows"] == 4
    gap = rows["gap of the average"]
    assert (gap["values"]["without"]["value"], gap["values"]["with"]["value"]) == pytest.approx((-0.4, 0.0))
    assert gap["differences"]["without"]["verdict"] == "one look, no interval"
    assert ". loss: with 3.95, without 7.75; without − with +3.8 (" in found["verdict"]


def test_a_difference_within_the_noise_does_not_show(tmp_path: Path) -> None:
    reading = Reading(metric="loss", first=8, end=12, since=(4, 8))
    arms = {"one": metrics(tmp_path / "a", 0.0), "other": metrics(tmp_path / "b", 0.0, turn=1)}
    step = CompareTrainings(arms={"one": WITHOUT, "other": WITH}, baseline="one", readings={"growth": reading})
    made: Any = run_step(step, {WITHOUT: arms["one"], WITH: arms["other"]}, tmp_path)
    [row] = json.loads(made.directory.read_text("report.json"))["rows"]
    assert row["differences"]["other"]["verdict"] == "does not show"


def test_arms_that_are_the_same_in_every_row_are_told_so(tmp_path: Path) -> None:
    reading = Reading(metric="loss", first=4, end=12)
    step = CompareTrainings(arms={"one": WITHOUT, "other": WITH}, baseline="one", readings={"loss": reading})
    rows = metrics(tmp_path / "a", 0.1)
    made: Any = run_step(step, {WITHOUT: rows, WITH: rows}, tmp_path)
    report = json.loads(made.directory.read_text("report.json"))
    assert report["rows"][0]["differences"]["other"]["verdict"].startswith("the same in every row")
    assert "other − one 0 (0 … 0 over 8 rows): the same in every row" in report["verdict"]


def test_a_page_shows_it(tmp_path: Path) -> None:
    report = compared(tmp_path)
    shown = section(cast(Any, None), report["output"], Page(arms=(), store=""))
    [table] = shown.blocks
    assert isinstance(table, Table)
    assert [column.name for column in table.columns] == ["reading", "with", "without", "without − with", ""]
    intervals = {row[0]: row[3] for row in table.rows if isinstance(row, list)}
    apart, single = intervals["loss"], intervals["gap of the average"]
    assert isinstance(apart, Interval)
    assert isinstance(single, Interval)
    assert apart.low is not None
    assert apart.high is not None
    assert apart.low < apart.value < apart.high
    assert single.low is single.high is None
    assert [shown.answer, *shown.more] == report["headline"]


def test_a_metric_that_is_not_there_is_named_with_where_it_is(tmp_path: Path) -> None:
    with pytest.raises(NothingScored, match=r"steps 4 to 9 has held_out/micro_loss; they are there at the steps 11"):
        compared(tmp_path, {"early": Reading(metric="held_out/micro_loss", first=4, end=10)})


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(BadField, match="steps 9 to 9; wanted an end after the first"):
        Reading(metric="loss", first=9, end=9)
    with pytest.raises(BadField, match="baseline is 'none'; wanted one of with"):
        CompareTrainings(arms={"with": WITH}, baseline="none", readings=READINGS)
    with pytest.raises(BadField, match="readings is empty"):
        CompareTrainings(arms={"with": WITH}, baseline="with", readings={})
