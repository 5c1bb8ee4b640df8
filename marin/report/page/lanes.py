"""Find what folds in a graph of steps: lanes of per-source steps, and the trunk that is left."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter

from marin.report.page.model import StepRow

FEWEST_LANES = 3  # below this, a picture of boxes is clearer than a grid
MOST_ROWS = 48  # beyond this, equal lanes share a row
FEWEST_EQUAL = 5  # so many interchangeable trunk steps become one box
MOST_BOXES = 150  # beyond this, there is one box an operator
MOST_CELLS = 6000  # of rows by columns, likewise
MOST_REDUCED = 20_000  # steps; beyond, implied edges stay: finding them takes memory by the square, 1.25 GB for 100,000


@dataclass(frozen=True, kw_only=True)
class Lane:
    """Chains of steps, one per source, that share a row."""

    name: str
    cells: dict[str, tuple[StepRow, ...]]  # steps by operator
    feeds: frozenset[int]  # indices of Folded.gathers
    number: int
    into: int | None = None  # number of the lane whose first step bundles this one with others
    sources: int = 1


@dataclass(frozen=True, kw_only=True)
class Box:
    """A trunk step, or several interchangeable ones."""

    steps: tuple[StepRow, ...]
    lane_inputs: int  # how many lane steps it reads
    lanes_fed: int


@dataclass(frozen=True, kw_only=True)
class Folded:
    """A graph ready to draw."""

    columns: tuple[tuple[str, ...], ...]  # operators of each column of the grid
    lanes: tuple[Lane, ...]
    gathers: tuple[tuple[str, tuple[str, ...]], ...]  # (label, step names) that read many lanes
    beside: tuple[tuple[str, ...], ...]  # for each column of the grid, what its cells read besides their lane
    boxes: tuple[Box, ...]
    edges: tuple[tuple[int, int], ...]  # between boxes, by index, without those that a longer path implies
    column: tuple[int, ...]  # of each box, counted along these edges
    by_operator: bool = False  # too many to draw: one box for all steps of an operator, edges only from earlier ones
    with_edges: bool = True


class _Graph:
    """Steps by name, inputs restricted to steps that are there and come before any cycle."""

    def __init__(self, steps: Sequence[StepRow]) -> None:
        self.steps = {step.name: step for step in steps}
        self.inputs = {
            name: tuple(i for i in dict.fromkeys(step.inputs) if i in self.steps and i != name)
            for name, step in self.steps.items()
        }
        self.consumers: dict[str, list[str]] = {name: [] for name in self.steps}
        for name, inputs in self.inputs.items():
            for source in inputs:
                self.consumers[source].append(name)
        self.depth = self._depths()

    def _depths(self) -> dict[str, int]:
        """Longest path from a root; what a cycle keeps out comes last."""
        sorter = TopologicalSorter(self.inputs)
        with suppress(CycleError):
            sorter.prepare()
        depth: dict[str, int] = {}
        level = 0
        while names := sorter.get_ready():
            depth |= dict.fromkeys(names, level)
            sorter.done(*names)
            level += 1
        return {name: depth.get(name, level) for name in self.steps}


def fold(steps: Sequence[StepRow]) -> Folded:
    """Split the graph into lanes (same kind of chain for every source) and boxes.

    A step continues the lane of an input that no other step of its operator reads, when it has exactly
    one such input and at least FEWEST_LANES steps of its operator are like that: a tokenizer that all
    sources share, or items to decontaminate against, do not break a lane; a training step ends it.
    """
    graph = _Graph(steps)
    chains = _chains(graph)
    lane_of = {name: number for number, chain in enumerate(chains) for name in chain}
    columns = _columns(graph, lane_of)
    trunk = [name for name in graph.steps if name not in lane_of]
    gathers = _gathers(graph, lane_of, trunk)
    fed = [
        frozenset(index for index, (_, names) in enumerate(gathers) if _lanes_read(graph, lane_of, names[0]) & {number})
        for number in range(len(chains))
    ]
    into: dict[int, int] = {}
    for number, chain in enumerate(chains):
        into |= {lane_of[source]: number for source in graph.inputs[chain[0]] if source in lane_of}
    rows = [
        _lane(graph, number, chain, feeds, into.get(number))
        for number, (chain, feeds) in enumerate(zip(chains, fed, strict=True))
    ]
    rows = _bundle(rows) if len(rows) > MOST_ROWS else rows
    groups = _alike(graph, trunk)
    if len(groups) > MOST_BOXES or len(rows) * (len(columns) + len(gathers)) > MOST_CELLS:
        return fold_by_operator(steps)
    beside = tuple(_beside(graph, lane_of, into, column) for column in columns)
    boxes, edges, column = _boxes(graph, lane_of, groups)
    return Folded(
        columns=columns,
        lanes=tuple(_in_order(rows)),
        gathers=gathers,
        beside=beside,
        boxes=boxes,
        edges=edges,
        column=column,
    )


def _chains(graph: _Graph) -> list[list[str]]:
    """Lanes: chains from a step without inputs, chains that go on from a bundle of sources, single sources."""
    own: dict[str, str] = {}
    for name, inputs in graph.inputs.items():
        operator = graph.steps[name].op
        private = [
            source for source in inputs if sum(graph.steps[c].op == operator for c in graph.consumers[source]) == 1
        ]
        if len(private) == 1:
            own[name] = private[0]
    often = Counter(graph.steps[name].op for name in own)
    chain_of: dict[str, list[str]] = {}
    starts: list[str] = []
    for name in sorted(graph.steps, key=lambda step: graph.depth[step]):
        chain = chain_of.get(own[name]) if name in own else None
        if chain is not None and chain[-1] == own[name] and often[graph.steps[name].op] >= FEWEST_LANES:
            chain.append(name)
            chain_of[name] = chain
        else:
            chain_of[name] = [name]
            starts.append(name)
    rooted = [start for start in starts if not graph.inputs[start] and len(chain_of[start]) > 1]
    if len(rooted) < FEWEST_LANES:
        return []
    usual = {graph.steps[name].op for start in rooted for name in chain_of[start]}
    bundled = [
        start
        for start in starts
        if graph.inputs[start]
        and len(chain_of[start]) > 1
        and all(graph.steps[name].op in usual for name in chain_of[start][1:])
    ]
    chosen = {*rooted, *bundled}
    lane_of = {name: index for index, start in enumerate([*rooted, *bundled]) for name in chain_of[start]}
    for start in starts:
        if not graph.inputs[start] and len(chain_of[start]) == 1:
            readers = graph.consumers[start]
            inside = all(c in chosen if c in lane_of else len(_lanes_read(graph, lane_of, c)) > 1 for c in readers)
            if readers and inside:
                chosen.add(start)
    place = {name: index for index, name in enumerate(graph.steps)}
    return [chain_of[start] for start in sorted(chosen, key=lambda start: place[start])]


def _columns(graph: _Graph, lane_of: dict[str, int]) -> tuple[tuple[str, ...], ...]:
    """Operators of the grid so that every lane reads left to right, as far as lanes agree.

    Operators that stand next to each other and that no lane has both of share a column.
    """
    deepest: dict[str, list[int]] = defaultdict(list)
    after: dict[str, set[str]] = defaultdict(set)
    position: Counter[int] = Counter()
    previous: dict[int, str] = {}
    for name in sorted(lane_of, key=lambda step: graph.depth[step]):
        operator, lane = graph.steps[name].op, lane_of[name]
        deepest[operator].append(position[lane])
        if lane in previous and previous[lane] != operator:
            after[operator].add(previous[lane])
        elif lane not in previous:
            after[operator] |= {graph.steps[source].op for source in graph.inputs[name] if source in lane_of}
            after[operator].discard(operator)
        position[lane] += 1
        previous[lane] = operator
    left = sorted(deepest, key=lambda op: (sum(deepest[op]) / len(deepest[op]), op))
    order: list[str] = []
    while left:
        free = next((op for op in left if not (after[op] & set(left))), left[0])
        order.append(free)
        left.remove(free)
    lanes_with: dict[str, set[int]] = defaultdict(set)
    for name, lane in lane_of.items():
        lanes_with[graph.steps[name].op].add(lane)
    columns: list[list[str]] = []
    for operator in order:
        last = columns[-1] if columns else []
        if last and not any(lanes_with[operator] & lanes_with[other] or other in after[operator] for other in last):
            last.append(operator)
        else:
            columns.append([operator])
    return tuple(tuple(column) for column in columns)


def _lanes_read(graph: _Graph, lane_of: dict[str, int], name: str) -> frozenset[int]:
    return frozenset(lane_of[source] for source in graph.inputs[name] if source in lane_of)


def _gathers(graph: _Graph, lane_of: dict[str, int], trunk: Sequence[str]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Trunk steps that read two lanes or more; those of one operator that read the same ones together."""
    alike: dict[tuple[str, frozenset[int]], list[str]] = defaultdict(list)
    for name in sorted(trunk, key=lambda step: graph.depth[step]):
        read = _lanes_read(graph, lane_of, name)
        if len(read) > 1:
            alike[graph.steps[name].op, read].append(name)
    labels = Counter(graph.steps[name].label for names in alike.values() for name in names)
    return tuple(
        (_unique_label(graph.steps[shown[0]], labels) if len(shown) == 1 else f"{operator} ×{len(shown)}", tuple(shown))
        for (operator, _), names in alike.items()
        for shown in ([names] if len(names) > 2 else [[name] for name in names])
    )


