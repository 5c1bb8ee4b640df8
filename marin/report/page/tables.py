"""What the page's tables print of evaluations, mixtures and runs."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from marin.report.page import units
from marin.report.page.model import Account, Better, MetricRow, MixtureTable, Setting, Table, TrainingCurve

COLOURS = 6  # arms that have a colour of their own on the page
LONG = 28  # letters; longer texts wrap
# Of trainings, in this order. What a plan fixes; the rest it asks for, or estimates.
FIXED = ("steps", "tokens", "batch", "learning rate", "data")
COLUMNS = (*FIXED, "machines", "tokens/s", "MFU", "time", "guards", "loss", "gradient norm")
LONG_CELLS = ("data", "guards")
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
    """The best value of a row as it is printed; "" where nobody is best: all are equal, or one has a star."""
    finite = [value for value in row.values.values() if math.isfinite(value)]
    if len(finite) < 2 or row.better is Better.NEITHER or row.starred:
        return ""
    best = units.fixed((max if row.better is Better.HIGHER else min)(finite), row.digits)
    return "" if all(units.fixed(value, row.digits) == best for value in finite) else best


def interval_of(row: MetricRow, column: str) -> tuple[str, str]:
    """("−0.012", "[−0.020, −0.004]"): how far the column is from the baseline, and between what; dashes for unknown."""
    found = row.differences.get(column)
    if found is None:
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


def account_columns(accounts: Sequence[Account]) -> list[str]:
    """Every column that a cell is in, in the order of marin.report.page.accounts."""
    named = {name for each in accounts for cells in (each.planned, each.happened) for name in cells}
    return [name for name in COLUMNS if name in named]


def went_otherwise(each: Account, column: str) -> bool:
    """Whether a cell that a plan fixes is not as planned."""
    planned, happened = each.planned.get(column), each.happened.get(column)
    return column in FIXED and None not in (planned, happened) and planned != happened


def happened(each: Account, column: str) -> str:
    """A cell of what happened; a long one says nothing twice."""
    text = each.happened.get(column, "")
    return "as planned" if column in LONG_CELLS and text and text == each.planned.get(column) else text


def settings(found: Sequence[Setting], runs: Sequence[str]) -> tuple[list[Setting], list[tuple[str, str]]]:
    """(those in which the runs differ, those that all share as (name, value))."""
    apart = [each for each in found if len({each.values.get(run, "") for run in runs}) > 1]
    return apart, [(each.name, next(iter(each.values.values()), "")) for each in found if each not in apart]
