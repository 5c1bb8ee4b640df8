"""Tables stay readable at every width, and whole in a pipe."""

from __future__ import annotations

import io
import re
import subprocess
import sys

import pytest
from rich.console import Console
from rich.text import Text

from marin.report.table import columns_of, print_table

COLUMNS = columns_of("| step | >size ?1 | reason")
ROWS = [
    [
        "run",
        "tokenize/nemotron_cc/medium_high",
        "1.2 GiB",
        "max_removed: 0.5 → 0.6, and it reads what is new since then",
    ],
    ["cached", "x", "3 B", "committed"],
]


def printed(width: int) -> list[str]:
    out = io.StringIO()
    print_table(Console(width=width, file=out), COLUMNS, ROWS)
    return out.getvalue().splitlines()


@pytest.mark.parametrize("width", [40, 50, 60, 80, 100, 1000])
def test_nothing_is_lost_and_no_line_is_longer_than_the_terminal(width: int) -> None:
    lines = printed(width)
    assert all(len(line) <= max(width, 42) for line in lines)  # a name is never broken
    said = " ".join(" ".join(lines).split())
    for cell in ("tokenize/nemotron_cc/medium_high", "max_removed: 0.5 → 0.6, and", "new since then", "committed"):
        assert cell in said
    assert all(line == line.rstrip() for line in lines)


def test_columns_line_up_and_numbers_are_flush_right() -> None:
    heading, first, second = printed(1000)
    at = heading.index("reason")
    assert first.index("max_removed") == second.index("committed") == at
    assert first.index("1.2 GiB") + len("1.2 GiB") == second.index("3 B") + len("3 B") == heading.index("size") + 4


@pytest.mark.parametrize("width", [40, 60, 80])
def test_headings_stand_over_a_narrow_table_and_no_line_is_empty(width: int) -> None:
    out = io.StringIO()
    rows = [*ROWS, ["", "", "", "  a note on it, which is as long as notes are, and longer than a line"]]
    print_table(Console(width=width, file=out), COLUMNS, rows)
    assert all(line.strip() for line in out.getvalue().splitlines())
    assert {"step", "reason"} <= set(out.getvalue().split())


def test_a_spare_column_goes_first() -> None:
    assert "1.2 GiB" in "".join(printed(100))
    assert "1.2 GiB" not in "".join(printed(60))


def test_an_empty_column_is_left_out() -> None:
    out = io.StringIO()
    print_table(Console(width=80, file=out), COLUMNS, [["run", "a", "", "because"]])
    assert "size" not in out.getvalue()


@pytest.mark.parametrize("width", [40, 60, 80, 1000])
def test_a_pipe_gets_the_very_lines_that_a_terminal_would_show(width: int) -> None:
    """They are put together as strings there, because a hundred thousand of rich's take half a minute."""
    rows = [*ROWS, ["", Text("日本語", style="red"), "", Text("  indented", style="dim")], ["é", "", "12 GiB", ""]]
    piped, shown = io.StringIO(), io.StringIO()
    print_table(Console(width=width, file=piped), COLUMNS, rows)
    print_table(Console(width=width, file=shown, force_terminal=True, color_system=None), COLUMNS, rows)
    assert piped.getvalue() == re.sub(r"\x1b\[[0-9;]*m", "", shown.getvalue())


@pytest.mark.parametrize(("columns", "folded"), [("", False), ("60", True)])
def test_a_pipe_gets_whole_lines_without_colours(columns: str, folded: bool) -> None:
    script = (
        "from marin.report.table import *\n"
        "print_table(open_console(), columns_of('|'), [[Text('run', style='red'), 'word ' * 40]])"
    )
    environment = {"PATH": "/usr/bin", **({"COLUMNS": columns} if columns else {})}
    said = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=True
    ).stdout
    assert "\x1b" not in said
    assert (len(said.splitlines()) > 1) == folded