def _unique_label(step: StepRow, labels: Counter[str]) -> str:
    return step.label if labels[step.label] == 1 else step.name


def _beside(graph: _Graph, lane_of: dict[str, int], into: dict[int, int], column: Sequence[str]) -> tuple[str, ...]:
    """Inputs of a column's cells that come neither along their lane nor from one that ends in it."""
    found: dict[str, None] = {}
    for name, lane in lane_of.items():
        if graph.steps[name].op in column:
            for source in graph.inputs[name]:
                before = lane_of.get(source)
                if before is None or (before != lane and into.get(before) != lane):
                    found[source] = None
    return tuple(found)


def _lane(graph: _Graph, number: int, chain: Sequence[str], feeds: frozenset[int], into: int | None) -> Lane:
    cells: dict[str, tuple[StepRow, ...]] = {}
    for name in chain:
        step = graph.steps[name]
        cells[step.op] = (*cells.get(step.op, ()), step)
    labels = Counter(graph.steps[name].label for name in chain)
    name, times = labels.most_common(1)[0]
    shown = name if times > 1 else graph.steps[chain[-1]].label
    return Lane(name=shown, cells=cells, feeds=feeds, number=number, into=into)


def _in_order(lanes: Sequence[Lane]) -> list[Lane]:
    """Lanes that are read alike together; a lane that ends in another one just above it."""
    above: dict[int, list[Lane]] = defaultdict(list)
    for lane in lanes:
        if lane.into is not None:
            above[lane.into].append(lane)
    ordered: list[Lane] = []

    def place(lane: Lane) -> None:
        for feeder in above.pop(lane.number, []):
            place(feeder)
        ordered.append(lane)

    for lane in sorted(lanes, key=lambda lane: sorted(lane.feeds)):
        if lane.into is None:
            place(lane)
    # Lanes that end in each other in a circle: no valid graph, but still to be seen.
    return [*ordered, *(replace(lane, into=None) for left in above.values() for lane in left)]


