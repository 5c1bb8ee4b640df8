# pyright: basic
"""matplotlib figures as inline SVG that takes its colours from the page. The one module that imports matplotlib.

Colours are the page's CSS variables, so that one file serves light, dark and print: matplotlib draws with
stand-in colours, which are replaced by ``var(--…)`` in its output. Equal input gives equal bytes.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from html import escape
from typing import Any, cast

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from marin.report import units

# Stand-ins: unlikely colours, one for each CSS variable of the page.
INK, MUTED, RULE, BAND, PAPER = "#010a01", "#010a02", "#010a03", "#010a04", "#010a05"
ARMS = ("#010b00", "#010b01", "#010b02", "#010b03", "#010b04", "#010b05")
_VARIABLES = {INK: "ink", MUTED: "muted", RULE: "rule", BAND: "band", PAPER: "paper"} | {
    colour: f"arm{index}" for index, colour in enumerate(ARMS)
}
# Arms differ in dash as well as in colour: a grey print tells them apart.
DASHES: tuple[Any, ...] = ("solid", (0, (4.5, 1.6)), (0, (1.2, 1.4)), (0, (6, 1.5, 1.2, 1.5)), "solid", (0, (3, 1)))
MARKERS = ("o", "s", "^", "D", "v", "P")
PAGE = 1120.0  # CSS pixels of the page's text
MOST_POINTS = 700  # of a line; longer ones are drawn as bucket means over a band from minimum to maximum
LETTER = 0.58  # mean advance of a sans-serif letter, in font sizes

_SETTINGS = {
    "svg.hashsalt": "marin",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 11,
    "text.parse_math": False,  # names come from outside; a "$" is a dollar
    "text.color": INK,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": MUTED,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.unicode_minus": True,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
    "xtick.major.size": 3,
    "ytick.major.size": 3,
    "grid.color": RULE,
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.5,
    "path.simplify": True,
}


@contextmanager
def canvas(width: float, height: float, title: str, out: list[str]) -> Iterator[Figure]:
    """A figure of this size in CSS pixels; its SVG is appended to ``out`` when the block ends."""
    with mpl.rc_context(cast(Any, _SETTINGS)):
        figure = Figure(figsize=(width / 72, height / 72), dpi=72)
        FigureCanvasSVG(figure)
        figure.patch.set_visible(False)
        yield figure
        for axes in figure.axes:
            axes.patch.set_visible(False)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    out.append(_inline(buffer.getvalue(), title, width))


def _inline(svg: str, title: str, width: float) -> str:
    """matplotlib's file as an element of an HTML page: no prolog, no metadata, no ids that could collide."""
    svg = svg[svg.index("<svg") :].strip()
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.S)
    svg = re.sub(r'<style type="text/css">.*?</style>', "", svg, flags=re.S)
    svg = re.sub(r"<defs>\s*</defs>\s*", "", svg)
    svg = re.sub(r"<!--.*?-->\s*", "", svg, flags=re.S)
    svg = svg.replace("xlink:href", "href")
    used = set(re.findall(r'(?:href="#|url\(#)([\w.-]+)', svg))
    prefix = re.sub(r"\W+", "-", title.lower())[:40]
    svg = re.sub(r' id="([^"]*)"', lambda m: f' id="{prefix}-{m[1]}"' if m[1] in used else "", svg)
    svg = re.sub(r'(href="#|url\(#)', rf"\g<1>{prefix}-", svg)
    for colour, name in _VARIABLES.items():
        svg = svg.replace(colour, f"var(--{name})")
    svg = re.sub(r"font-family: [^;\"]*(; )?", "", svg)  # the page's font is used
    opening = re.match(r"<svg[^>]*>", svg)
    assert opening is not None
    box = re.search(r'viewBox="[^"]*"', opening[0])
    assert box is not None
    kind = "plot whole" if width >= PAGE else "plot"
    return f'<svg class="{kind}" {box[0]} width="{width:g}" role="img" aria-label="{escape(title)}">' + re.sub(
        r">\s+<", "><", svg[opening.end() :]
    )


