"""The graph that every tool is given: ten layers of trivial steps.

A step's value is what ``md5sum`` prints for the values that it reads, so that a shell rule and a Python function
agree byte by byte. Only the standard library: this file is imported by programs in every tool's own environment.
"""

import hashlib
import os
from collections.abc import Iterator
from typing import NamedTuple

LAYERS = 10
SEED = "seed"
SEED_VALUE = "seed\n"
EXECUTIONS = "executions"  # one byte for every step that ran: a cached run must add none


class Node(NamedTuple):
    """reads: two or three steps of the layer before, or the seed."""

    name: str
    reads: tuple[str, ...]


def layers(steps: int) -> Iterator[list[Node]]:
    """``steps`` nodes in ten layers. steps: a multiple of ten."""
    width = steps // LAYERS
    if width < 1 or steps % LAYERS:
        raise ValueError(f"{steps} steps cannot be {LAYERS} equal layers; ask for a multiple of {LAYERS}")
    for depth in range(LAYERS):
        yield [Node(name_of(depth, i), _reads(depth, i, width)) for i in range(width)]


def name_of(depth: int, i: int) -> str:
    return f"s{depth}_{i:05d}"


def _reads(depth: int, i: int, width: int) -> tuple[str, ...]:
    if depth == 0:
        return (SEED,)
    above = [i, (i + 1) % width] + ([(3 * i + 7) % width] if i % 2 else [])
    return tuple(dict.fromkeys(name_of(depth - 1, j) for j in above))


def value(reads: tuple[str, ...], values: tuple[str, ...]) -> str:
    return "".join(
        f"{hashlib.md5(held.encode()).hexdigest()}  {name}\n" for name, held in zip(reads, values, strict=True)
    )


def note_execution(folder: str) -> None:
    handle = os.open(os.path.join(folder, EXECUTIONS), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    os.write(handle, b".")
    os.close(handle)


def make(folder: str, reads: tuple[str, ...], values: tuple[str, ...]) -> str:
    """Carry out a Python step: note that it ran, and return its value."""
    note_execution(folder)
    return value(reads, values)


def make_file(folder: str, name: str, reads: tuple[str, ...]) -> None:
    """The same where values are files of the folder."""
    held: list[str] = []
    for read in reads:
        with open(os.path.join(folder, read), encoding="ascii") as handle:
            held.append(handle.read())
    made = make(folder, reads, tuple(held))
    with open(os.path.join(folder, name), "w", encoding="ascii") as handle:
        handle.write(made)


def answer(last_layer: list[str]) -> str:
    """Digest of the last layer's values, in order: equal for all tools."""
    return hashlib.md5("".join(last_layer).encode()).hexdigest()


def expected_answer(steps: int) -> str:
    values = {SEED: SEED_VALUE}
    names: list[str] = []
    for layer in layers(steps):
        values |= {node.name: value(node.reads, tuple(values[read] for read in node.reads)) for node in layer}
        names = [node.name for node in layer]
    return answer([values[name] for name in names])


def answer_of_files(folder: str, steps: int) -> str:
    """Return the answer of a tool whose values are files."""
    last = [node.name for node in list(layers(steps))[-1]]
    held: list[str] = []
    for name in last:
        with open(os.path.join(folder, name), encoding="ascii") as handle:
            held.append(handle.read())
    return answer(held)
