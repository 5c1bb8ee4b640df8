"""How much a page shows of what there may be any number of. Pages of most experiments show all of it."""

from __future__ import annotations

from dataclasses import dataclass

LARGEST = 1_950_000  # bytes of a page
STEPS = 10_000  # for so many; more steps may take more, each as much


@dataclass(frozen=True, kw_only=True)
class Room:
    """What goes beyond it is cut, and the page says so."""

    line: int  # letters that a line of a fold has for what it says of a step, its label apart
    label: int  # letters
    inputs: int  # by name or number, of each step
    rows: int  # steps with a row of their own; of more, those of the largest operators have a line each
    apart: int  # of them, those that failed, drifted or the like
    kinds: int  # of errors, and of notes on trust
    error: int  # letters
    picture: int  # bytes of the graph


ROOMS = (
    Room(line=1000, label=1000, inputs=100_000, rows=400, apart=200, kinds=400, error=100_000, picture=1_000_000),
    Room(line=60, label=80, inputs=40, rows=300, apart=150, kinds=50, error=2000, picture=400_000),
    Room(line=20, label=40, inputs=4, rows=100, apart=100, kinds=10, error=500, picture=150_000),
)


def cut(text: str, letters: int) -> str:
    return text if len(text) <= letters else text[: letters - 1] + "…"


def most_bytes(steps: int) -> int:
    """That a page of so many steps may have."""
    return LARGEST * max(steps, STEPS) // STEPS
