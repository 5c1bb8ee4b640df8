"""Tables of medians: for the terminal, and as Markdown and JSON."""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from rich.console import Console
from rich.table import Table

from benchmarks.engine.cell import Sample
from benchmarks.engine.tools import TOOLS, Phase

WIDTH = 140  # of a table that goes to a file
FLOOR, ON_RAY = "ninja", "ray-tasks"  # the tables compare the other tools with these


@dataclass(frozen=True)
class Cell:
    """One tool at one size in one phase: seconds of the samples that count, or why there is none."""

    seconds: tuple[float, ...]
    peak: int
    problem: str

    @property
    def median(self) -> float | None:
        return statistics.median(self.seconds) if self.seconds else None

    def text(self) -> str:
        if self.median is None:
            return "DNF" if "did not finish" in self.problem else "failed" if self.problem else "–"
        spread = f" ({short(min(self.seconds))}–{short(max(self.seconds))})" if len(self.seconds) > 1 else ""
        return short(self.median) + spread


def cell(samples: Iterable[Sample], tool: str, steps: int, phase: Phase) -> Cell:
    mine = [held for held in samples if (held.tool, held.steps, held.phase) == (tool, steps, phase)]
    counted = [held for held in mine if held.counts]
    problems = [held.problem for held in mine if held.problem]
    return Cell(
        tuple(held.seconds for held in counted),
        max((held.peak for held in counted), default=0),
        problems[0] if problems else "",
    )


HEADINGS = ("tool", "cold s", "cached s", "plan s", "peak MB", "cold ÷ ninja", "cached ÷ ninja", "cold ÷ Ray tasks")


def rows(samples: Sequence[Sample], steps: int) -> list[tuple[str, ...]]:
    """Cells of the table of one size, quickest cached run first."""
    tools = list(dict.fromkeys(held.tool for held in samples if held.steps == steps))
    cells = {(tool, phase): cell(samples, tool, steps, phase) for tool in tools for phase in Phase}

    def ratio(tool: str, phase: Phase, to: str) -> str:
        mine = cells[tool, phase].median
        floor = cells[to, phase].median if to in tools else None
        return f"{mine / floor:.3g}" if mine is not None and floor else ""

    def order(tool: str) -> tuple[float, float]:
        unknown = float("inf")
        cached, cold = cells[tool, Phase.CACHED].median, cells[tool, Phase.COLD].median
        return (unknown if cached is None else cached, unknown if cold is None else cold)

    return [
        (
            tool,
            cells[tool, Phase.COLD].text(),
            cells[tool, Phase.CACHED].text(),
            cells[tool, Phase.PLAN].text(),
            f"{max(cells[tool, phase].peak for phase in Phase) / 1e6:.0f}",
            ratio(tool, Phase.COLD, FLOOR),
            ratio(tool, Phase.CACHED, FLOOR),
            ratio(tool, Phase.COLD, ON_RAY),
        )
        for tool in sorted(tools, key=order)
    ]


def problems(samples: Iterable[Sample]) -> list[str]:
    """One line for every kind of sample that does not count."""
    said = (f"{held.tool}, {held.steps} steps, {held.phase}: {held.problem}" for held in samples if held.problem)
    return list(dict.fromkeys(said))


def wide_console() -> Console:
    """Tables need more than the 80 columns that rich assumes of a file."""
    return Console(width=None if sys.stdout.isatty() else WIDTH)


def print_tables(console: Console, samples: Sequence[Sample]) -> None:
    for steps in dict.fromkeys(held.steps for held in samples):
        table = Table(title=f"{steps:,} steps: seconds of the whole process, median (least–most)", header_style="bold")
        for number, heading in enumerate(HEADINGS):
            table.add_column(heading, justify="right" if number else "left", no_wrap=True)
        for row in rows(samples, steps):
            table.add_row(*row, style="bold" if row[0] in ("marin", "marin-on-ray") else "")
        console.print(table)
    for line in problems(samples):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def markdown(samples: Sequence[Sample], about: dict[str, str]) -> str:
    lines = [f"{name}: {held}  " for name, held in about.items()]
    for steps in dict.fromkeys(held.steps for held in samples):
        lines += ["", f"### {steps:,} steps", "", f"| {' | '.join(HEADINGS)} |"]
        lines.append(f"|---|{'---:|' * (len(HEADINGS) - 1)}")
        lines += [f"| {' | '.join(row)} |" for row in rows(samples, steps)]
    found = problems(samples)
    if found:
        lines += ["", "Not finished, or wrong:", "", *(f"- {line}" for line in found)]
    used = {held.tool for held in samples}
    lines += ["", "Notes:", ""]
    lines += [
        f"- {tool.name} ({', '.join(tool.requires) or 'here'}): {tool.note}" for tool in TOOLS if tool.name in used
    ]
    return "\n".join(lines) + "\n"


def as_json(samples: Sequence[Sample], about: dict[str, str], versions: dict[str, dict[str, str]]) -> str:
    held = {"about": about, "samples": [asdict(sample) for sample in samples], "packages": versions}
    return json.dumps(held, indent=1, ensure_ascii=False) + "\n"


def short(seconds: float) -> str:
    """Three significant digits, as few characters as that takes."""
    digits = 0 if seconds >= 99.5 else 1 if seconds >= 9.95 else 2 if seconds >= 0.0995 else 3
    return f"{seconds:.{digits}f}"
