import math
import random
import re
from dataclasses import replace

import numpy as np
import pytest

from marin.report.page import plots, svg
from marin.report.page.model import Event, Interval, IntervalPlot, Series, SeriesPlot
from tests.report import sample
from tests.report.reading import Reading

ARMS = ("Bison", "Mantis")


@pytest.fixture(scope="module")
def training() -> str:
    page = sample.page()
    made = plots.training_plots(page.runs, page.phases, page.arms)
    return made.whole + made.part


def test_training_names_phases_arms_events_and_both_axes(training: str) -> None:
    text = Reading(training).text
    wanted = ["Kestrel · Llama", "Qwen3 with QK-Norm", "cooldown", "Bison", "Mantis", "batch 32 → 30", "step", "tokens"]
    for piece in [*wanted, "Mantis: + Python code", "learning rate", "grad norm"]:
        assert piece in text
    assert ": cooldown mixtures" not in text  # which both arms say


def test_an_event_of_many_arms_says_of_how_many() -> None:
    page = sample.page()
    one = next(run for run in page.runs if run.arm)
    arms = [f"dose-{number}" for number in range(9)]
    runs = [
        replace(one, name=arm, arm=arm, events=[Event(step=one.step[1], text="seed 3" if at < 4 else "seed 5")])
        for at, arm in enumerate(arms)
    ]
    text = Reading(plots.training_plots(runs, (), arms).whole).text
    assert "4 of 9 runs: seed 3" in text
    assert "5 of 9 runs: seed 5" in text
    assert "dose-0, dose-1" not in text


def test_colours_come_from_the_page(training: str) -> None:
    left = set(re.findall(r"#[0-9a-f]{6}\b", training))
    assert left == set()
    assert {"var(--arm0)", "var(--arm1)", "var(--ink)", "var(--band)"} <= set(re.findall(r"var\(--\w+\)", training))
    assert "font-family" not in training
    assert "<metadata" not in training


def test_arms_differ_in_dash_too(training: str) -> None:
    styles = re.findall(r'style="([^"]*stroke: var\(--arm1\)[^"]*)"', training)
    assert styles
    assert all("stroke-dasharray" in style for style in styles if "stroke-opacity" not in style)  # but the pale line


def test_what_a_frame_cuts_off_is_said() -> None:
    page = sample.page()
    made = plots.training_plots(page.runs, page.phases, page.arms)
    [loss] = [note for note in made.notes if note.startswith("Above the frame: the loss")]
    first = page.runs[0]
    assert f"{max(first.loss):.4g} at most, at step {first.step[list(first.loss).index(max(first.loss))]}" in loss
    assert f"of {first.name} at " in loss
    assert f"↑ {max(first.loss):.3g}" in Reading(made.whole).text
    flat = replace(first, loss=[2.0 + step / 1e4 for step in first.step], grad_norm=(), learning_rate=())
    assert not [note for note in plots.training_plots([flat], (), ()).notes if "Above" in note]


def test_smoothing_keeps_the_level_and_the_gaps() -> None:
    values = [3.0, 5.0] * 40
    assert svg.window(80) == 5
    assert svg.window(20) == 1
    smooth = svg.running_mean(values, 5)
    assert np.all(np.abs(smooth[2:-2] - 4.0) <= 0.2 + 1e-9)
    values[10] = math.nan
    assert [index for index, value in enumerate(svg.running_mean(values, 5)) if math.isnan(value)] == [10]
    assert svg.running_mean([1.0, 2.0, 3.0], 3).tolist() == [1.5, 2.0, 2.5]


def test_the_raw_line_stands_pale_behind_the_smooth_one(training: str) -> None:
    assert "stroke: var(--arm0); stroke-opacity: 0.35" in training


def test_thinning_keeps_the_extremes() -> None:
    dice = random.Random(3)
    y = [dice.random() for _ in range(50_000)]
    y[31_337], y[200] = 40.0, math.nan
    x, mean, low, high = svg.thin(range(50_000), y)
    assert len(x) == len(mean) == svg.MOST_POINTS
    assert low is not None
    assert high is not None
    assert np.nanmax(high) == 40.0
    assert np.nanmin(low) == np.nanmin(y)
    assert np.all(low <= mean)
    assert np.all(mean <= high)
    x, mean, low, high = svg.thin([1, 2], [3.0, 4.0])
    assert (list(x), list(mean), low, high) == ([1, 2], [3, 4], None, None)


def test_labels_keep_their_distance() -> None:
    placed = svg.spread_labels([5.0, 5.1, 0.0, 9.9], 1.0, 0.0, 10.0)
    assert placed[2] == 0.0
    assert sorted(placed) == [placed[2], placed[0], placed[1], placed[3]]
    assert all(b - a >= 1 - 1e-9 for a, b in zip(sorted(placed), sorted(placed)[1:], strict=False))
    crowded = svg.spread_labels([9.8, 9.9, 10.0], 1.0, 0.0, 10.0)
    assert max(crowded) <= 10.0
    assert sorted(crowded) == crowded


def test_token_axis_survives_a_restart_from_an_earlier_step() -> None:
    steps, tokens = svg.monotone([0, 1, 2, 3, 2, 3, 4], [10, 20, 30, 40, 30, 40, 50])
    assert list(steps) == [0, 1, 2, 3, 4]
    assert list(tokens) == [10, 20, 30, 40, 50]


def test_intervals_print_their_numbers() -> None:
    rows = [
        Interval(label="Bison", arm="Bison", group="OLMES", value=0.71, low=0.68, high=0.74),
        Interval(label="Mantis", arm="Mantis", group="OLMES", value=-0.01),
    ]
    text = Reading(plots.evidence_plot(IntervalPlot(title="gap", x_label="bits per byte", rows=rows), ARMS)).text
    assert "+0.710 ± 0.030" in text
    assert "−0.010" in text
    assert "OLMES" in text


def test_series_are_named() -> None:
    series = SeriesPlot(
        title="s", x_label="step", y_label="r", 
        series=(Series(name="linear", x=(0, 1, 2), y=(0.5, 0.6, 0.7), low=(0.4, 0.5, 0.6), high=(0.6, 0.7, 0.8)),
                Series(name="chance", x=(0, 1, 2), y=(0.1, 0.1, 0.1))),
    )  # fmt: skip
    text = Reading(plots.evidence_plot(series, ARMS)).text
    assert "linear" in text
    assert "chance" in text


@pytest.mark.parametrize(
    "plot",
    [
        SeriesPlot(title="t", x_label="x", y_label="y", series=()),
        IntervalPlot(title="t", x_label="x", rows=()),
    ],
)
def test_no_data_no_plot(plot: SeriesPlot | IntervalPlot) -> None:
    assert plots.evidence_plot(plot, ARMS) == ""
