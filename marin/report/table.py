"""Text for people: tables that stay readable in a narrow terminal and in a pipe.

On a terminal, lines fit its width. In a file or pipe, lines are as long as needed and without colours, so that
``grep`` finds whole names. NO_COLOR is honoured.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator, Sequence, Sized
from contextlib import contextmanager
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

type Rows = Sequence[Sequence[Text | str]]

UNFOLDED = 100_000  # columns: wider than any line
GAP = 2
INDENT = 4
READABLE = 30  # the last column goes on lines of its own if less room is left
NAME = 15  # least width of the longest column


def open_console(*, stderr: bool = False) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    fixed = stream.isatty() or os.environ.get("COLUMNS", "").isdigit()
    return _Console(stderr=stderr, highlight=False, emoji=False, width=None if fixed else UNFOLDED)


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Raise the error. Rich would end the process with the code of a failed step; see marin.cli.exits."""
        raise BrokenPipeError


def say(console: Console, text: str, style: str = "") -> None:
    """Print a whole line. The terminal itself folds it, so that a copy from the terminal is whole too."""
    console.print(Text(text, style=style), soft_wrap=True)


@contextmanager
def byte_bar(console: Console, total: int) -> Generator[Callable[[int], None]]:
    """Return a function to call with bytes as they are done: a bar on a terminal, nothing in a pipe."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    columns = (BarColumn(), DownloadColumn(binary_units=True), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=total)
        yield lambda count: progress.advance(task, count)


@dataclass(frozen=True)
class Column:
    """A column of a table. spare: may be left out on a narrow terminal; the highest goes first, 0 never."""

    heading: str = ""
    right: bool = False
    spare: int = 0


def columns_of(line: str) -> list[Column]:
    """Return the columns in "output | >size | by ?2": > for flush right, ?2 for how soon it may be left out."""
    parts = [part.partition("?") for part in line.split("|")]
    return [Column(name.strip(" >"), name.strip().startswith(">"), int(spare or 0)) for name, _, spare in parts]


def print_table(console: Console, columns: Sequence[Column], rows: Rows) -> None:
    """Print columns side by side. The last one is folded into the rest of the line, or stands below.

    A column without content is left out.
    """
    if not rows:
        return
    plain = [[cell if isinstance(cell, str) else cell.plain for cell in row] for row in rows]
    lengths = [[len(text) if text.isascii() else cell_len(text) for text in row] for row in plain]
    shown = [number for number in range(len(columns)) if any(row[number] for row in plain)]
    widths = {n: max(cell_len(columns[n].heading), *(row[n] for row in lengths)) for n in shown}

    def least() -> int:
        """Return the width of the narrowest line in which these columns can be read."""
        return sum(widths[number] + GAP for number in shown[:-1]) + min(widths[shown[-1]], READABLE)

    while (spare := [number for number in shown if columns[number].spare]) and least() > console.width:
        shown.remove(max(spare, key=lambda number: columns[number].spare))
    *before, last = shown
    if (is_narrow := least() > console.width) and before:  # a name longer than the line is too long for a column
        widest = max(before, key=lambda number: widths[number])
        others = sum(widths[number] + GAP for number in before if number != widest)
        widths[widest] = min(widths[widest], max(NAME, console.width - others))
    start = sum(widths[number] + GAP for number in before)

    def print_row(row: Sequence[Text | str]) -> None:
        line = Text()
        for number in before:
            cell = Text.assemble(row[number])
            if cell.cell_len < widths[number]:
                cell.align("right" if columns[number].right else "left", widths[number])
            line.append_text(cell).append(" " * GAP)
        final = Text.assemble(row[last])
        if columns[last].right and not is_narrow:
            final.align("right", widths[last])
        indent = start
        if is_narrow and final and line.cell_len + final.cell_len > console.width:
            _print_line(console, line)
            line, indent = Text(" " * INDENT), INDENT
        width = max(console.width - indent, INDENT)
        for part in final.wrap(console, width) if final.cell_len > width else [final]:
            _print_line(console, line + part)
            line = Text(" " * indent)

    if any(column.heading for column in columns):
        print_row([Text(column.heading, style="bold") for column in columns])
    for row, texts, cells in zip(rows, plain, lengths, strict=True):
        # In a pipe, a line is a plain string: a hundredth of the time.
        if console.is_terminal or start + cells[last] > console.width or not "".join(texts).isprintable():
            print_row(row)
            continue
        spaces = {number: " " * (widths[number] - cells[number]) for number in shown}
        parts = [spaces[n] + texts[n] if columns[n].right else texts[n] + spaces[n] for n in shown]
        console.file.write((" " * GAP).join(parts).rstrip() + "\n")


def print_block(console: Console, title: str, style: str, columns: str, rows: Rows, most: int) -> None:
    """Print a heading and the first rows of a table; nothing without rows. columns: as for ``columns_of``."""
    if rows:
        say(console, f"\n{title}", style)
        print_table(console, columns_of(columns), rows[:most])
    print_rest(console, rows, most)


def print_rest(console: Console, every: Sized, most: int) -> None:
    if len(every) > most:
        say(console, f"and {len(every) - most} more: --json", "dim")


def _print_line(console: Console, line: Text) -> None:
    line.rstrip()
    if line:  # empty in a row whose first cells are empty
        console.print(line, soft_wrap=True)