def _bundle(lanes: Sequence[Lane]) -> list[Lane]:
    """One row for all lanes of the same operators that feed the same steps; lanes that join stay single."""
    joined = {lane.into for lane in lanes}
    alike: dict[tuple[object, ...], list[Lane]] = defaultdict(list)
    for lane in lanes:
        alone = lane.number if lane.number in joined else -1
        alike[tuple(lane.cells), lane.feeds, lane.into, alone].append(lane)
    return [
        replace(
            same[0],
            name=same[0].name if len(same) == 1 else f"{len(same)} sources: {same[0].name} …",
            cells={op: tuple(step for lane in same for step in lane.cells[op]) for op in same[0].cells},
            sources=len(same),
        )
        for same in alike.values()
    ]


def _alike(graph: _Graph, trunk: Sequence[str]) -> list[list[str]]:
    """Names of trunk steps, interchangeable ones together, inputs first."""
    alike: dict[tuple[str, frozenset[str], frozenset[str]], list[str]] = defaultdict(list)
    for name in trunk:
        alike[graph.steps[name].op, frozenset(graph.inputs[name]), frozenset(graph.consumers[name])].append(name)
    groups: list[list[str]] = []
    for names in alike.values():
        groups += [names] if len(names) >= FEWEST_EQUAL else [[name] for name in names]
    return sorted(groups, key=lambda names: graph.depth[names[0]])


