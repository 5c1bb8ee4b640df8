"""Report readings of trainings beside a baseline: as data for a page, and in sentences."""

# pyright: basic
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from marin.errors import NothingScored
from marin.evaluation.statistics import mean, unpaired_difference
from marin.training.readings import Reading

type Rows = Sequence[Mapping[str, Any]]  # of metrics.jsonl


def report(
    arms: Mapping[str, Rows], baseline: str, readings: Mapping[str, Reading]
) -> tuple[dict[str, Any], list[str]]:
    """Return (report.json, a sentence for each reading). Raises the errors of ``read`` and ``difference``."""
    rows: list[dict[str, Any]] = []
    headline: list[str] = []
    for name, reading in sorted(readings.items()):
        values = {arm: read(metrics, reading) for arm, metrics in arms.items()}
        apart = {arm: difference(metrics, arms[baseline], reading) for arm, metrics in arms.items() if arm != baseline}
        rows.append(
            {
                "name": name,
                "values": {arm: asdict(found) for arm, found in values.items()},
                "differences": {arm: {**asdict(found), "verdict": found.verdict} for arm, found in apart.items()},
            }
        )
        said = ", ".join(f"{arm} {found.value:.4g}" for arm, found in values.items())
        against = "".join(f"; {arm} − {baseline} {_signed(found)}: {found.verdict}" for arm, found in apart.items())
        headline.append(f"{name}: {said}{against}")
    return {"baseline": baseline, "arms": sorted(arms), "rows": rows, "verdict": ". ".join(headline)}, headline


def _signed(found: Found) -> str:
    if found.low is None or found.high is None:
        return _plus(found.value)
    return f"{_plus(found.value)} ({_plus(found.low)} … {_plus(found.high)} over {found.rows} rows)"


def _plus(value: float) -> str:
    return f"{value:+.2g}".replace("-", "\N{MINUS SIGN}") if value else "0"


@dataclass(frozen=True)
class Found:
    """The value of a reading, or the difference between two arms.

    low, high: a 95 % interval over the steps, None with fewer than two rows (or fewer than two of ``since``). rows:
    number of rows.
    """

    value: float
    low: float | None
    high: float | None
    rows: int

    @property
    def verdict(self) -> str:
        if self.low is None or self.high is None:
            return "one look, no interval"
        if self.value == self.low == self.high == 0:
            return "the same in every row: what the arms do differently did nothing here"
        return "shows" if self.low > 0 or self.high < 0 else "does not show"


def read(rows: Rows, reading: Reading) -> Found:
    """Return the reading of one arm.

    Raises NothingScored if no row has the metric in these steps; the message names the steps that have it.
    """
    now, then = _values(rows, reading)
    return _found(list(now.values()), None if then is None else list(then.values()))


def difference(rows: Rows, baseline: Rows, reading: Reading) -> Found:
    """Return the difference between an arm and the baseline, paired by step, because a step's batches are the same.

    Raises NothingScored if the arms have no step in common.
    """
    (now, then), (other_now, other_then) = _values(rows, reading), _values(baseline, reading)
    apart = _apart(reading, now, other_now)
    return _found(apart, None if then is None or other_then is None else _apart(reading, then, other_then))


def _apart(reading: Reading, ours: Mapping[int, float], theirs: Mapping[int, float]) -> list[float]:
    if not (common := sorted(ours.keys() & theirs.keys())):
        raise NothingScored(
            f"{reading.metric}: one arm has it at the steps {_some(ours)}, the other at {_some(theirs)}; "
            "compare where both have it"
        )
    return [ours[step] - theirs[step] for step in common]


def _values(rows: Rows, reading: Reading) -> tuple[dict[int, float], dict[int, float] | None]:
    now = _within(rows, reading, reading.first, reading.end)
    return now, None if reading.since is None else _within(rows, reading, *reading.since)


def _within(rows: Rows, reading: Reading, first: int, end: int) -> dict[int, float]:
    wanted = [reading.metric, *([reading.minus] if reading.minus else [])]
    held = {row["step"]: row for row in rows if all(name in row for name in wanted)}
    found = {step: row[wanted[0]] - sum(row[name] for name in wanted[1:]) for step, row in held.items()}
    inside = {step: each for step, each in found.items() if first <= step < end}
    if not inside:
        raise NothingScored(
            f"no row of the steps {first} to {end - 1} has {' and '.join(wanted)}; they are there at the steps "
            f"{_some(held)}"
        )
    return inside


def _some(steps: Mapping[int, Any]) -> str:
    shown = sorted(steps)
    return ", ".join(map(str, shown[:4])) + (f" … {shown[-1]}" if len(shown) > 4 else "") if shown else "none"


def _found(now: list[float], then: list[float] | None) -> Found:
    value = sum(now) / len(now) - (sum(then) / len(then) if then is not None else 0.0)
    rows = len(now)
    if min(len(now), rows if then is None else len(then)) < 2:
        return Found(value, None, None, rows)
    estimate = mean(now) if then is None else unpaired_difference(now, then)
    return Found(value, estimate.low, estimate.high, rows)
