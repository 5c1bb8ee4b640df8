"""What the page's tables print: evaluation, mixtures and runs, with every number already a text."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from marin.report.page.drawing import units
from marin.report.page.drawing.model import (
    Better,
    Estimate,
    EvaluationTable,
    MetricRow,
    MixtureStage,
    MixtureTable,
    Table,
    TrainingCurve,
)

ARROWS = {Better.HIGHER: "↑", Better.LOWER: "↓", Better.NEITHER: ""}
COLOURS = 6  # arms that have a colour of their own on the page


def arm_class(arm: str, arms: Sequence[str]) -> str:
    """The CSS class that gives an arm its colour; "" for what is not an arm."""
    return f"arm-{list(arms).index(arm) % COLOURS}" if arm in arms else ""


NUMBER = re.compile(r"[+\-−±<>≈]?\s?\d[\d,.\s]*(e[+\-−]?\d+)?\s?(%|[kMBT]|[a-zA-Zµ]{1,3})?(\s?±\s?[\d.e\-−]+)?")


LONG = 28  # letters; longer texts wrap


def kinds(table: Table) -> list[str]:
    """The CSS class of each column: "number" (all cells that are not empty), "long" for texts that wrap, or ""."""
    columns = [[row[index] for row in table.rows if row[index]] for index in range(len(table.columns))]
    return [_kind(cells) for cells in columns]


def _kind(cells: Sequence[str]) -> str:
    if cells and all(NUMBER.fullmatch(cell) or cell == "—" for cell in cells):
        return "number"
    return "long" if any(len(cell) > LONG for cell in cells) else ""


@dataclass(frozen=True)
class Head:
    """A column head."""

    name: str
    arm: str
    first: str = ""
    total: str = ""


@dataclass(frozen=True)
class ScoreCell:
    """A value with its half interval."""

    value: str
    spread: str
    best: bool


@dataclass(frozen=True)
class ScoreRow:
    """A metric with its direction."""

    name: str
    unit: str
    cells: list[ScoreCell]
    difference: str
    note: str


@dataclass(frozen=True)
class ScoreTable:
    """An evaluation table; difference: the title of a column, "" for none."""

    title: str
    columns: list[Head]
    rows: list[ScoreRow]
    difference: str
    note: str
    notes: bool


def score_table(table: EvaluationTable, arms: Sequence[str]) -> ScoreTable:
    """Values, intervals, the best of each row, and the last arm minus the first."""
    shown = [arm for arm in arms if arm in table.columns]
    pair = (shown[0], shown[-1]) if len(shown) > 1 else None
    return ScoreTable(
        title=table.title,
        columns=[Head(name=name, arm=arm_class(name, arms)) for name in table.columns],
        rows=[_score_row(row, table.columns, pair) for row in table.rows],
        difference=f"{pair[1]} {units.MINUS} {pair[0]}" if pair else "",
        note=table.note,
        notes=any(row.note for row in table.rows),
    )


def _score_row(row: MetricRow, columns: Sequence[str], pair: tuple[str, str] | None) -> ScoreRow:
    printed = {name: units.fixed(row.values[name].value, row.digits) for name in columns if name in row.values}
    finite = {name: row.values[name].value for name in printed if math.isfinite(row.values[name].value)}
    best = ""
    if len(finite) > 1 and row.better is not Better.NEITHER:
        extreme = (max if row.better is Better.HIGHER else min)(finite.values())
        best = units.fixed(extreme, row.digits)
        if all(printed[name] == best for name in finite):
            best = ""  # nobody is best where all are equal
    difference = ""
    if pair and pair[0] in finite and pair[1] in finite:
        difference = units.signed(finite[pair[1]] - finite[pair[0]], row.digits)
    return ScoreRow(
        name=row.name,
        unit=" ".join(filter(None, (row.unit, ARROWS[row.better]))),
        cells=[
            ScoreCell(
                value=printed.get(name, "—"),
                spread=_spread(row.values.get(name), row.digits),
                best=bool(best) and printed.get(name) == best,
            )
            for name in columns
        ],
        difference=difference,
        note=row.note,
    )


def _spread(estimate: Estimate | None, digits: int) -> str:
    if estimate is None or estimate.low is None or estimate.high is None:
        return ""
    return f"{(estimate.high - estimate.low) / 2:.{digits}f}"


@dataclass(frozen=True)
class ShareCell:
    """One source in one stage. mark: ✓ or the published figure; differs: the two do not agree."""

    arm: str
    share: str
    width: str
    mark: str
    differs: bool
    changed: bool


@dataclass(frozen=True)
class UseCell:
    """Effective sequences and epochs of a source in one arm."""

    sequences: str
    epochs: str


@dataclass(frozen=True)
class ShareRow:
    """One source over all stages."""

    source: str
    cells: list[ShareCell]
    uses: list[UseCell]


@dataclass(frozen=True)
class ShareTable:
    """All mixtures side by side."""

    columns: list[Head]
    rows: list[ShareRow]
    used: list[str]
    published: bool


def share_table(mixtures: Sequence[MixtureTable], arms: Sequence[str]) -> ShareTable:
    """One row per source, largest first; one column per arm and stage. Stages that all arms share stand once."""
    stages: list[tuple[str, MixtureStage]] = []
    for table in mixtures:
        for stage in table.stages:
            alike = [s for other in mixtures for s in other.stages if s == stage]
            common = len(mixtures) > 1 and len(alike) == len(mixtures)
            entry = ("" if common else table.arm, stage)
            if entry not in stages:
                stages.append(entry)
    largest: dict[str, float] = {}
    for _, stage in stages:
        for source, share in stage.shares.items():
            largest[source] = max(share, largest.get(source, 0.0))
    scale = max(largest.values(), default=1.0) or 1.0
    used = [table for table in mixtures if table.use]
    return ShareTable(
        columns=[
            Head(
                name=arm or "all arms",
                arm=arm_class(arm, arms),
                first=f"{stage.first_step:,}",
                total=f"{100 * math.fsum(stage.shares.values()):.2f}",
            )
            for arm, stage in stages
        ],
        rows=[
            ShareRow(
                source=source,
                cells=[_share_cell(source, stages, index, scale, arms) for index in range(len(stages))],
                uses=[_use_cell(table, source) for table in used],
            )
            for source in _largest_first(stages)
        ],
        used=[table.arm or "shared" for table in used],
        published=any(stage.published for _, stage in stages),
    )


def _largest_first(stages: Sequence[tuple[str, MixtureStage]]) -> list[str]:
    """Sources by share in the first stage that has them."""
    order: dict[str, None] = {}
    for _, stage in stages:
        order |= dict.fromkeys(sorted(stage.shares, key=lambda source: (-stage.shares[source], source)))
    return list(order)


def _share_cell(
    source: str, stages: Sequence[tuple[str, MixtureStage]], index: int, scale: float, arms: Sequence[str]
) -> ShareCell:
    arm, stage = stages[index]
    share = stage.shares.get(source)
    before = [other for name, other in stages[:index] if name in ("", arm)]
    changed = bool(before) and abs((share or 0.0) - before[-1].shares.get(source, 0.0)) > 5e-5
    printed = stage.published.get(source, "")
    mark, differs = "", False
    if printed and share is not None:
        digits = len(printed.rstrip("%").strip().partition(".")[2])
        differs = f"{100 * share:.{digits}f}" != printed.rstrip("%").strip()
        mark = f"≠ {printed}" if differs else "✓"
    return ShareCell(
        arm=arm_class(arm, arms),
        share="" if share is None else f"{100 * share:.2f}",
        width="0" if share is None else f"{max(100 * share / scale, 0.5):.1f}",
        mark=mark,
        differs=differs,
        changed=changed,
    )


def _use_cell(table: MixtureTable, source: str) -> UseCell:
    use = table.use.get(source)
    return UseCell("", "") if use is None else UseCell(units.count(use.sequences), f"{use.epochs:.2f}")


@dataclass(frozen=True)
class RunRow:
    """Where a run began and ended."""

    name: str
    arm: str
    span: str
    tokens: str
    first: str
    final: str
    norm: str


def run_row(run: TrainingCurve, arms: Sequence[str]) -> RunRow:
    """First loss, mean loss over the last twentieth, largest gradient norm."""
    tail = _finite(run.loss[-max(1, len(run.loss) // 20) :])
    norms = _finite(run.grad_norm)
    return RunRow(
        name=run.name,
        arm=arm_class(run.arm, arms),
        span=f"{run.step[0]:,}–{run.step[-1]:,}" if len(run.step) else "",
        tokens=units.count(run.tokens[-1]) if len(run.tokens) else "",
        first=units.fixed(run.loss[0], 3) if len(run.loss) else "",
        final=units.fixed(math.fsum(tail) / len(tail), 3) if tail else "",
        norm=units.fixed(max(norms), 2) if norms else "",
    )


def _finite(values: Sequence[float]) -> list[float]:
    return [value for value in values if math.isfinite(value)]


def arms_of(arms: Sequence[str], mixtures: Sequence[MixtureTable], runs: Sequence[TrainingCurve]) -> list[str]:
    """The page's arms in the order of their colours; found in mixtures and runs when none were named."""
    named: Mapping[str, None] = dict.fromkeys(
        [*arms] or [*(run.arm for run in runs if run.arm), *(table.arm for table in mixtures if table.arm)]
    )
    return list(named)
