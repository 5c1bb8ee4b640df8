"""Test the figures that scripts draw on a page: the data that they read, and the libraries that draw them."""

from __future__ import annotations

import hashlib
import math
import random
from dataclasses import replace
from functools import partial
from importlib import resources
from types import SimpleNamespace
from typing import Any

import pytest

from marin.report.page import figures, render
from marin.report.section import Curves, Mark, Series
from tests.report import sample
from tests.report.reading import Reading, unpacked

VENDORED = {
    "dagre-3.1.3.LICENSE": "6a349742a6cb219d5a2fc8d0844f6d89a6efc62e20c664450d884fc7ff2d6015",
    "dagre-3.1.3.min.js": "54a503e346f93ca0bb10abe7999587e037262935687aca45eb4e4b0f64bbb578",
    "uPlot-1.6.32.LICENSE": "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
    "uPlot-1.6.32.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    "uPlot-1.6.32.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
}


def test_the_libraries_are_those_of_their_authors() -> None:
    static = resources.files("marin.report.page").joinpath("static")
    found = {each.name: hashlib.sha256(each.read_bytes()).hexdigest() for each in static.iterdir()}
    assert found == VENDORED


def test_scripts_and_styles_end_where_their_elements_do() -> None:
    assert "</script" not in figures.script().lower()
    assert "<!--" not in figures.script()
    assert "sourceMappingURL" not in figures.script()
    assert "</style" not in figures.style().lower()


def test_data_come_back_in_five_digits_and_no_label_ends_their_element() -> None:
    value = {"a": [1.23456789, math.nan, -math.inf, 3, None, True, 2.0], "</script>": ("x", "\udc80</script>")}
    plain = figures.packed(value)
    assert "<" not in plain
    assert unpacked(plain) == {"a": [1.2346, None, None, 3, None, True, 2], "</script>": ["x", "\udc80</script>"]}
    many = figures.packed(list(range(100_000)))
    assert unpacked(many) == list(range(100_000))
    assert len(many) < 300_000
    assert many == figures.packed(range(100_000))


def test_credentials_are_taken_out_before_they_are_compressed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_SECRET", 'pass"wörd\\of mine')
    told = {"log": 'began with pass"wörd\\of mine', "url": "https://me:word@host/", "many": list(range(5000))}
    found = unpacked(figures.packed(told))
    assert found["log"] == "began with ***"
    assert "word" not in found["url"]


def training(**changes: Any) -> dict[str, Any]:
    page = replace(sample.page(), **changes)
    return unpacked(figures.packed(figures.training(page.runs, page.phases, page.arms)))


def test_training_has_all_points_of_all_runs_by_each_axis() -> None:
    page, found = sample.page(), training()
    assert [run["name"] for run in found["runs"]] == ["pretraining, Llama", "continued, Qwen3", "Bison", "Mantis"]
    assert [run["colour"] for run in found["runs"]] == [None, None, 0, 1]
    assert (found["axes"], found["panels"][1:]) == (["step", "tokens"], ["learning rate", "gradient norm"])
    for drawn, run in zip(found["runs"], page.runs, strict=True):
        for axis in ("step", "tokens"):
            at = drawn["x"][axis]
            assert [sum(at[: index + 1]) for index in range(len(at))] == run.column(axis)
        assert drawn["y"]["loss (nats per token)"] == pytest.approx(run.column("loss"), rel=1e-4)
    assert [(phase["first"], phase["end"], phase["name"]) for phase in found["phases"]] == [*map(tuple, page.phases)]


def test_hours_go_on_where_the_run_before_ended() -> None:
    runs = [replace(run, rows=[{**row, "seconds": 36.0} for row in run.rows]) for run in sample.page().runs]
    found = training(runs=runs)
    assert found["axes"] == ["step", "tokens", "hours"]
    ends = [(run["x"]["hours"][0], sum(run["x"]["hours"])) for run in found["runs"]]
    assert ends == [pytest.approx(each, abs=0.01) for each in ((0.01, 0.8), (0.81, 1.6), (1.61, 1.92), (1.61, 1.92))]


def marks(found: dict[str, Any]) -> dict[str, tuple[int, bool]]:
    return {mark["text"]: (mark["step"], mark["bad"]) for mark in found["marks"]}


