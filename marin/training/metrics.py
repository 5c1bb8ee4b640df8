"""Metrics of a run: one JSON line for each optimizer step, each step exactly once.

A line's ``step`` is the number of updates before it: loss and gradient are those of the weights
after ``step`` updates. ``tokens`` counts all phases, this step included. ``loss`` includes the
z-loss term. ``seconds`` and ``tokens_per_second`` are the only values that differ between two
executions of the same run. A value that is NaN or infinite, which JSON has no word for, is null, and
``non_finite`` says which it was: ``{"grad_norm": null, "non_finite": {"grad_norm": "inf"}}``.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from marin.errors import UnreadableCheckpoint
from marin.store.files.directory import Directory

TIMINGS = ("seconds", "tokens_per_second")
NOT_JSON = re.compile("NaN|Infinity")  # as Python wrote them in older checkpoints


class MetricsLog:
    """Lines so far, and the live file ``metrics.jsonl`` in a local ``directory`` (elsewhere: none)."""

    def __init__(self, directory: Directory, name: str, lines: Iterable[str]) -> None:
        """Begins with ``lines``; whatever the live file held beyond them is cut."""
        self._lines = [as_json(json.loads(line)) if NOT_JSON.search(line) else line for line in lines]
        self._live: Path | None = None
        if directory.is_local:
            path = directory.path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            # Replaced, not truncated: a reader of the old file never sees half a line.
            temporary = path.with_name(name + ".tmp")
            temporary.write_text(self.text())
            os.replace(temporary, path)
            self._live = path

    def add(self, row: dict[str, Any]) -> None:
        line = as_json(row)
        self._lines.append(line)
        if self._live is not None:
            with self._live.open("a", encoding="utf-8") as live:
                live.write(line + "\n")

    def text(self) -> str:
        return "".join(line + "\n" for line in self._lines)


def non_finite(row: dict[str, Any]) -> dict[str, str]:
    """The values of a row that are NaN or infinite, as words: ``{"loss": "nan"}``."""
    return {name: str(held) for name, held in row.items() if isinstance(held, float) and not math.isfinite(held)}


def as_json(row: dict[str, Any]) -> str:
    if named := non_finite(row):
        row = {**row, **dict.fromkeys(named), "non_finite": named}
    return json.dumps(row, allow_nan=False)


def read_metrics(directory: Directory, name: str = "metrics.jsonl") -> list[dict[str, Any]]:
    """All lines, in order. Raises UnreadableCheckpoint naming a line that is not JSON."""
    rows: list[dict[str, Any]] = []
    for number, line in enumerate(directory.read_text(name).splitlines(), start=1):
        try:
            rows.append(json.loads(line))
        except ValueError as error:
            raise UnreadableCheckpoint(f"{directory.url}/{name}, line {number} is not JSON: {line[:80]!r}") from error
    return rows
