"""A table of the samples that a training wrote while it ran: steps as columns, prompts as rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from marin.report.section import Column, Heading, Row, Table
from marin.training.checkpoint import SAMPLES

COLUMNS = 4  # steps: the first, the last, and some in between
KINDS = ("greedy", "sampled")
NOTE = (
    "Each column: text that the weights after this step generate. Greedy: always the likeliest token. Sampled: drawn "
    f"at temperature 1. ⏎: a new line. —: the text ended at once. All samples are in {SAMPLES}."
)


def written_table(title: str, lines: Sequence[Mapping[str, Any]], *, folded: bool = False) -> Table:
    """Return the table. lines: of samples.jsonl, at least one."""
    found = {(line["prompt"], line["step"]): line for line in lines}
    steps = sorted({step for _, step in found})
    most = min(COLUMNS, len(steps))
    shown = [steps[round(number * (len(steps) - 1) / max(most - 1, 1))] for number in range(most)]
    rows: list[Row | Heading] = []
    for prompt in dict.fromkeys(prompt for prompt, _ in found):
        rows.append(Heading(_on_one_line(prompt) or "(no prompt)"))
        there = [found.get((prompt, step), {}) for step in shown]
        rows += [[kind, *(_on_one_line(line.get(kind, "")) or "—" for line in there)] for kind in KINDS]
    columns = [Column("prompt"), *(Column(f"step {step:,}") for step in shown)]
    return Table(title=title, columns=columns, rows=rows, note=NOTE, folded=folded)


def _on_one_line(text: str) -> str:
    return text.strip(" ").replace("\n", "⏎")
