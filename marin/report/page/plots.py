# pyright: basic
"""The page's plots: training curves, series, intervals. Each returns one inline SVG.

Importing this imports matplotlib (about a second): do it where a plot is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedFormatter, FixedLocator, FuncFormatter, MaxNLocator, NullFormatter

from marin.report import units
from marin.report.page import svg
from marin.report.page.model import Interval, IntervalPlot, Phase, Plot, SeriesPlot, TrainingCurve

WARMING = 0.08  # share of the steps whose high loss does not set the scale
WIDE, NARROW = svg.PAGE, 545.0  # CSS pixels
BOTTOM, TOP, SIDE = 64.0, 30.0, 58.0
PANELS = (
    ("loss", "loss (nats per token)", 290.0),
    ("learning_rate", "learning rate", 62.0),
    ("grad_norm", "grad norm", 62.0),
)
GAP = 24.0
NAMED = 3  # arms whose event it is; of more, how many


@dataclass(frozen=True)
class TrainingPlots:
    """Inline SVGs, and what a reader must know of them. whole: "" if no run has a point."""

    whole: str = ""
    part: str = ""  # where the arms differ, larger; "" where that is the whole
    notes: tuple[str, ...] = ()


def training_plots(runs: Sequence[TrainingCurve], phases: Sequence[Phase], arms: Sequence[str]) -> TrainingPlots:
    """Loss, learning rate and gradient norm of all runs: the whole of them, and the arms' part larger.

    One axis in optimizer steps, a second in tokens.
    """
    runs = [run for run in runs if len(run.step)]
    if not runs:
        return TrainingPlots()
    panels = [panel for panel in PANELS if panel[0] == "loss" or any(len(getattr(run, panel[0])) for run in runs)]
    apart = [run for run in runs if run.arm]
    zoom = len(apart) > 1 and len(apart) < len(runs)
    whole, above = _column(runs, phases, arms, panels, WIDE * 0.6 if zoom else WIDE, names_ends=not zoom, is_whole=True)
    part = _column(apart, (), arms, panels, WIDE * 0.37, names_ends=True, is_whole=False)[0] if zoom else ""
    notes: list[str] = []
    if smoothed := [run for run in runs if svg.window(len(run.loss)) > 1]:
        windows = sorted({svg.window(len(run.loss)) for run in smoothed})
        spans = " to ".join(f"{steps:,}" for steps in dict.fromkeys((windows[0], windows[-1])))
        notes.append(f"Loss: mean over {spans} steps around each, over the pale line of every step.")
    if any(len(run.step) > svg.MOST_POINTS for run in runs):
        notes.append("Long curves are bucket means; the band runs from minimum to maximum.")
    return TrainingPlots(whole, part, (*notes, *above))


def _column(
    runs: Sequence[TrainingCurve],
    phases: Sequence[Phase],
    arms: Sequence[str],
    panels: Sequence[tuple[str, str, float]],
    width: float,
    *,
    names_ends: bool,
    is_whole: bool,
) -> tuple[str, list[str]]:
    """One column of panels over the steps of the runs, and what stands above its frames."""
    total = TOP + BOTTOM + sum(panel[2] for panel in panels) + GAP * (len(panels) - 1)
    span = (min(run.step[0] for run in runs), max(run.step[-1] for run in runs))
    longest = max(len(run.arm or run.name) for run in runs)
    room = 12 + (min(longest, 24) * 11 * svg.LETTER if names_ends else 0)
    side = SIDE if is_whole else SIDE - 12
    y = total - TOP
    pad = (span[1] - span[0]) * 0.01 or 0.5
    axes = None
    out: list[str] = []
    above: list[str] = []
    title = "Training curves" if is_whole else "Training curves where the arms differ"
    with svg.canvas(width, total, title, out) as figure:
        for index, (name, label, height) in enumerate(panels):
            y -= height
            axes = figure.add_axes((side / width, y / total, 1 - (side + room) / width, height / total))
            y -= GAP
            axes.set_xlim(span[0] - pad, span[1] + pad)
            drawn = [run for run in runs if len(getattr(run, name))]
            warm = span[0] + (span[1] - span[0]) * WARMING if is_whole else -math.inf
            axes.set_ylim(*svg.bounds([_after(run, name, warm) for run in drawn]))
            if name == "grad_norm":
                axes.set_ylim(bottom=0)
            svg.shade_phases(axes, [(phase.first, phase.end, phase.name) for phase in phases], names=index == 0)
            svg.plain_axes(axes, 8 if is_whole else 6, 5 if index == 0 else 2)
            if index:
                axes.annotate(
                    label, (0, 1), xycoords="axes fraction", xytext=(0, 4), textcoords="offset points",
                    va="bottom", fontsize=10, color=svg.MUTED,
                )  # fmt: skip
            elif is_whole:
                axes.set_ylabel(label)
            if name == "learning_rate":
                axes.yaxis.set_major_formatter(FuncFormatter(_power))
                axes.set_ylim(bottom=0)
            for run in drawn:
                colour, dash = _style(run.arm, arms)
                width_of, over = (1.7, svg.window(len(run.loss))) if index == 0 else (1.1, 1)
                svg.line(axes, run.step, getattr(run, name), colour, dash, width_of, over=over)
            above += _above(axes, drawn, name)
            if index == 0:
                if names_ends:
                    last = [
                        (float(r.step[-1]), _smooth_end(r.loss), r.arm or r.name, _style(r.arm, arms)[0]) for r in drawn
                    ]
                    svg.label_ends(axes, last)
                # The larger picture of the arms' part names their events; here they would only crowd.
                svg.mark_events(axes, _events(runs, arms_named=not is_whole or names_ends))
            else:
                for step in dict.fromkeys(event.step for run in runs for event in run.events):
                    if span[0] <= step <= span[1]:
                        axes.axvline(step, color=svg.MUTED, linewidth=0.8, linestyle=(0, (2, 2)), zorder=1)
            if index < len(panels) - 1:
                axes.xaxis.set_major_formatter(NullFormatter())
                axes.tick_params(axis="x", length=0)
        assert axes is not None
        axes.set_xlabel("optimizer step" if not any(len(run.tokens) for run in runs) else "", labelpad=2)
        _token_axis(axes, runs)
    return out[0], above


def _events(runs: Sequence[TrainingCurve], *, arms_named: bool) -> list[tuple[float, str]]:
    """Steps and texts, each once; beginning with the arm that it is of, where not all arms say it."""
    said: dict[tuple[float, str], list[str]] = {}
    for run in runs:
        for event in run.events:
            said.setdefault((event.step, event.text if arms_named or not run.arm else ""), []).append(run.arm)
    arms = {run.arm for run in runs} - {""}

    def whose(who: list[str]) -> str:
        return ", ".join(who) if len(who) <= NAMED else f"{len(who)} of {len(arms)} runs"

    return [
        (step, f"{whose(who)}: {text}" if text and all(who) and set(who) != arms else text)
        for (step, text), who in said.items()
    ]


def _above(axes: Axes, runs: Sequence[TrainingCurve], name: str) -> list[str]:
    """What the frame cuts off, said beside an arrow at its top and in a sentence."""
    top = axes.get_ylim()[1]
    told: list[str] = []
    for run in runs:
        values = getattr(run, name)
        high = [(value, step) for step, value in zip(run.step, values, strict=True) if value > top]
        if not high:
            continue
        most, at = max(high)
        axes.annotate(
            f"↑ {most:.3g}", (at, 1), xycoords=("data", "axes fraction"), xytext=(3, -3), zorder=5,
            textcoords="offset points", va="top", fontsize=9, color=svg.MUTED,
            bbox={"facecolor": svg.PAPER, "edgecolor": "none", "pad": 0.8},
        )  # fmt: skip
        words = {"grad_norm": "gradient norm", "learning_rate": "learning rate"}.get(name, name)
        told.append(
            f"Above the frame: the {words} of {run.arm or run.name} at {len(high):,} of {len(values):,} steps, "
            f"{units.tick(most)} at most, at step {at:,}."
        )
    return told


def _token_axis(axes: Axes, runs: Sequence[TrainingCurve]) -> None:
    """A second scale below the steps, in tokens trained on."""
    measured = [run for run in runs if len(run.tokens)]
    steps, tokens = svg.monotone(
        [step for run in measured for step in run.step], [token for run in measured for token in run.tokens]
    )
    if len(steps) < 2:
        return
    ticks = MaxNLocator(6 if axes.get_position().width > 0.4 else 4).tick_values(tokens[0], tokens[-1])
    ticks = ticks[(ticks >= tokens[0]) & (ticks <= tokens[-1])]
    second = axes.twiny()
    second.set_xlim(axes.get_xlim())
    second.xaxis.set_ticks_position("bottom")
    second.spines["bottom"].set_position(("outward", 26))
    second.spines["bottom"].set_visible(True)
    second.xaxis.set_major_locator(FixedLocator(list(np.interp(ticks, tokens, steps))))
    second.xaxis.set_major_formatter(FixedFormatter([units.tick(float(tick)) for tick in ticks]))
    for target, text, drop in ((axes, "step", 13), (second, "tokens", 36)):
        target.annotate(
            text, (0, 0), xycoords="axes fraction", xytext=(-6, -drop), textcoords="offset points",
            va="center", ha="right", fontsize=11, color=svg.MUTED,
        )  # fmt: skip


def _after(run: TrainingCurve, name: str, first: float) -> list[float]:
    values = [value for step, value in zip(run.step, getattr(run, name), strict=True) if step >= first]
    return values or list(getattr(run, name))


def _smooth_end(values: Sequence[float]) -> float:
    """Where the smoothed line ends."""
    return _last(svg.running_mean(values, svg.window(len(values))).tolist())


def _last(values: Sequence[float]) -> float:
    return next((value for value in reversed(values) if math.isfinite(value)), math.nan)


def _power(value: float, _: object) -> str:
    """7e-4 rather than 0.0007."""
    if not value:
        return "0"
    digits, exponent = f"{value:.2e}".split("e")
    return f"{float(digits):g}e{units.fixed(int(exponent), 0)}"


def _style(arm: str, arms: Sequence[str]) -> tuple[str, object]:
    """Colour and dash of an arm; ink for what the arms share."""
    if arm not in arms:
        return svg.INK, "solid"
    index = list(arms).index(arm) % len(svg.ARMS)
    return svg.ARMS[index], svg.DASHES[index]


def evidence_plot(plot: Plot, arms: Sequence[str]) -> str:
    """The inline SVG of any plot of an evidence section; "" if it has no data."""
    return _series_plot(plot, arms) if isinstance(plot, SeriesPlot) else _interval_plot(plot, arms)


def _series_plot(plot: SeriesPlot, arms: Sequence[str]) -> str:
    series = [one for one in plot.series if len(one.x)]
    if not series:
        return ""
    height = 280.0
    room = min(150.0, 14 + max(len(one.name) for one in series) * 11 * svg.LETTER)
    palette = list(arms) if any(one.arm in arms for one in series) else [one.name for one in series]
    out: list[str] = []
    with svg.canvas(NARROW, height, plot.title, out) as figure:
        axes = figure.add_axes((SIDE / NARROW, 46 / height, 1 - (SIDE + room) / NARROW, 1 - 60 / height))
        axes.set_xlim(min(min(one.x) for one in series), max(max(one.x) for one in series))
        axes.set_ylim(*svg.bounds([part for one in series for part in (one.y, one.low, one.high)]))
        svg.plain_axes(axes, 6, 5)
        axes.set_xlabel(plot.x_label)
        axes.set_ylabel(plot.y_label)
        if plot.ticks:
            axes.xaxis.set_major_locator(FixedLocator(list(plot.ticks)))
            axes.xaxis.set_major_formatter(FixedFormatter(list(plot.ticks.values())))
        if plot.line is not None:
            axes.axhline(plot.line, color=svg.MUTED, linewidth=1, linestyle=(0, (4, 3)))
        ends: list[tuple[float, float, str, str]] = []
        right = axes.get_xlim()[1]
        for one in series:
            colour, dash = _style(one.arm if one.arm in palette else one.name, palette)
            if not one.arm and palette == list(arms):
                colour, dash = svg.MUTED, (0, (4, 2))  # what the arms are compared with
            if len(one.low) and len(one.high):
                axes.fill_between(one.x, one.low, one.high, color=colour, alpha=0.18, linewidth=0)
            svg.line(axes, one.x, one.y, colour, dash)
            ends.append((right, _last(one.y), one.name, colour))
        svg.label_ends(axes, ends)
    return out[0]


def _interval_plot(plot: IntervalPlot, arms: Sequence[str]) -> str:
    if not plot.rows:
        return ""
    rows: list[Interval | str] = []
    group = ""
    for row in plot.rows:
        if row.group != group:
            group = row.group
            if group:
                rows.append(group)
        rows.append(row)
    height = 62.0 + 24 * len(rows)
    names = max(len(row.label) + 2 * bool(row.group) for row in plot.rows)
    side = 16 + 11 * svg.LETTER * max([names, *(len(row) * 1.08 for row in rows if isinstance(row, str))])
    # Long names get the page's whole width.
    total = NARROW if side <= 220 else WIDE
    side = min(side, 460.0)
    letters = int((side - 16) / (11 * svg.LETTER)) - 2 * bool(group)
    room = 16 + 11 * svg.LETTER * max(len(_printed(plot, row)) for row in plot.rows)
    palette = (
        list(arms)
        if any(row.arm in arms for row in plot.rows)
        else list(dict.fromkeys(r.arm for r in plot.rows if r.arm))
    )
    out: list[str] = []
    with svg.canvas(total, height, plot.title, out) as figure:
        axes = figure.add_axes((side / total, 46 / height, 1 - (side + room) / total, 1 - 54 / height))
        axes.set_xlim(*svg.bounds([[0.0, -plot.band, plot.band], *(_ends(row) for row in plot.rows)]))
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.xaxis.set_major_locator(MaxNLocator(5))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: units.tick(value)))
        axes.grid(True, axis="x")
        axes.set_axisbelow(True)
        axes.yaxis.set_visible(False)
        axes.spines["left"].set_visible(False)
        axes.set_xlabel(plot.x_label)
        axes.axvline(0, color=svg.MUTED, linewidth=1)
        if plot.band:
            axes.axvspan(-plot.band, plot.band, color=svg.MUTED, alpha=0.15, linewidth=0)
        for y, row in enumerate(rows):
            if isinstance(row, str):
                _beside(axes, row, y, -side + 6, svg.INK, "bold")
                continue
            colour, _ = _style(row.arm, palette)
            index = palette.index(row.arm) if row.arm in palette else 0
            low, high = min(_ends(row)), max(_ends(row))
            axes.plot([low, high], [y, y], color=colour, linewidth=2.2, solid_capstyle="butt")
            axes.plot([row.value], [y], svg.MARKERS[index % 6], color=colour, markersize=7)
            lines = svg.wrap(row.label, letters)[:2]
            for line, drop in zip(lines, (6, -6) if len(lines) > 1 else (0,), strict=True):
                _beside(axes, line, y, -side + (18 if row.group else 6), svg.INK, drop=drop)
            _beside(axes, _printed(plot, row), y, 8, colour, right=True)
    return out[0]


def _printed(plot: IntervalPlot, row: Interval) -> str:
    """The numbers of a row, as they stand beside it."""
    low, high = min(_ends(row)), max(_ends(row))
    if plot.ranges:
        return f"{units.signed(low, plot.digits)} to {units.signed(high, plot.digits)}"
    half = "" if row.low is None else f" ± {(high - low) / 2:.{plot.digits}f}"
    return units.signed(row.value, plot.digits) + half


def _ends(row: Interval) -> list[float]:
    return [value for value in (row.low, row.value, row.high) if value is not None]


def _beside(
    axes: Axes,
    text: str,
    y: float,
    shift: float,
    colour: str,
    weight: str = "normal",
    right: bool = False,
    drop: float = 0,
) -> None:
    """Text left or right of the axes, at height y of the data."""
    axes.annotate(
        text, (1 if right else 0, y), xycoords=("axes fraction", "data"), xytext=(shift, drop),
        textcoords="offset points", va="center", ha="left", fontsize=11, color=colour, fontweight=weight,
    )  # fmt: skip
