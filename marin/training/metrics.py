"""Metrics of a run: one JSON line for each optimizer step, each step exactly once.

A line's ``step`` is the number of updates before it: loss and gradient are those of the weights
after ``step`` updates. ``tokens`` counts all phases, this step included. ``loss`` includes the
z-loss term. ``phase`` is what the learning rate does; ``changed``, where something does, what that is;
``guards``, in a run's first line, what keeps it from diverging. ``clipped_from`` is the norm of an update
that was clipped. What every few steps has more: marin.training.watching.

TIMINGS are the only values that differ between two executions of the same run by the same code. ``seconds``: since
the line before, of which ``loader_seconds`` for the batch and ``paused_seconds`` for looking at the weights and saving.
``tokens_per_second`` and ``mfu`` (the share of the chips' peak FLOP/s, where that is known) are of all the seconds.
``time``: of the clock, in seconds since 1970. ``process``, in the first line of each process: its code and machine.

A value that is NaN or infinite, which JSON has no word for, is null, and ``non_finite`` says which it was:
``{"grad_norm": null, "non_finite": {"grad_norm": "inf"}}``.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

from marin.errors import CorruptRecord
from marin.store.files.directory import Directory

METRICS = "metrics.jsonl"
TIMINGS = (
    "seconds", "loader_seconds", "paused_seconds", "watch_seconds", "tokens_per_second", "mfu", "time", "process",
)  # fmt: skip
NOT_JSON = re.compile("NaN|Infinity")  # as Python wrote them in older checkpoints


class MetricsLog:
    """Lines so far, and the live file ``metrics.jsonl`` in a local ``directory`` (elsewhere: none)."""

    def __init__(self, directory: Directory | None, name: str, lines: Iterable[str]) -> None:
        """Begins with ``lines``; whatever the live file held beyond them is cut."""
        self._lines = [as_json(json.loads(line)) if NOT_JSON.search(line) else line for line in lines]
        self._live: Path | None = None
        if directory is not None and directory.is_local:
            path = directory.path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            # Replaced, not truncated: a reader of the old file never sees half a line.
            temporary = path.with_name(name + ".tmp")
            temporary.write_text(self.text())
            os.replace(temporary, path)
            self._live = path

    def add(self, row: dict[str, Any]) -> None:
        line = as_json(row)
        if self._live is not None:
            with self._live.open("ab", buffering=0) as live:  # one write: nobody reads half a line
                whole, content = live.tell(), (line + "\n").encode()
                try:
                    written = live.write(content)
                    if written < len(content):  # the disk took a part; now it says why
                        live.write(content[written:])
                except OSError:
                    live.truncate(whole)
                    raise
        self._lines.append(line)

    def text(self) -> str:
        return "".join(line + "\n" for line in self._lines)


def non_finite(row: dict[str, Any]) -> dict[str, str]:
    """The values of a row that are NaN or infinite, as words: ``{"loss": "nan"}``."""
    return {name: str(held) for name, held in row.items() if isinstance(held, float) and not math.isfinite(held)}


def as_json(row: dict[str, Any]) -> str:
    if named := non_finite(row):
        row = {**row, **dict.fromkeys(named), "non_finite": named}
    return json.dumps(row, allow_nan=False)


def read_metrics(directory: Directory) -> list[dict[str, Any]]:
    """As ``parse_metrics``, of a folder."""
    return parse_metrics(directory.read_bytes(METRICS), f"{directory.url}/{METRICS}")


def parse_metrics(content: bytes, where: str) -> list[dict[str, Any]]:
    """The rows, in order, without a last one that is still being written. Raises CorruptRecord naming where a line is
    no JSON object."""
    rows: list[dict[str, Any]] = []
    for number, line in enumerate(content[: content.rfind(b"\n") + 1].splitlines(), start=1):
        try:
            row = json.loads(line)
        except ValueError as error:
            raise CorruptRecord(f"{where}, line {number} is not JSON: {line[:80]!r}") from error
        if not isinstance(row, dict):
            raise CorruptRecord(f"{where}, line {number} is no JSON object: {line[:80]!r}")
        rows.append(cast("dict[str, Any]", row))
    return rows