def thin(x: Sequence[float], y: Sequence[float]) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, np.ndarray | None]:
    """At most MOST_POINTS of a line: x, mean, and minimum and maximum per bucket (None when nothing was merged)."""
    x_values, y_values = np.asarray(x, float), np.asarray(y, float)
    if len(x_values) <= MOST_POINTS:
        return x_values, y_values, None, None
    starts = np.linspace(0, len(x_values), MOST_POINTS, endpoint=False).astype(int)
    finite = np.isfinite(y_values)
    counts = np.maximum(np.add.reduceat(finite, starts, dtype=int), 1)
    mean = np.add.reduceat(np.where(finite, y_values, 0.0), starts) / counts
    low = np.minimum.reduceat(np.where(finite, y_values, np.inf), starts)
    high = np.maximum.reduceat(np.where(finite, y_values, -np.inf), starts)
    gone = ~np.isfinite(low)
    for values in (mean, low, high):
        values[gone] = np.nan
    return x_values[starts], mean, low, high


def line(
    axes: Axes,
    x: Sequence[float],
    y: Sequence[float],
    colour: str,
    dash: Any = "solid",
    width: float = 1.5,
    *,
    over: int = 1,
) -> None:
    """A line, thinned if it is long, with the range of what was merged as a band.

    over: as the mean over so many values around each, with the line itself pale behind it.
    """
    xs, mean, low, high = thin(x, y)
    if low is not None and high is not None:
        axes.fill_between(xs, low, high, color=colour, alpha=0.3, linewidth=0.5)
    if over > 1:
        if low is None:
            axes.plot(xs, mean, color=colour, linewidth=0.8, alpha=0.35, solid_joinstyle="round")
        xs, mean, _, _ = thin(x, running_mean(y, over).tolist())
    axes.plot(xs, mean, color=colour, linestyle=dash, linewidth=width, solid_joinstyle="round")