def test_events_and_marks_stand_once_and_say_whose_they_are() -> None:
    page = sample.page()
    more = [Mark(run="Bison cooldown", step=170, text="spike", bad=True), Mark(run="gone", step=1, text="nothing")]
    told = marks(figures.training(page.runs, page.phases, page.arms, more))
    assert told["batch 32 → 30"] == (18, False)
    assert told["cooldown mixtures"] == (160, False)  # which both arms say
    assert told["Mantis: + Python code"] == (174, False)
    assert told["Bison: spike"] == (170, True)
    assert "nothing" not in str(told)


def test_an_event_of_many_arms_says_of_how_many() -> None:
    one = sample.page().runs[-1]
    arms = [f"dose-{number}" for number in range(9)]
    runs = [
        replace(
            one,
            step=SimpleNamespace(label=arm),
            arm=arm,
            events=[Mark(run=arm, step=161, text="seed 3" if at < 4 else "seed 5")],
        )
        for at, arm in enumerate(arms)
    ]
    assert {*marks(figures.training(runs, (), arms))} == {"4 of 9 runs: seed 3", "5 of 9 runs: seed 5"}


def test_a_long_run_is_thinned_to_extremes_and_means() -> None:
    dice = random.Random(3)
    values = [dice.random() for _ in range(50_000)]
    values[31_337], values[200] = 40.0, math.nan
    found = figures.curve("long", None, {"step": range(50_000)}, {"loss": values}, 1000)
    drawn, mean = found["y"]["loss"], found["mean"]["loss"]
    assert len(drawn) == len(mean) == len(found["x"]["step"]) == 1000
    assert found["stride"] == 50
    assert max(drawn) == 40.0
    assert min(drawn) == min(value for value in values if value == value)
    assert sum(mean) / len(mean) == pytest.approx(sum(v for v in values if v == v) / 49_999, rel=1e-3)
    empty = figures.curve("lost", None, {"step": range(8)}, {"loss": [math.nan] * 8}, 4)
    assert unpacked(figures.packed(empty))["y"]["loss"] == [None] * 4


def test_all_curves_of_a_page_share_what_a_figure_holds() -> None:
    page = sample.page()
    long = figures.training(sample.runs(random.Random(1), scale=1000), (), page.arms)
    assert sum(len(run["x"]["step"]) for run in long["runs"]) <= figures.MOST_POINTS
    assert len(figures.packed(long)) < 900_000


def test_curves_of_a_section_have_bands_ticks_and_a_line() -> None:
    block = Curves(
        title="dose", x="dose", y="r", ticks={1: "one", 4: "four"}, line=0.3, series=[
            Series(name="linear", arm="Bison", x=(1, 2, 4), y=(0.5, 0.6, 0.7), low=(0.4, 0.5, 0.6), high=(0.6, 0.7, 1)),
            Series(name="chance", x=(1, 2), y=(0.1, math.nan)), Series(name="none", x=(), y=()),
        ],
    )  # fmt: skip
    found = unpacked(figures.packed(figures.lines(block, ("Bison", "Mantis"))))
    assert [run["name"] for run in found["runs"]] == ["linear", "chance"]
    assert [run["colour"] for run in found["runs"]] == [0, None]
    assert (found["runs"][0]["low"], found["runs"][0]["high"]) == ([0.4, 0.5, 0.6], [0.6, 0.7, 1])
    assert found["runs"][1]["y"] == {"r": [0.1, None]}
    assert (found["ticks"], found["line"]) == ([[1, "one"], [4, "four"]], 0.3)
    alone = figures.lines(replace(block, series=block.series[1:]), ("Bison",))
    assert [run["colour"] for run in alone["runs"]] == [0]
    assert figures.lines(replace(block, series=()), ())["runs"] == []


def test_any_template_may_draw_curves() -> None:
    block = Curves(title="<dose>", x="dose", y="r", series=[Series(name="a", x=(1, 2), y=(0.5, 0.6))], note="n")
    template = '{% from "figures.html" import curves with context %}{{ curves(block) }}{{ curves(empty) }}'
    drawn = render._templates().from_string(template).render(  # pyright: ignore[reportPrivateUsage]
        block=block, empty=replace(block, series=()), packed=figures.packed, lines=partial(figures.lines, arms=()),
    )  # fmt: skip
    reading = Reading(drawn)
    assert [run["name"] for data in reading.data for run in data["runs"]] == ["a"]
    assert drawn.count('<figure class="curves">') == 1
    assert "<dose>" in reading.text
    assert "A script draws this part" in reading.text
