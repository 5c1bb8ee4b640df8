"""Metrics of a run: one JSON line for each optimizer step, each step exactly once.

A line's ``step`` is the number of updates before it: loss and gradient belong to the weights after ``step`` updates.
``tokens`` counts all phases, this step included. ``loss`` includes the z-loss term. ``phase`` is the phase of the
learning rate. ``changed`` lists the planned changes at this step, if any. ``guards``, in a run's first line, are the
guards against divergence. ``clipped_from`` is the norm of an update before it was clipped. Every few steps a line has
more values: see marin.training.watching.

TIMINGS are the only values that differ between two executions of the same run by the same code. ``seconds``: since
the line before. They include ``loader_seconds`` for the batch and ``paused_seconds`` for watching the weights and
saving. ``tokens_per_second`` and ``mfu`` (share of the chips' peak FLOP/s, if the peak is known) refer to ``seconds``.
``time``: the clock, in seconds since 1970. ``process``, in the first line of each process: its code and machine.

JSON has no word for NaN and infinity. A NaN or infinite value is null, and ``non_finite`` names it:
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
    """The lines so far, and their live file ``name`` if ``directory`` is local (otherwise no file)."""

    def __init__(self, directory: Directory | None, name: str, lines: Iterable[str]) -> None:
        """Begin with ``lines``, and cut any other lines from the live file."""
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
                    if written < len(content):  # the disk took only a part; a second write raises the reason
                        live.write(content[written:])
                except OSError:
                    live.truncate(whole)
                    raise
        self._lines.append(line)

    def text(self) -> str:
        return "".join(line + "\n" for line in self._lines)


def non_finite(row: dict[str, Any]) -> dict[str, str]:
    """Return the values of a row that are NaN or infinite, as words: ``{"loss": "nan"}``."""
    return {name: str(held) for name, held in row.items() if isinstance(held, float) and not math.isfinite(held)}


def as_json(row: dict[str, Any]) -> str:
    if named := non_finite(row):
        row = {**row, **dict.fromkeys(named), "non_finite": named}
    return json.dumps(row, allow_nan=False)


def read_metrics(directory: Directory) -> list[dict[str, Any]]:
    """Return the rows of a folder's metrics.jsonl, see ``parse_metrics``."""
    return parse_metrics(directory.read_bytes(METRICS), f"{directory.url}/{METRICS}")


def parse_metrics(content: bytes, where: str) -> list[dict[str, Any]]:
    """Return the rows in order, without an unfinished last line.

    Raises CorruptRecord, with the line's number, for a line that is no JSON object.
    """
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
