"""docs/commands.md describes every command and option. tests/docs runs the commands."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from marin.cli.commands import COMMANDS, LINES, main

DOCUMENT = Path(__file__).resolve().parents[2] / "docs/commands.md"
COMMON = {"--prefix", "--scale", "--json"}


def sections() -> dict[str, str]:
    """Return the section of each command, by its name, in order."""
    names = "|".join(sorted(LINES, key=len, reverse=True))
    parts = re.split(rf"^### `marin ({names})\b[^\n]*\n", DOCUMENT.read_text(), flags=re.MULTILINE)[1:]
    return {
        name: re.split("^## ", said, flags=re.MULTILINE)[0] for name, said in zip(parts[::2], parts[1::2], strict=True)
    }


def test_every_command_has_a_section_in_the_order_of_help() -> None:
    text = DOCUMENT.read_text()
    assert list(sections()) == list(LINES)
    assert [title for title in re.findall("^## (.*)$", text, re.MULTILINE) if title] == list(COMMANDS)


@pytest.mark.parametrize("name", LINES)
def test_its_options_are_exactly_the_real_ones(name: str) -> None:
    """Each option begins a line of the list, or stands among the options that many commands have."""
    said = sections()[name]
    listed = [line.split(": ")[0] for line in said.splitlines() if line.startswith("- `")]
    also = [line for line in said.splitlines() if line.startswith("Also ")]
    documented = {option for line in [*listed, *also] for option in re.findall(r"`(--?[a-z][a-z-]*)", line)}
    command = main.get_command(click.Context(main), name)
    assert command is not None
    real = {option for parameter in command.params if isinstance(parameter, click.Option) for option in parameter.opts}
    assert documented == real
    assert {option for line in also for option in re.findall(r"`(--?[a-z][a-z-]*)", line)} == real & COMMON


@pytest.mark.parametrize("name", LINES)
def test_it_is_one_screen_with_an_example(name: str) -> None:
    said = sections()[name]
    assert re.search(rf"^\$ marin {name}\b", said, re.MULTILINE)
    assert len(said.splitlines()) < 50
    assert max(len(line) for line in said.splitlines()) < 140
