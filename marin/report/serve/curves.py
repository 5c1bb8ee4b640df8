"""Metrics of several trainings over one another, also of those that still run."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from marin.errors import CorruptRecord
from marin.report.page.model import Series, SeriesPlot
from marin.report.serve.looked import Caution, Looked
from marin.store.attempts import parse_attempt
from marin.store.layout import state_name
from marin.store.lease import State
from marin.store.lineage import output_of
from marin.store.record import Record
from marin.training.metrics import METRICS, parse_metrics

CHECKPOINT = "checkpoint"  # kind of the artifacts that may hold metrics
MILESTONE = "milestone"  # operator of checkpoints in the middle of a run, whose curve is its beginning
MOST = 12  # curves in one plot
WIDE, NARROW = (1120.0, 430.0), (470.0, 330.0)  # CSS pixels
_drawing = threading.Lock()  # matplotlib's settings are those of the process


@dataclass(frozen=True)
class Training:
    """A run that can be chosen."""

    identity: str
    name: str
    about: str  # how far it is or was
    made: str
    folder: str  # of its metrics, below the store
    warnings: list[Caution]
    is_milestone: bool = False


@dataclass(frozen=True)
class Drawn:
    training: Training
    series: Series
    last: str  # the mean over the last part that the running mean covers
    not_finite: int


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What is to be drawn. x: "step" or "tokens". window: of the running mean, 0 for a fitting one. since: least x."""

    runs: Sequence[str]
    metric: str
    x: str
    log_x: bool
    log_y: bool
    window: int
    since: float


@dataclass(frozen=True)
class CurvesPage:
    drawn: list[Drawn]
    metrics: list[str]  # that any of them has
    window: int
    plots: tuple[str, str]  # SVG, wide and narrow
    problems: list[str]  # why something chosen is not in the plot


def trainings(looked: Looked) -> list[Training]:
    """What runs first, then committed ones, newest first, and behind all of them milestones."""
    inventory, found = looked.inventory, list[Training]()
    for identity, lease in inventory.leases.items():
        attempt, folder = parse_attempt(lease.attempt), state_name(identity)
        if lease.state is State.HELD and attempt is not None and METRICS in looked.store.objects.list(folder):
            state = "its process is gone" if lease.holder.is_gone() else f"running {lease.progress}"
            found.append(Training(identity, attempt.name, state, lease.since, folder, []))
    running = {each.identity for each in found}
    records = [each for each in inventory.newest_first() if each.kind == CHECKPOINT and each.identity not in running]
    warnings = looked.warnings(records)
    found += [_committed(record, warnings[output_of(record)]) for record in records]
    return sorted(found, key=lambda each: each.is_milestone)


def _committed(record: Record, warnings: list[Caution]) -> Training:
    loss = record.facts.get("loss")
    about = f"step {record.facts.get('step', '?')}" + (f", loss {loss:.4g}" if isinstance(loss, float) else "")
    started, is_milestone = record.provenance.started, record.op == MILESTONE
    return Training(record.identity, record.name, about, started, record.attempt, warnings, is_milestone)


def curves_page(looked: Looked, known: Sequence[Training], asked: Asked) -> CurvesPage:
    chosen = [each for each in known if any(each.identity.startswith(run) for run in asked.runs if run)]
    problems = (
        [f"{len(chosen) - MOST} of them are left out: at most {MOST} fit into a plot"] if len(chosen) > MOST else []
    )
    read: list[tuple[Training, list[dict[str, Any]]]] = []
    for training in chosen[:MOST]:
        try:
            read.append((training, _rows(looked, training)))
        except CorruptRecord as error:
            problems.append(str(error))
    metrics = list(dict.fromkeys(name for _, rows in read for name in _numbers(rows) if name != asked.x))
    found: list[tuple[Training, list[float], list[float]]] = []
    for training, rows in read:
        if not any(asked.metric in row and asked.x in row for row in rows):
            problems.append(
                f"{training.name} has no {asked.metric} by {asked.x}: {', '.join(_numbers(rows)) or 'nothing'}"
            )
            continue
        points = [(_number(row.get(asked.x)), _number(row.get(asked.metric))) for row in rows]
        points = [(x, y) for x, y in points if math.isfinite(x) and x >= asked.since and (x > 0 or not asked.log_x)]
        found.append((training, [x for x, _ in points], [y for _, y in points]))
    window = asked.window or _window(max((len(x) for _, x, _ in found), default=0))
    drawn = [_drawn(training, x, y, window) for training, x, y in found]
    return CurvesPage(drawn, metrics, window, _plots([each.series for each in drawn], asked, window), problems)


def _window(longest: int) -> int:
    from marin.report.page import svg  # matplotlib: a second

    return svg.window(longest) if longest else 1


def _drawn(training: Training, x: list[float], y: list[float], window: int) -> Drawn:
    tail = [value for value in y[-window:] if math.isfinite(value)]
    last = f"{sum(tail) / len(tail):.4g}" if tail else "–"
    bad = sum(not math.isfinite(value) for value in y)
    return Drawn(training, Series(name=training.name, x=x, y=y), last, bad)


def _plots(series: list[Series], asked: Asked, window: int) -> tuple[str, str]:
    if not any(one.x for one in series):
        return "", ""
    from marin.report.page.overlay import overlay_plot

    def draw(title: str, size: tuple[float, float]) -> str:
        plot = SeriesPlot(title=title, x_label=asked.x, y_label=asked.metric, series=series)
        scales = {"log_x": asked.log_x, "log_y": asked.log_y}
        return overlay_plot(plot, window=window, **scales, width=size[0], height=size[1])

    with _drawing:
        return draw("Curves", WIDE), draw("Curves, narrow", NARROW)


def _rows(looked: Looked, training: Training) -> list[dict[str, Any]]:
    """Of a run that goes on: without the line that is being written."""
    name = f"{training.folder}/{METRICS}"
    content = looked.store.objects.read(name)
    if content is None:
        raise CorruptRecord(f"{training.name} has no {METRICS}")
    return parse_metrics(content, f"{looked.store.prefix}/{name}")


def _numbers(rows: list[dict[str, Any]]) -> list[str]:
    """Metrics that are numbers, by the first row and the last."""
    ends = [*rows[:1], *rows[-1:]]
    return list(dict.fromkeys(name for row in ends for name, value in row.items() if isinstance(value, int | float)))


def _number(value: Any) -> float:
    """null is NaN or infinite, which JSON has no word for."""
    return float(value) if isinstance(value, int | float) else math.nan
