"""docs/commands.md tells of every command and option that there is, and every command on any page can be given."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from marin.cli.commands import COMMANDS, LINES, main

DOCUMENT = Path(__file__).resolve().parents[2] / "docs/commands.md"
COMMON = {"--prefix", "--scale", "--json"}


def sections() -> dict[str, str]:
    """What is said of each command, by its name, in order."""
    parts = re.split(r"^### `marin ([a-z-]+)[^\n]*\n", DOCUMENT.read_text(), flags=re.MULTILINE)[1:]
    return {
        name: re.split("^## ", said, flags=re.MULTILINE)[0] for name, said in zip(parts[::2], parts[1::2], strict=True)
    }


def test_every_command_has_a_section_in_the_order_of_help() -> None:
    text = DOCUMENT.read_text()
    assert list(sections()) == list(LINES)
    assert [title for title in re.findall("^## (.*)$", text, re.MULTILINE) if title] == list(COMMANDS)


@pytest.mark.parametrize("name", LINES)
def test_its_options_are_exactly_the_real_ones(name: str) -> None:
    """Each begins a line of the list, or is named as one that many commands have."""
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


ROOT = DOCUMENT.parents[1]
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
CALLED = re.compile(r"(?:\$ )?(?:[A-Z_]+=\S+ )*(?:ray job submit -- )?(?:uv run |\./py |python )?(\S.*)")
PROGRAM = re.compile(r"(?:-m marin|(?:\.venv/bin/)?marin)(?= |$)|(?=\S+\.py(?: |$))")


def documented() -> list[tuple[str, str]]:
    """(page, words for ``marin``) of every line of code on a page that calls it, or a file of an experiment."""
    found: set[tuple[str, str]] = set()
    for page in PAGES:
        for block in re.findall(r"^```(?:sh|bash|)\n(.*?)^```", page.read_text(), flags=re.MULTILINE | re.DOTALL):
            for line in block.splitlines():
                called = CALLED.fullmatch(re.split(r" {3,}| +# | >> | [|] ", line.strip())[0])
                program = PROGRAM.match(called[1]) if called and not line.startswith(" ") else None
                words = called[1][program.end() :].strip() if called and program else ""
                if (
                    program
                    and " · " not in line
                    and (line.startswith("$") or program[0] != "marin" or words.split(" ")[0] in LINES)
                ):
                    found.add((page.name, words if program[0] else f"run {words}"))
    return sorted(found)


def test_enough_of_them_are_found() -> None:
    pages = {page for page, _ in documented()}
    assert {"README.md", "commands.md", "tutorial.md", "own-text.md", "gc.md", "ray.md", "shared-store.md"} <= pages
    assert len(documented()) >= 58


@pytest.mark.parametrize(("page", "words"), documented(), ids=lambda given: given.replace("/", "|"))
def test_a_command_on_a_page_can_be_given(page: str, words: str) -> None:
    if "<Tab>" in words:
        return
    name, *arguments = shlex.split(words) or ["--help"]
    if name.startswith("--"):  # of marin itself
        return
    command = main.get_command(click.Context(main), name)
    assert command is not None, f"{page}: there is no marin {name}"
    command.make_context(name, arguments, resilient_parsing=False)  # raises for what it does not know
    for file in re.findall(r"experiments/exp1529_mantis\.py|experiments/exp1395_qwen3\.py", words):
        assert (ROOT / file).exists()