def window(count: int) -> int:
    """Over how many values a curve of so many is smoothed: an odd number, 1 for a short curve."""
    return 2 * max(2, count // 40) + 1 if count >= 24 else 1


def running_mean(values: Sequence[float], over: int) -> np.ndarray:
    """The mean of each value and its neighbours, of fewer at the ends; NaN where the value is none or infinite."""
    array = np.asarray(values, float)
    finite = np.isfinite(array)
    sums = np.concatenate([[0.0], np.cumsum(np.where(finite, array, 0.0))])
    counts = np.concatenate([[0], np.cumsum(finite)])
    at = np.arange(len(array))
    low, high = np.maximum(at - over // 2, 0), np.minimum(at + over // 2 + 1, len(array))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(finite, (sums[high] - sums[low]) / (counts[high] - counts[low]), np.nan)


def spread_labels(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Positions near the wanted ones, at least ``gap`` apart and inside [low, high] if they fit."""
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    placed: list[float] = []
    for index in order:
        at = min(max(wanted[index], low), high)
        placed.append(at if not placed else max(at, placed[-1] + gap))
    overflow = placed[-1] - high if placed else 0.0
    for index in range(len(placed) - 1, -1, -1):
        if overflow <= 0:
            break
        placed[index] = min(placed[index], high - gap * (len(placed) - 1 - index))
    result = [0.0] * len(wanted)
    for index, at in zip(order, placed, strict=True):
        result[index] = at
    return result


def pixels(axes: Axes) -> tuple[float, float]:
    """Width and height of the axes in CSS pixels."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    width, height = figure.get_size_inches() * 72
    place = axes.get_position()
    return float(place.width * width), float(place.height * height)


def label_ends(axes: Axes, ends: Sequence[tuple[float, float, str, str]], size: float = 11) -> None:
    """Names at the right end of lines: (x, y, text, colour), moved apart where they would touch."""
    finite = [end for end in ends if math.isfinite(end[1])]
    if not finite:
        return
    bottom, top = axes.get_ylim()
    height = pixels(axes)[1]
    gap = (top - bottom) * (size * 1.25) / height
    places = spread_labels([end[1] for end in finite], gap, bottom, top)
    for (x, _, text, colour), y in zip(finite, places, strict=True):
        axes.annotate(
            text, (x, y), xytext=(5, 0), textcoords="offset points", color=colour, fontsize=size,
            va="center", fontweight="bold", annotation_clip=False,
        )  # fmt: skip


def wrap(text: str, letters: int) -> list[str]:
    """Lines of at most so many letters, broken after spaces, underscores, slashes and hyphens, else anywhere."""
    lines = [""]
    for piece in re.findall(r"[^ _/-]*[ _/-]?", text):
        while len(piece.rstrip()) > letters:
            room = letters - len(lines[-1])
            lines[-1] += piece[:room]
            piece = piece[room:]
            lines.append("")
        if len(lines[-1] + piece.rstrip()) > letters:
            lines.append("")
        lines[-1] += piece
    return [line.rstrip() for line in lines if line.strip()]


def mark_events(axes: Axes, events: Sequence[tuple[float, str]], size: float = 10) -> None:
    """Vertical lines with their texts at the top, on as many rows as it takes not to overlap; "" is a bare line.

    A text that fits on neither side of its line is broken into several rows.
    """
    left, right = axes.get_xlim()
    width, height = pixels(axes)
    scale = (right - left) / width
    taken: list[float] = []
    for at, text in sorted(events):
        if not left <= at <= right:
            continue
        room = max(right - at, at - left) / scale - 10
        lines = wrap(text, max(8, int(room / (LETTER * size))))
        length = (max(map(len, lines), default=0) * LETTER * size + 10) * scale
        flip = at + length > right
        start = at - length if flip else at
        # From the left: a later line ends below the text of an earlier one that reaches over it.
        row = 0
        while any(end >= start for end in taken[row : row + len(lines)]):
            row += 1
        taken += [-math.inf] * (row + len(lines) - len(taken))
        taken[row : row + len(lines)] = [start + length] * len(lines)
        top = 1 - (8 + row * size * 1.4) / height
        reach = min(1.0, top + size * 0.5 / height)
        axes.axvline(at, ymax=reach, color=MUTED, linewidth=0.8, linestyle=(0, (2, 2)), zorder=1)
        for index, line in enumerate(lines):
            axes.annotate(
                line, (at, top - index * size * 1.4 / height), xycoords=("data", "axes fraction"),
                xytext=(-4 if flip else 4, 0), textcoords="offset points", fontsize=size, color=MUTED,
                va="center", ha="right" if flip else "left", zorder=4,
            )  # fmt: skip


def shade_phases(axes: Axes, phases: Sequence[tuple[float, float, str]], names: bool) -> None:
    """Every other phase on a band; names above the axes."""
    left, right = axes.get_xlim()
    for index, (first, end, name) in enumerate(phases):
        first, end = max(first, left), min(end, right)
        if first >= end:
            continue
        if index % 2:
            axes.axvspan(first, end, color=BAND, linewidth=0, zorder=0)
        # A name much wider than its phase would lie on its neighbours'.
        if names and (end - first) / (right - left) * pixels(axes)[0] > 0.6 * LETTER * 11 * len(name):
            axes.annotate(
                name, ((first + end) / 2, 1), xycoords=("data", "axes fraction"), xytext=(0, 5),
                textcoords="offset points", ha="center", va="bottom", fontsize=11, fontweight="bold",
            )  # fmt: skip


def plain_axes(axes: Axes, x_ticks: int = 8, y_ticks: int = 5) -> None:
    """Few ticks, short numbers, horizontal rules."""
    axes.yaxis.set_major_locator(MaxNLocator(y_ticks, min_n_ticks=2))
    axes.xaxis.set_major_locator(MaxNLocator(x_ticks, min_n_ticks=2))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: units.tick(value)))
    axes.grid(True, axis="y")
    axes.set_axisbelow(True)


def bounds(values: Sequence[Sequence[float]], low: float = 0.0, high: float = 100.0) -> tuple[float, float]:
    """Percentiles over the finite values of several lines, padded; (0, 1) if there are none."""
    parts = [np.asarray(part, float) for part in values if len(part)]
    flat = np.concatenate(parts) if parts else np.empty(0)
    flat = flat[np.isfinite(flat)]
    if not len(flat):
        return 0.0, 1.0
    bottom, top = (float(value) for value in np.percentile(flat, [low, high]))
    pad = (top - bottom) * 0.06 or abs(top) * 0.05 or 0.5
    return bottom - pad, top + pad


def monotone(steps: Sequence[float], tokens: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    """Pairs (step, tokens) of several runs, sorted, strictly increasing in both, for an axis of tokens."""
    pairs: dict[float, float] = {}
    for step, token in zip(steps, tokens, strict=True):
        pairs[step] = max(token, pairs.get(step, token))
    kept: list[tuple[float, float]] = []
    for step, token in sorted(pairs.items()):
        if not kept or token > kept[-1][1]:
            kept.append((step, token))
    return np.array([k[0] for k in kept]), np.array([k[1] for k in kept])
