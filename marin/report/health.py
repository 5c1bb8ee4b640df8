"""The health of a training by its metrics, as ``marin status --health``, the live view and the page show it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from marin.errors import UnknownStep
from marin.report.table import say
from marin.store.attempts import attempts_called, standing, written_by
from marin.store.files.directory import Directory
from marin.store.numbers import counted
from marin.store.store import open_store
from marin.training.metrics import METRICS, parse_metrics, read_metrics

if TYPE_CHECKING:
    from marin.training.health.findings import Finding


@dataclass(frozen=True)
class Metrics:
    """The metrics of one training. name: of the step, or the folder. about: whether it runs, and since when."""

    name: str
    about: str
    rows: list[dict[str, Any]]


def findings_of(rows: Sequence[dict[str, Any]]) -> list[Finding]:
    from marin.training.health.findings import findings  # numpy

    return findings(rows)


def metrics_of(run: str, prefix: str, *, latest: bool = False) -> Metrics:
    """Return the metrics of a training.

    run: a folder with metrics.jsonl, or a step: op/label, label, first digits of an identity, path of an attempt. If
    the last attempt of a step did not end well, the metrics come from its work in progress. Raises UnknownStep if there
    are none, and the errors of ``attempts_called``.
    """
    folder = Path(run)
    if (folder / METRICS).is_file():
        return Metrics(run, "a folder", read_metrics(Directory(run)))
    store = open_store(prefix)
    attempt = attempts_called(store, run, latest=latest, holding=METRICS)[-1]
    state, about = standing(store, attempt)
    if (written := written_by(store, attempt, METRICS)) is not None:
        name, content = written
        return Metrics(attempt.name, f"{state} {about}".strip(), parse_metrics(content, f"{prefix}/{name}"))
    raise UnknownStep(
        f"{attempt.name} ({state}) has no {METRICS}; a training writes one from its first step on, and to a remote "
        "store when it ends"
    )


def print_health(console: Console, metrics: Metrics, found: Sequence[Finding]) -> None:
    ill, over = [each for each in found if each.ill], [each for each in found if not each.ill]
    verdict, rows = counted(len(ill), "finding") if ill else "healthy", metrics.rows
    steps = f"steps {rows[0]['step']:,} to {rows[-1]['step']:,}" if rows else "no step yet"
    say(console, f"{metrics.name}, {metrics.about}, {steps}: {verdict}", "bold")
    for each in [*ill, *over]:
        if over and each is over[0]:
            say(console, "\npast, or intended", "dim")
        say(console, f"{each.kind.value}: {each.text}", "red" if each.ill else "")
        for cause in each.causes:
            say(console, f"  {cause}", "dim")