def fold_by_operator(steps: Sequence[StepRow], *, with_edges: bool = True) -> Folded:
    """A box for each operator; one together for those of the fewest steps, where there are more than MOST_BOXES."""
    graph = _Graph(steps)
    largest = {op for op, _ in Counter(step.op for step in steps).most_common(MOST_BOXES)}
    groups: dict[str, list[str]] = defaultdict(list)
    for name in sorted(graph.steps, key=lambda step: graph.depth[step]):
        op = graph.steps[name].op
        groups[op if op in largest else ""].append(name)
    boxes, edges, column = _boxes(graph, {}, list(groups.values()))
    if not with_edges:
        edges, column = (), (0,) * len(boxes)
    return Folded(
        columns=(), lanes=(), gathers=(), beside=(), boxes=boxes, edges=edges, column=column, by_operator=True,
        with_edges=with_edges,
    )  # fmt: skip


def _boxes(
    graph: _Graph, lane_of: dict[str, int], groups: Sequence[Sequence[str]]
) -> tuple[tuple[Box, ...], tuple[tuple[int, int], ...], tuple[int, ...]]:
    """Groups of steps as boxes, with the edges between boxes and their columns. groups: inputs first."""
    place = {name: index for index, names in enumerate(groups) for name in names}
    direct = _direct_inputs(graph) if len(graph.steps) <= MOST_REDUCED else graph.inputs
    found = dict.fromkeys(
        (place[source], place[name]) for names in groups for name in names for source in direct[name] if source in place
    )
    edges = [edge for edge in found if edge[0] < edge[1]]
    column = [0] * len(groups)
    for start, end in sorted(edges, key=lambda edge: edge[1]):  # groups are sorted by depth: inputs first
        column[end] = max(column[end], column[start] + 1)
    boxes = tuple(
        Box(
            steps=tuple(graph.steps[name] for name in names),
            lane_inputs=len(_lanes_read(graph, lane_of, names[0])),
            lanes_fed=len({lane_of[c] for name in names for c in graph.consumers[name] if c in lane_of}),
        )
        for names in groups
    )
    return boxes, tuple(edges), tuple(column)


def _direct_inputs(graph: _Graph) -> dict[str, list[str]]:
    """Inputs that no other path leads to: the transitive reduction, over the whole graph, lanes included."""
    bit = {name: 1 << index for index, name in enumerate(graph.steps)}
    above: dict[str, int] = {}
    direct: dict[str, list[str]] = {}
    for name in sorted(graph.steps, key=lambda step: graph.depth[step]):
        inputs = [source for source in graph.inputs[name] if graph.depth[source] < graph.depth[name]]
        implied = 0
        for source in inputs:
            implied |= above[source]
        direct[name] = [source for source in inputs if not implied & bit[source]]
        above[name] = implied
        for source in inputs:
            above[name] |= bit[source]
    return direct
