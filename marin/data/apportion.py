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

    def draws_until(self, index: int, count: int) -> int:
        """The fewest draws after which source ``index`` has ``count`` of them."""
        high = 1
        while self.counts(high)[index] < count:
            high *= 2
        low = high // 2
        while low + 1 < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self.counts(middle)[index] >= count else (middle, high)
        return high
