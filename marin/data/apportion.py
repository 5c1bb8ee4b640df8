"""Turn real-valued shares into whole draws: the number of the first n draws that each source gets, for any n."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

FRACTION_BITS = 62


@dataclass(frozen=True)
class _Split:
    """A node of the tree. It sends ``share`` / 2^62 of its draws to the lighter side, rounded to nearest."""

    share: int
    lighter: _Split | int
    heavier: _Split | int


class Apportionment:
    """The apportionment of draws to sources by fixed weights.

    ``counts(n)`` returns whole numbers that sum to n, are near n · weight, and never shrink as n grows.
    The largest-remainder method has the right sums but takes draws back as n grows (the Alabama
    paradox), so it needs a walk from the start. Here the sources are leaves of a Huffman tree, and every
    node rounds its lighter side to nearest. This gives random access and no drift over any number of
    draws. A count is off by less than half the source's depth in the tree.
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
        """Return how many of the first ``draws`` go to each source, in the order of the weights."""
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
    """A gradual change from one apportionment to another over ``length`` draws. Later draws follow the second.

    first, second: each apportionment, with the place of each of its weights among all ``size`` sources.
    Draws alternate between the two, and the second takes an ever larger share: n² / (2 · length) of the first n draws,
    rounded to nearest. The counts therefore sum to n and never shrink, as in Apportionment.
    """

    def __init__(
        self, first: tuple[Apportionment, Sequence[int]], second: tuple[Apportionment, Sequence[int]], *, length: int
    ) -> None:
        self._first, self._second, self._length = first, second, length
        self.size = len({*first[1], *second[1]})

    def counts(self, draws: int) -> list[int]:
        """Return the counts of each source, as Apportionment.counts does."""
        within = min(draws, self._length)
        second = (within * within + self._length) // (2 * self._length) + draws - within
        counts = [0] * self.size
        for (shares, places), asked in ((self._first, draws - second), (self._second, second)):
            for place, count in zip(places, shares.counts(asked), strict=True):
                counts[place] += count
        return counts


def draws_until(shares: Apportionment | Shift, index: int, count: int) -> int:
    """Return the fewest draws after which source ``index`` has ``count`` draws. Its weight at the end must be > 0."""
    high = 1
    while shares.counts(high)[index] < count:
        high *= 2
    low = high // 2
    while low + 1 < high:
        middle = (low + high) // 2
        low, high = (low, middle) if shares.counts(middle)[index] >= count else (middle, high)
    return high
