"""Blocks of a report as a terminal's text and as Markdown."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.text import Text

from marin.report.diff.report import Block, Grid, Heading, Line
from marin.report.table import Column, print_table


def print_blocks(console: Console, blocks: Iterable[Block]) -> None:
    for block in blocks:
        if isinstance(block, Heading):
            console.print()
            console.print(Text(block.text, style="bold cyan"))
        elif isinstance(block, Line):
            # A table of one cell folds under itself, so what belongs to a line stays indented.
            print_table(console, (Column(), Column()), [["   " if block.deep else "", block.text]])
        else:
            columns = [Column(), *(Column(heading=name, right=number > 0) for number, name in enumerate(block.columns))]
            print_table(console, columns, [["     ", *row] for row in block.rows])


def markdown(title: str, blocks: Iterable[Block]) -> str:
    """GitHub's: headings, lists and tables."""
    lines = [f"### {title}", ""]
    listed = False
    for block in blocks:
        if isinstance(block, Line):
            lines.append(f"{'  ' if block.deep else ''}- {_escaped(block.text)}")
            listed = True
            continue
        if listed:
            lines.append("")
            listed = False
        if isinstance(block, Heading):
            lines += [f"#### {_escaped(block.text)}", ""]
        else:
            lines += [*_table(block), ""]
    return "\n".join(lines).rstrip() + "\n"


def _table(grid: Grid) -> list[str]:
    ruler = ["---", *("---:" for _ in grid.columns[1:])]
    rows = [grid.columns, ruler, *(tuple(_escaped(cell) for cell in row) for row in grid.rows)]
    return [f"| {' | '.join(row)} |" for row in rows]


def _escaped(text: str) -> str:
    """Labels with an underscore or a star in them are no emphasis."""
    for letter in ("\\", "`", "*", "_", "|", "<", ">"):
        text = text.replace(letter, f"\\{letter}")
    return text
