"""A running step as the driver sees it: progress, time left, and a training's loss and speed."""

from __future__ import annotations

import json
import math
import re
import time
from collections import deque
from contextlib import suppress
from statistics import median
from typing import TYPE_CHECKING, Any

from marin.errors import MarinError
from marin.report.health import findings_of
from marin.steps.step import ExecutorStep
from marin.store.ends import read_claims
from marin.store.layout import state_name
from marin.store.numbers import write_count, write_duration
from marin.store.store import Store
from marin.training.metrics import METRICS

if TYPE_CHECKING:
    from marin.training.health.findings import Finding

MOST_BYTES = 1 << 20  # of metrics that one look reads; the last ones, if there are more
LOOKED_AT = 4_000  # optimizer steps by which the health of a training is judged
JUDGED_EVERY = 10.0  # seconds
BETWEEN = 50  # optimizer steps; before them the health cannot be judged
RECENT = 20  # optimizer steps whose time gives the speed
BARS = "▁▂▃▄▅▆▇█"
_PROGRESS = re.compile(r"([\d,]+)/([\d,]+) (\w+)(?: · (.*))?")  # as Context.progress writes it
_LOSS = re.compile(r"\bloss (\S+)")


class RunningStep:
    """One step since it began."""

    def __init__(self, step: ExecutorStep[Any], store: Store, last_time: float | None) -> None:
        """last_time: seconds that this step, or another step of its operator, took."""
        self.step, self.last_time = step, last_time
        self.began = time.monotonic()
        self.trains = step.work() is not None
        self.losses: list[float] = []
        self._store = store
        self._done, self._total, self._unit, self._note = 0, 0, "", ""
        self._first: tuple[float, int] | None = None  # (time, progress) when progress was first seen
        self._seconds: deque[float] = deque(maxlen=RECENT)
        self._speeds: deque[float] = deque(maxlen=RECENT)
        self._rows: deque[dict[str, Any]] = deque(maxlen=LOOKED_AT)
        self._judged = -math.inf  # time of the last judgement
        self._told: list[Finding] = []
        self._read = -1  # bytes of the metrics; -1 before the first look
        self._after = 0  # number of an attempt that has ended, so that each look reads only what came later

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self.began

    def look(self) -> None:
        """Read the current progress. A failed read is tried again at the next look."""
        with suppress(MarinError, OSError):
            claim = read_claims(self._store.objects, {self.step.identity: self._after}).get(self.step.identity)
            self._after = claim.number - 1 if claim is not None else self._after
            self._take(claim.progress if claim is not None else "")
        if self.trains and not self._store.objects.is_remote:  # for a remote store, the worker keeps the file
            with suppress(OSError, ValueError, KeyError):
                self._read_metrics()

    def _take(self, progress: str) -> None:
        if (said := _PROGRESS.fullmatch(progress)) is None:
            self._note = progress or self._note
            return
        done, total = (int(said[part].replace(",", "")) for part in (1, 2))
        self._total, self._unit, self._note = total, said[3], said[4] or ""
        if done > self._done and self._read <= 0 and (loss := _LOSS.search(self._note)) is not None:
            with suppress(ValueError):
                self.losses.append(float(loss[1]))
        self._done = max(done, self._done)
        if self._first is None:
            self._first = time.monotonic(), done

    def _read_metrics(self) -> None:
        path = self._store.directory.path / state_name(self.step.identity) / METRICS
        with path.open("rb") as metrics:
            size = metrics.seek(0, 2)
            start = self._read if 0 <= self._read <= size else 0  # a shorter file was restarted
            metrics.seek(max(start, size - MOST_BYTES))
            added = metrics.read()
        if start == 0:
            self.losses.clear()
            self._rows.clear()
        whole = added[: added.rfind(b"\n") + 1]
        self._read = size - (len(added) - len(whole))
        for line in whole.splitlines()[1 if size - len(added) > start else 0 :]:
            row = json.loads(line)
            self._rows.append(row)
            self._done = int(row["step"]) + 1
            self.losses.append(math.nan if row["loss"] is None else row["loss"])
            for kept, name in ((self._seconds, "seconds"), (self._speeds, "tokens_per_second")):
                if name in row:
                    kept.append(row[name])

    def ills(self) -> list[Finding]:
        """Return health problems of a training that this method has not returned before."""
        if len(self._rows) < BETWEEN or time.monotonic() < self._judged + JUDGED_EVERY:
            return []
        found = [each for each in findings_of(list(self._rows)) if each.ill]
        new = [each for each in found if not any(each.is_like(earlier) for earlier in self._told)]
        self._told += new
        self._judged = time.monotonic()
        return new

    @property
    def left(self) -> float | None:
        """Seconds until the end at the speed so far; None if unknown."""
        if self._total and self._seconds:
            return max(self._total - self._done, 0) * median(self._seconds)
        if self._first is not None and self._done > self._first[1]:
            since, at = self._first
            return (self._total - self._done) * (time.monotonic() - since) / (self._done - at)
        return None

    def how_far(self) -> str:
        """Return "46 s, 30/80 steps, 52 s left", or "12 s, the one before took 35 s"."""
        parts = [whole_seconds(self.elapsed)]
        if self._total:
            parts.append(f"{self._done:,}/{self._total:,} {self._unit}")
        elif self._note:
            parts.append(self._note)
        if (left := self.left) is not None:
            parts.append(f"{whole_seconds(left)} left")
        elif self.last_time is not None:
            parts.append(f"the one before took {whole_seconds(self.last_time)}")
        return ", ".join(parts)

    def measured(self, bars: int = 0) -> str:
        """Return "loss 4.549 ▇▆▅▃▂ 7.37K tokens/s" for a training, or another step's note. bars: width of the curve."""
        parts: list[str] = []
        if self.losses:
            line = sparkline(self.losses, bars)
            parts.append(f"loss {self.losses[-1]:.3f}{f' {line}' if line else ''}")
        elif self._note and self._total:
            parts.append(self._note)
        if self._speeds:
            parts.append(f"{write_count(float(f'{median(self._speeds):.3g}'))} tokens/s")
        return ", ".join(parts)


def whole_seconds(seconds: float) -> str:
    """Return ``3 s`` or ``3 min 5 s``. A value that changes under the reader's eyes has no decimals."""
    return f"{seconds:.0f} s" if seconds < 59.5 else write_duration(seconds)


def sparkline(values: list[float], width: int) -> str:
    """Return a curve of at most ``width`` characters. Each one is a mean; " " stands for no finite value."""
    count = min(width, len(values))
    if count < 2:
        return ""
    means: list[float] = []
    for place in range(count):
        share = values[place * len(values) // count : (place + 1) * len(values) // count]
        finite = [value for value in share if math.isfinite(value)]
        means.append(math.fsum(finite) / len(finite) if finite else math.nan)
    known = [mean for mean in means if math.isfinite(mean)]
    if not known:
        return ""
    low, span = min(known), (max(known) - min(known)) or 1.0
    return "".join(BARS[round((mean - low) / span * (len(BARS) - 1))] if math.isfinite(mean) else " " for mean in means)
