"""What the page's tables print of evaluations, mixtures and runs."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from marin.report.page.drawing import units
from marin.report.page.drawing.model import Better, MetricRow, MixtureTable, Setting, Table, TrainingCurve
from marin.store.numbers import write_count, write_duration

COLOURS = 6  # arms that have a colour of their own on the page
LONG = 28  # letters; longer texts wrap
NUMBER = re.compile(r"[+\-−±<>≈]?\s?\d[\d,.\s]*(e[+\-−]?\d+)?\s?(%|[kMBT]|[a-zA-Zµ]{1,3})?(\s?±\s?[\d.e\-−]+)?")


def arms_of(arms: Sequence[str], mixtures: Sequence[MixtureTable], runs: Sequence[TrainingCurve]) -> list[str]:
    """The page's arms in the order of their colours; found in mixtures and runs when none were named."""
    named = [*arms] or [*(run.arm for run in runs), *(table.arm for table in mixtures)]
    return list(dict.fromkeys(filter(None, named)))


def arm_class(arm: str, arms: Sequence[str]) -> str:
    """The CSS class that gives an arm its colour; "" for what is not an arm."""
    return f"arm-{list(arms).index(arm) % COLOURS}" if arm in arms else ""


def kinds(table: Table) -> list[str]:
    """The CSS class of each column: "number" (all cells that are not empty), "long" for texts that wrap, or ""."""
    columns = [[row[index] for row in table.rows if row[index]] for index in range(len(table.columns))]
    return [_kind(cells) for cells in columns]


def _kind(cells: Sequence[str]) -> str:
    if cells and all(NUMBER.fullmatch(cell) or cell == "—" for cell in cells):
        return "number"
    return "long" if any(len(cell) > LONG for cell in cells) else ""


def best_of(row: MetricRow) -> str:
    """The best value of a row as it is printed; "" where nobody is best, as where all are equal."""
    finite = [value for value in row.values.values() if math.isfinite(value)]
    if len(finite) < 2 or row.better is Better.NEITHER:
        return ""
    best = units.fixed((max if row.better is Better.HIGHER else min)(finite), row.digits)
    return "" if all(units.fixed(value, row.digits) == best for value in finite) else best


def interval_of(row: MetricRow, column: str) -> tuple[str, str]:
    """("−0.012", "[−0.020, −0.004]"): how far the column is from the baseline, and between what; dashes for unknown."""
    found = row.differences.get(column)
    if found is None or found.value is None:
        return "—", ""
    value, low, high = (units.signed(each, row.digits) for each in (found.value, found.low, found.high))
    return value, f"[{low}, {high}]"


@dataclass(frozen=True)
class Shares:
    """A column of the table of mixtures."""

    arm: str  # "" for all
    first_step: int
    shares: Mapping[str, float]
    changed: frozenset[str]  # sources whose share the stage before had not


def share_columns(mixtures: Sequence[MixtureTable]) -> list[Shares]:
    """One column per arm and stage. Stages that all arms share stand once."""
    found: list[Shares] = []
    for table in mixtures:
        for first, shares in table.stages.items():
            common = len(mixtures) > 1 and all(other.stages.get(first) == shares for other in mixtures)
            arm = "" if common else table.arm
            if any((column.arm, column.first_step, column.shares) == (arm, first, shares) for column in found):
                continue
            before = [column.shares for column in found if column.arm in ("", arm)]
            names = shares.keys() | before[-1].keys() if before else ()
            changed = (name for name in names if abs(shares.get(name, 0.0) - before[-1].get(name, 0.0)) > 5e-5)
            found.append(Shares(arm, first, shares, frozenset(changed)))
    return found


def largest_first(columns: Sequence[Shares]) -> list[str]:
    """Sources by share in the first stage that has them."""
    order: dict[str, None] = {}
    for column in columns:
        order |= dict.fromkeys(sorted(column.shares, key=lambda source: (-column.shares[source], source)))
    return list(order)


def run_cells(run: TrainingCurve) -> list[str]:
    """Steps, tokens to its end, first loss, final loss, largest gradient norm, median speed, time, hardware."""
    tail, speeds = final_loss(run), _finite(run.tokens_per_second)
    norms = _finite(run.grad_norm)
    return [
        f"{run.step[0]:,}–{run.step[-1]:,}" if len(run.step) else "",
        write_count(run.tokens[-1]) if len(run.tokens) else "",
        units.fixed(run.loss[0], 3) if len(run.loss) else "",
        "" if tail is None else units.fixed(tail, 3),
        units.fixed(max(norms), 2) if norms else "",
        write_count(float(f"{median(speeds):.3g}")) if speeds else "",
        write_duration(run.seconds) if run.seconds else "",
        run.hardware,
    ]


def final_loss(run: TrainingCurve) -> float | None:
    """The mean over the last twentieth of its steps."""
    tail = _finite(run.loss[-max(1, len(run.loss) // 20) :])
    return fmean(tail) if tail else None


def settings(found: Sequence[Setting], runs: Sequence[str]) -> tuple[list[Setting], list[tuple[str, str]]]:
    """(those in which the runs differ, those that all share as (name, value))."""
    apart = [each for each in found if len({each.values.get(run, "") for run in runs}) > 1]
    return apart, [(each.name, next(iter(each.values.values()), "")) for each in found if each not in apart]


def _finite(values: Sequence[float]) -> list[float]:
    return [value for value in values if math.isfinite(value)]
