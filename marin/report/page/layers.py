"""Coordinates for a layered drawing: columns by depth, rows so that edges cross little."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

SWEEPS = 6


def components(nodes: int, edges: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Nodes that hang together, in order of their first node; the parts in order of size, smallest first."""
    part = {node: [node] for node in range(nodes)}
    for start, end in edges:
        if part[start] is not part[end]:
            joined = sorted(part[start] + part[end])
            part |= dict.fromkeys(joined, joined)
    return sorted({nodes[0]: nodes for nodes in part.values()}.values(), key=len)


def rows(
    depth: Sequence[int], edges: Sequence[tuple[int, int]]
) -> tuple[list[float], dict[tuple[int, int], list[float]]]:
    """Row of every node, and for every edge its rows in the columns that it passes.

    depth: column of each node. edges: (from, to) by index, depth[from] < depth[to]; others are ignored.
    Rows are in units of one box, from 0. Barycentre sweeps: Sugiyama, Tagawa and Toda 1981.
    """
    columns: dict[int, list[int]] = defaultdict(list)
    for node, column in enumerate(depth):
        columns[column].append(node)
    total = len(depth)
    neighbours: dict[int, list[int]] = defaultdict(list)
    passing: dict[tuple[int, int], list[int]] = {}
    for start, end in edges:
        if depth[start] >= depth[end]:
            continue
        path = [start]
        for column in range(depth[start] + 1, depth[end]):
            columns[column].append(total)
            path.append(total)
            total += 1
        passing[start, end] = path[1:]
        path.append(end)
        for left, right in pairwise(path):
            neighbours[left].append(right)
            neighbours[right].append(left)
    column_of = {node: column for column, nodes in columns.items() for node in nodes}
    row = {node: float(index) for nodes in columns.values() for index, node in enumerate(nodes)}
    order = sorted(columns)
    for sweep in range(SWEEPS):
        backwards = bool(sweep % 2)
        for column in reversed(order) if backwards else order:
            wanted = {node: _wanted(node, row, neighbours, column_of, backwards) for node in columns[column]}
            columns[column].sort(key=lambda node: (wanted[node], row[node]))
            _spread(columns[column], wanted, row, len(depth))
    lowest = min(row.values(), default=0.0)
    return (
        [row[node] - lowest for node in range(len(depth))],
        {edge: [row[node] - lowest for node in path] for edge, path in passing.items()},
    )


def _wanted(
    node: int, row: dict[int, float], neighbours: dict[int, list[int]], column_of: dict[int, int], backwards: bool
) -> float:
    """Mean row of the neighbours on the side that the sweep comes from."""
    side = [row[n] for n in neighbours[node] if (column_of[n] > column_of[node]) == backwards]
    return sum(side) / len(side) if side else row[node]


def _spread(nodes: Sequence[int], wanted: dict[int, float], row: dict[int, float], real: int) -> None:
    """Put nodes of one column, in this order, near their wanted rows without overlap.

    A passing edge (index >= real) needs 0.5 of a row, a box 1. Blocks that would overlap move together
    to the mean of what they want, as in isotonic regression by pooling adjacent violators.
    """
    offsets = [0.0]
    for left, right in pairwise(nodes):
        offsets.append(
            offsets[-1] + (0.5 if left >= real and right >= real else 0.75 if max(left, right) >= real else 1.0)
        )
    blocks: list[tuple[float, int]] = []
    for node, offset in zip(nodes, offsets, strict=True):
        mean, size = wanted[node] - offset, 1
        while blocks and blocks[-1][0] > mean:
            other, others = blocks.pop()
            mean, size = (mean * size + other * others) / (size + others), size + others
        blocks.append((mean, size))
    shift = [mean for mean, size in blocks for _ in range(size)]
    for node, offset, start in zip(nodes, offsets, shift, strict=True):
        row[node] = start + offset
