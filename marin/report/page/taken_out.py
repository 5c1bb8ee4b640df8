"""Where the text went: what each stage read and took out, by what the records of documents say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from marin.executor.run_results import Run, StepResult
from marin.report.section import Column, Row, Section, Share, Table
from marin.store.numbers import listed, write_bytes, write_count

FEW = 12  # stages with a row each and no table of operators before them
REASONS = 4  # in a cell
NO_REASON = "without a reason"


@dataclass(frozen=True)
class Passage:
    """Documents and UTF-8 bytes that one step read and what it left. reasons: documents that went, by reason."""

    name: str
    op: str
    documents: int
    left: int
    bytes: int | None  # None: what it read has no count of them
    bytes_left: int
    reasons: Mapping[str, int]


def where_text_went(run: Run) -> Iterator[Section]:
    """A section, where any step left less text than it read."""
    found = [passage for result in run.results.values() if (passage := _passage(run, result)) is not None]
    passages = [each for each in found if each.left < each.documents or each.bytes_left < (each.bytes or 0)]
    if not passages:
        return
    by_operator: dict[str, list[Passage]] = {}
    for each in passages:
        by_operator.setdefault(each.op, []).append(each)
    blocks: list[Table] = []
    if len(passages) > FEW:
        rows = [_row(f"{op}, {len(of)} ×" if len(of) > 1 else of[0].name, of) for op, of in by_operator.items()]
        blocks.append(_table("What each operator took out", rows))
    steps = sorted(passages, key=lambda each: -_gone([each]))
    blocks.append(
        _table("What each step took out, most first", [_row(each.name, [each]) for each in steps], bool(blocks))
    )
    yield Section(title="Where the text went", blocks=blocks)


def _passage(run: Run, result: StepResult) -> Passage | None:
    record = result.record
    if record is None or record.kind != "documents":
        return None
    left, reasons = int(record.facts["documents"]), dict(record.facts["dropped"])
    told = left + sum(reasons.values())
    read = _read(run, result, told)
    documents = int(read["documents"]) if read else told
    if documents > told:
        reasons[NO_REASON] = documents - told
    return Passage(
        name=result.step.name,
        op=result.step.op,
        documents=documents,
        left=left,
        bytes=int(read["bytes"]) if read else None,
        bytes_left=int(record.facts["bytes"]),
        reasons=reasons,
    )


def _read(run: Run, result: StepResult, told: int) -> Mapping[str, Any] | None:
    """Facts of the documents that a step goes through: of several inputs, those that are as many as it tells of."""
    records = [run.results[each].record for each in result.step.dependencies if each in run.results]
    inputs = [record.facts for record in records if record is not None and record.kind == "documents"]
    if len(inputs) > 1:
        inputs = [facts for facts in inputs if facts["documents"] == told]
    return inputs[0] if inputs else None


def _gone(of: Sequence[Passage]) -> float:
    """Share of the text that went: of its bytes, where they were counted."""
    counted = [each for each in of if each.bytes]
    if counted:
        return 1 - sum(each.bytes_left for each in counted) / sum(each.bytes or 0 for each in counted)
    return 1 - sum(each.left for each in of) / max(sum(each.documents for each in of), 1)


def _row(name: str, of: Sequence[Passage]) -> Row:
    reasons = Counter[str]()
    for each in of:
        reasons.update(each.reasons)
    documents, left = sum(each.documents for each in of), sum(each.left for each in of)
    why = [f"{reason} {count:,}" for reason, count in sorted(reasons.items(), key=lambda each: (-each[1], each[0]))]
    return [
        name,
        write_count(documents),
        write_count(documents - left),
        Share(value=(documents - left) / max(documents, 1)),
        Share(value=_gone(of)) if any(each.bytes for each in of) else "",
        write_bytes(sum(each.bytes_left for each in of)),
        listed(why, REASONS),
    ]


def _table(title: str, rows: Sequence[Row], folded: bool = False) -> Table:
    columns = [
        Column("step"),
        Column("documents read"),
        Column("taken out"),
        Column("% of documents", digits=1),
        Column("% of bytes", digits=1, hint="parts of documents that stay count, too"),
        Column("left"),
        Column("why", hint="documents by reason"),
    ]
    return Table(title=title, columns=columns, rows=rows, folded=folded)
