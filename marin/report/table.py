"""Text for people: tables that stay readable in a narrow terminal and in a pipe.

On a terminal, lines fit it. Into a file or pipe they are as long as they are, without colours, so that
``grep`` finds whole names. NO_COLOR is honoured.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

UNFOLDED = 100_000  # columns: wider than any line
GAP = 2
INDENT = 4
READABLE = 30  # the last column goes on lines of its own when less is left for it


def open_console(*, stderr: bool = False) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    fixed = stream.isatty() or os.environ.get("COLUMNS", "").isdigit()
    return _Console(stderr=stderr, highlight=False, width=None if fixed else UNFOLDED)


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Rich would end the process with the code of a failed step; see marin.cli.exits."""
        raise BrokenPipeError


def say(console: Console, text: str, style: str = "") -> None:
    """A line, whole: a terminal folds it itself, so that what is copied from there is whole too."""
    console.print(Text(text, style=style), soft_wrap=True)


@contextmanager
def byte_bar(console: Console, total: int) -> Generator[Callable[[int], None]]:
    """A function that is told of bytes as they are done: a bar on a terminal, nothing in a pipe."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    columns = (BarColumn(), DownloadColumn(binary_units=True), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=total)
        yield lambda count: progress.advance(task, count)


@dataclass(frozen=True, kw_only=True)
class Column:
    """spare: may be left out when the terminal is narrow; the highest goes first, 0 never."""

    heading: str = ""
    right: bool = False
    spare: int = 0


def print_table(
    console: Console, columns: Sequence[Column], rows: Sequence[Sequence[Text | str]], *, below: bool = False
) -> None:
    """Columns side by side; the last one takes what is left of the line and is folded into it, or stands below.

    A column that is empty everywhere is left out. below: columns that may be left out in a narrow terminal follow in a
    second table instead, beside the first column again, without rows that are empty there.
    """
    if not rows:
        return
    plain = [[cell if isinstance(cell, str) else cell.plain for cell in row] for row in rows]
    shown = [number for number in range(len(columns)) if any(row[number] for row in plain)]
    headings = [Text(column.heading, style="bold") for column in columns]
    lengths = [[len(text) if text.isascii() else cell_len(text) for text in row] for row in plain]
    widths = {n: max(cell_len(columns[n].heading), *(row[n] for row in lengths)) for n in shown}
    room = console.width
    left_out = list[int]()
    while (spare := [number for number in shown if columns[number].spare]) and _least(shown, widths) > room:
        left_out.append(max(spare, key=lambda number: columns[number].spare))
        shown.remove(left_out[-1])
    if cramped := _least(shown, widths) > room:
        _squeeze(shown, widths, room)
    if any(column.heading for column in columns):
        _print_row(console, columns, headings, shown, widths, cramped)
    bare = not console.is_terminal and not cramped  # then a line is a string, in a hundredth of the time
    left = room - _start(shown, widths)
    for row, texts, cell_lengths in zip(rows, plain, lengths, strict=True):
        if bare and cell_lengths[shown[-1]] <= left and "".join(texts).isprintable():
            parts = [_filled(texts[n], widths[n] - cell_lengths[n], columns[n]) for n in shown]
            console.file.write((" " * GAP).join(parts).rstrip() + "\n")
            continue
        cells = [cell if isinstance(cell, Text) else Text(cell) for cell in row]
        _print_row(console, columns, cells, shown, widths, cramped)
    if below and left_out:
        again = [0, *sorted(left_out)]
        told = [number for number, texts in enumerate(plain) if any(texts[each] for each in again[1:])]
        print_table(
            console, [columns[each] for each in again], [[rows[number][each] for each in again] for number in told]
        )


def _filled(text: str, missing: int, column: Column) -> str:
    return " " * missing + text if column.right else text + " " * missing


def _squeeze(shown: Sequence[int], widths: dict[int, int], room: int) -> None:
    """Give the widest column but the last no more than leaves the last readable; longer cells stand out."""
    if len(shown) > 1:
        widest = max(shown[:-1], key=lambda number: widths[number])
        widths[widest] = max(room - READABLE - (_start(shown, widths) - widths[widest]), INDENT)


def _least(shown: Sequence[int], widths: dict[int, int]) -> int:
    """The narrowest line in which these columns can be read."""
    return _start(shown, widths) + min(widths[shown[-1]], READABLE)


def _print_row(
    console: Console,
    columns: Sequence[Column],
    row: Sequence[Text],
    shown: Sequence[int],
    widths: dict[int, int],
    cramped: bool,
) -> None:
    *before, last = shown
    line = Text()
    for number in before:
        padding = Text(" " * (widths[number] - row[number].cell_len))
        line.append_text(padding + row[number] if columns[number].right else row[number] + padding)
        line.append(" " * GAP)
    final, sticks_out = row[last], line.cell_len > _start(shown, widths)
    if lead := len(final.plain) - len(final.plain.lstrip(" ")):  # what follows a fold is as far in
        line.append(" " * lead)
        final = final[lead:]
    if columns[last].right and not cramped:
        final = Text(" " * (widths[last] - final.cell_len)) + final
    indent = line.cell_len
    if cramped and final.plain and sticks_out and indent + final.cell_len > console.width:
        _print_line(console, line)
        line, indent = Text(" " * INDENT), INDENT
    width = max(console.width - indent, INDENT)
    for part in final.wrap(console, width) if final.cell_len > width else [final]:
        _print_line(console, line + part)
        line = Text(" " * indent)


def _start(shown: Sequence[int], widths: dict[int, int]) -> int:
    """Where the last column begins."""
    return sum(widths[number] + GAP for number in shown[:-1])


def _print_line(console: Console, line: Text) -> None:
    line.rstrip()
    console.print(line, soft_wrap=True)
