"""Token sequences that begin alike, laid into rows so that each shared beginning is computed once.

A row holds a tree of tokens, parents before children and each subtree in one piece: a token may look at itself and at
its ancestors, and those are exactly the earlier tokens in whose subtree it lies. The choices of an item share its
prompt, the items of a task share the examples before them.

Shapes: N tokens of a row, S predictions of a row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Wanted:
    """The log-probabilities of tokens[first:], each after all that stand before it; 1 <= first < len(tokens)."""

    tokens: Ids
    first: int


@dataclass(frozen=True)
class Row:
    """tokens, positions, ends: (N,); ends: the place after the last token of the subtree.

    at, targets: (S,) which token is to be predicted after which place. of, offsets: (S,) for which of the wanted, and
    which of its predictions that is.
    """

    tokens: Ids
    positions: Ids
    ends: Ids
    at: Ids
    targets: Ids
    of: Ids
    offsets: Ids


def lay(wanted: Sequence[Wanted], row: int) -> Iterator[Row]:
    """Rows of at most so many tokens. Raises ValueError for a sequence that is longer than a row."""
    order = sorted(range(len(wanted)), key=lambda index: wanted[index].tokens.tolist())
    open_row, path = _OpenRow(), list[int]()
    before = np.zeros(0, np.int32)
    for index in order:
        inputs = wanted[index].tokens[:-1]  # after the last token nothing is asked
        if len(inputs) > row:
            raise ValueError(f"a sequence of {len(inputs)} tokens does not fit into a row of {row}")
        shared = common_prefix(inputs, before)
        if len(open_row.tokens) + len(inputs) - shared > row:
            yield open_row.closed()
            open_row, path, shared = _OpenRow(), [], 0
        path = path[:shared]
        for position in range(shared, len(inputs)):
            path.append(len(open_row.tokens))
            open_row.tokens.append(int(inputs[position]))
            open_row.positions.append(position)
        first = wanted[index].first
        open_row.at += path[first - 1 :]
        open_row.targets += wanted[index].tokens[first:].tolist()
        open_row.of += [index] * (len(inputs) + 1 - first)
        open_row.offsets += range(len(inputs) + 1 - first)
        before = inputs
    if open_row.tokens:
        yield open_row.closed()


class _OpenRow:
    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.positions: list[int] = []
        self.at: list[int] = []
        self.targets: list[int] = []
        self.of: list[int] = []
        self.offsets: list[int] = []

    def closed(self) -> Row:
        ends = np.full(len(self.tokens), len(self.tokens), np.int32)
        open_places: list[int] = []
        for place, position in enumerate(self.positions):
            while len(open_places) > position:  # places are depths: a token at one closes all that are as deep
                ends[open_places.pop()] = place
            open_places.append(place)
        held = (self.tokens, self.positions, ends, self.at, self.targets, self.of, self.offsets)
        return Row(*(np.asarray(each, np.int32) for each in held))


def common_prefix(a: Ids, b: Ids) -> int:
    """How many tokens two sequences begin with alike."""
    shorter = min(len(a), len(b))
    differ = np.flatnonzero(a[:shorter] != b[:shorter])
    return int(differ[0]) if len(differ) else shorter
