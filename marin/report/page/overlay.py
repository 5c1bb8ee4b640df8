# pyright: basic
"""Curves of several runs over one another: what was measured, faint, behind its running mean.

Importing this imports matplotlib (about a second): do it where a plot is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from marin.report import units
from marin.report.page import svg
from marin.report.page.model import SeriesPlot

SIDE, ABOVE, BELOW = 58.0, 16.0, 44.0  # CSS pixels around the axes
LONGEST_NAME = 170.0


def overlay_plot(plot: SeriesPlot, *, window: int, log_x: bool, log_y: bool, width: float, height: float) -> str:
    """One inline SVG; "" if no series has a finite value. A page may hold several if their titles differ.

    window: values that a point of the running mean covers; 1 for none.
    """
    series = [one for one in plot.series if np.isfinite(np.asarray(one.y, float)).any()]
    if not series:
        return ""
    room = min(LONGEST_NAME, 14 + max(len(one.name) for one in series) * 11 * svg.LETTER) if width >= svg.PAGE else 8.0
    out: list[str] = []
    with svg.canvas(width, height, plot.title, out) as figure:
        axes = figure.add_axes(
            (SIDE / width, BELOW / height, 1 - (SIDE + room) / width, 1 - (ABOVE + BELOW) / height),
            xscale="log" if log_x else "linear",
            yscale="log" if log_y else "linear",
        )
        axes.set_xlim(*_ends([one.x for one in series], log_x, 0.01))
        axes.set_ylim(*_ends([one.y for one in series], log_y, 0.05))
        svg.plain_axes(axes, 7 if width >= svg.PAGE else 5, 6)
        for axis, log in ((axes.xaxis, log_x), (axes.yaxis, log_y)):
            if log:
                _log_ticks(axes, axis)
        axes.set_xlabel(plot.x_label)
        axes.set_ylabel(plot.y_label)
        ends: list[tuple[float, float, str, str]] = []
        for one, (colour, dash) in zip(plot.series, _styles(plot), strict=True):
            if one not in series:
                continue
            svg.line(axes, one.x, one.y, colour, dash, 1.8, over=window)
            smooth = svg.running_mean(one.y, window)
            last = smooth[np.isfinite(smooth)][-1]
            if one.x[-1] >= 0.98 * max(each.x[-1] for each in series):  # elsewhere it would lie on other curves
                ends.append((float(one.x[-1]), float(last), one.name, colour))
        if room > 8.0 and not log_y:
            svg.label_ends(axes, ends)
    return out[0]


def _styles(plot: SeriesPlot) -> list[tuple[str, object]]:
    """Dashes would be lost among noise: only where the colours come round again."""
    count = len(svg.ARMS)
    return [(svg.ARMS[index % count], svg.DASHES[index // count % count]) for index in range(len(plot.series))]


def _ends(values: Sequence[Sequence[float]], log: bool, pad: float) -> tuple[float, float]:
    """Of everything that can be shown, with room beside it."""
    flat = np.concatenate([np.asarray(part, float) for part in values])
    flat = flat[np.isfinite(flat) & (flat > 0 if log else True)]
    if not len(flat):
        return (0.1, 1.0) if log else (0.0, 1.0)
    low, high = (float(np.log(end) if log else end) for end in (flat.min(), flat.max()))
    room = (high - low) * pad or abs(high) * pad or 0.5
    low, high = low - room, high + room
    return (float(np.exp(low)), float(np.exp(high))) if log else (low, high)


def _log_ticks(axes: Axes, axis: object) -> None:
    low, high = axes.get_xlim() if axis is axes.xaxis else axes.get_ylim()
    subs = (1.0,) if high / low > 1000 else (1.0, 2.0, 5.0) if high / low > 10 else tuple(np.arange(1.0, 10.0, 0.5))
    axis.set_major_locator(LogLocator(subs=subs, numticks=12))  # pyright: ignore[reportAttributeAccessIssue]
    axis.set_minor_formatter(NullFormatter())  # pyright: ignore[reportAttributeAccessIssue]
    axis.set_major_formatter(FuncFormatter(lambda value, _: units.tick(value)))  # pyright: ignore[reportAttributeAccessIssue]
