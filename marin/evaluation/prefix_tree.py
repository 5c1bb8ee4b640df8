"""Rows of token sequences with shared prefixes, so that a model computes each prefix once.

The choices of an item share its prompt, and the items of a task share the examples before them. A row holds a tree of
tokens: parents stand before children, and each subtree is in one piece. A token may attend to itself and its ancestors.
The ancestors are exactly the earlier tokens whose subtree contains the token.

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
    """A request for the log-probabilities of tokens[first:], each given all tokens before; 1 <= first < len(tokens)."""

    tokens: Ids
    first: int


@dataclass(frozen=True)
class Row:
    """A row of the tree.

    tokens, positions, ends: (N,). ends: the place after the last token of the token's subtree. at, targets: (S,) the
    place to predict after, and the token to predict. of, offsets: (S,) the number of the Wanted, and the number of the
    prediction within the Wanted.
    """

    tokens: Ids
    positions: Ids
    ends: Ids
    at: Ids
    targets: Ids
    of: Ids
    offsets: Ids


def lay(wanted: Sequence[Wanted], row: int) -> Iterator[Row]:
    """Yield rows of at most ``row`` tokens. Raises ValueError for a sequence that is longer than a row."""
    order = sorted(range(len(wanted)), key=lambda index: wanted[index].tokens.tolist())
    open_row, path = _OpenRow(), list[int]()
    before = np.zeros(0, np.int32)
    for index in order:
        inputs = wanted[index].tokens[:-1]  # nothing is predicted after the last token
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
            while len(open_places) > position:  # a position is a depth: close subtrees at least as deep
                ends[open_places.pop()] = place
            open_places.append(place)
        held = (self.tokens, self.positions, ends, self.at, self.targets, self.of, self.offsets)
        return Row(*(np.asarray(each, np.int32) for each in held))


def common_prefix(a: Ids, b: Ids) -> int:
    """Return the length of the longest common prefix of two sequences."""
    shorter = min(len(a), len(b))
    differ = np.flatnonzero(a[:shorter] != b[:shorter])
    return int(differ[0]) if len(differ) else shorter
