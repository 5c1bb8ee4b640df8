"""Metrics of several trainings in one plot, running ones included."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from marin.errors import CorruptRecord
from marin.report.claims import Claim
from marin.report.page import figures
from marin.report.serve.looked import StoreView
from marin.store.attempts import parse_attempt
from marin.store.layout import state_name
from marin.store.lineage import output_of
from marin.training.metrics import METRICS, parse_metrics

CHECKPOINT = "checkpoint"  # kind of the artifacts that may hold metrics
MOST = 12  # curves in one plot


@dataclass(frozen=True)
class Training:
    """A training that the reader can choose."""

    identity: str
    name: str
    about: str  # its progress
    made: str
    folder: str  # of its metrics, below the store
    warnings: list[Claim]
    op: str = ""  # operator; "" of a running training
    step: int = 0  # the step that it reached


def trainings(looked: StoreView) -> list[Training]:
    """Return running trainings, then committed ones by operator, newest first.

    The operator that reached the latest step comes first, because milestones in the middle of a run have an operator of
    their own.
    """
    inventory, found = looked.inventory, list[Training]()
    for identity, claim in inventory.claims.items():
        attempt, folder = parse_attempt(claim.attempt), state_name(identity)
        if attempt is not None and METRICS in looked.store.objects.list(folder):
            state = "its process is gone" if claim.holder.is_gone() else f"running {claim.progress}"
            found.append(Training(identity, attempt.name, state, claim.since, folder, []))
    running = {each.identity for each in found}
    records = [each for each in inventory.newest_first() if each.kind == CHECKPOINT and each.identity not in running]
    warnings = looked.warnings(records)
    for record in records:
        loss, step = record.facts.get("loss"), record.facts.get("step")
        about = f"step {'?' if step is None else step}" + (f", loss {loss:.4g}" if isinstance(loss, float) else "")
        made, reached = record.provenance.ended, step if isinstance(step, int) else 0
        known = warnings[output_of(record)]
        found.append(Training(record.identity, record.name, about, made, record.attempt, known, record.op, reached))
    furthest = {"": math.inf}
    for each in found:
        furthest[each.op] = max(each.step, furthest.get(each.op, 0))
    return sorted(found, key=lambda each: (-furthest[each.op], each.op))


def curves_page(looked: StoreView, known: Sequence[Training], runs: Sequence[str], metric: str) -> dict[str, Any]:
    """Return the page. runs: beginnings of identities. Colours go by name, so that they stay when a training begins."""
    chosen = [each for each in known if any(each.identity.startswith(run) for run in runs if run)]
    left_out = f"trainings left out: {len(chosen) - MOST}; a plot holds at most {MOST}"
    problems = [left_out] if len(chosen) > MOST else []
    read: list[tuple[Training, list[dict[str, Any]]]] = []
    for training in sorted(chosen[:MOST], key=lambda each: each.name):
        try:
            read.append((training, _rows(looked, training)))
        except CorruptRecord as error:
            problems.append(str(error))
    metrics = list(dict.fromkeys(name for _, rows in read for name in _numbers(rows) if name != "step"))
    found = [(training, [row for row in rows if metric in row and "step" in row]) for training, rows in read]
    for (training, rows), (_, points) in zip(read, found, strict=True):
        if not points:
            problems.append(f"{training.name} has no {metric} by step; it has {', '.join(_numbers(rows)) or 'nothing'}")
    found = [(training, points) for training, points in found if points]
    values = [[_number(row[metric]) for row in points] for _, points in found]
    return {
        "drawn": [
            {
                "training": training,
                "points": len(y),
                "last": _last(y),
                "not_finite": sum(not math.isfinite(value) for value in y),
                "colour": colour,
            }
            for colour, ((training, _), y) in enumerate(zip(found, values, strict=True))
        ],
        "metrics": metrics,  # of any of the trainings
        "figure": _figure(found, values, metric),
        "problems": problems,  # why a chosen training is not in the figure
    }


def _figure(
    found: Sequence[tuple[Training, list[dict[str, Any]]]], values: Sequence[list[float]], metric: str
) -> dict[str, Any]:
    """Return the figure for the script of pages; {} if there is nothing to draw."""
    if not found:
        return {}
    axes = ["step", *(["tokens"] if all("tokens" in row for _, rows in found for row in rows) else [])]
    most = figures.MOST_POINTS // len(found)
    runs = [
        figures.curve(
            training.name, colour, {axis: [_number(row[axis]) for row in rows] for axis in axes}, {metric: y}, most
        )
        for colour, ((training, rows), y) in enumerate(zip(found, values, strict=True))
    ]
    return {"axes": axes, "panels": [metric], "runs": runs, "is_training": True}


def _last(values: Sequence[float]) -> str:
    """Return the mean over the last fortieth."""
    tail = [value for value in values[-max(len(values) // 40, 1) :] if math.isfinite(value)]
    return f"{sum(tail) / len(tail):.4g}" if tail else "–"


def _rows(looked: StoreView, training: Training) -> list[dict[str, Any]]:
    """Return the metrics. For a running training, without the line that is being written."""
    name = f"{training.folder}/{METRICS}"
    content = looked.store.objects.read(name)
    if content is None:
        raise CorruptRecord(f"{training.name} has no {METRICS}")
    return parse_metrics(content, f"{looked.store.prefix}/{name}")


def _numbers(rows: list[dict[str, Any]]) -> list[str]:
    """Return the names of metrics that are numbers in the first row or the last."""
    ends = [*rows[:1], *rows[-1:]]
    return list(dict.fromkeys(name for row in ends for name, value in row.items() if isinstance(value, int | float)))


def _number(value: Any) -> float:
    """Return a number. null stands for NaN or infinity, which JSON cannot write."""
    return float(value) if isinstance(value, int | float) else math.nan
