"""Whole draws from real shares: how many of the first n draws each source gets, for any n at once."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

FRACTION_BITS = 62


@dataclass(frozen=True)
class _Split:
    """Of the draws that reach it, ``share`` / 2^62 go to the lighter side, rounded to nearest."""

    share: int
    lighter: _Split | int
    heavier: _Split | int


class Apportionment:
    """``counts(n)``: whole numbers that sum to n, near n · weight, and never shrink as n grows.

    The largest-remainder method has the right sums but takes draws back as n grows (the Alabama
    paradox), so it needs a walk from the start. Here the sources stand in a Huffman tree and every
    node rounds its lighter side to nearest: random access, no drift over any number of draws, and a
    count is off by less than half the source's depth in the tree.
    """

    def __init__(self, weights: Sequence[float]) -> None:
        self.size = len(weights)
        heap: list[tuple[float, int, _Split | int]] = [(weight, index, index) for index, weight in enumerate(weights)]
        heapq.heapify(heap)
        made = self.size
        while len(heap) > 1:
            light, _, lighter = heapq.heappop(heap)
            heavy, _, heavier = heapq.heappop(heap)
            share = round(light / (light + heavy) * (1 << FRACTION_BITS))
            heapq.heappush(heap, (light + heavy, made, _Split(share, lighter, heavier)))
            made += 1
        self._root = heap[0][2]

    def counts(self, draws: int) -> list[int]:
        """How many of the first ``draws`` go to each source, in the order of the weights."""
        counts = [0] * self.size
        pending: list[tuple[_Split | int, int]] = [(self._root, draws)]
        while pending:
            node, n = pending.pop()
            if isinstance(node, int):
                counts[node] = n
            elif n:
                lighter = (n * node.share + (1 << FRACTION_BITS - 1)) >> FRACTION_BITS
                pending += ((node.lighter, lighter), (node.heavier, n - lighter))
        return counts


class Shift:
    """From one apportionment to another, evenly over ``length`` draws; the second one's from then on.

    first, second: and the place of each of their weights among all ``size``. Both are asked in turn, the second
    ever more often: after n of the draws n² / (2 · length) times, to the nearest. So counts sum to n and never shrink
    here too.
    """

    def __init__(
        self, first: tuple[Apportionment, Sequence[int]], second: tuple[Apportionment, Sequence[int]], *, length: int
    ) -> None:
        self._first, self._second, self._length = first, second, length
        self.size = len({*first[1], *second[1]})

    def counts(self, draws: int) -> list[int]:
        """As Apportionment.counts."""
        within = min(draws, self._length)
        second = (within * within + self._length) // (2 * self._length) + draws - within
        counts = [0] * self.size
        for (shares, places), asked in ((self._first, draws - second), (self._second, second)):
            for place, count in zip(places, shares.counts(asked), strict=True):
                counts[place] += count
        return counts


def draws_until(shares: Apportionment | Shift, index: int, count: int) -> int:
    """The fewest draws after which source ``index``, which is drawn from at the end, has ``count`` of them."""
    high = 1
    while shares.counts(high)[index] < count:
        high *= 2
    low = high // 2
    while low + 1 < high:
        middle = (low + high) // 2
        low, high = (low, middle) if shares.counts(middle)[index] >= count else (middle, high)
    return high
