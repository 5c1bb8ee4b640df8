"""The lineage of outputs: the inputs and readers of every output that a store knows, also of replaced ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, cast

from marin.store.collector import paused
from marin.store.inventory import Inventory
from marin.store.record import Record
from marin.store.store import Store

ADOPT = "adopt"  # op of outputs adopted from outside the store
PINNED = "pinned"  # op of steps that name an output by its path


class Output(NamedTuple):
    """One output that exists or existed. An identity has several if a rebuild gave other bytes."""

    identity: str
    root: str


def output_of(record: Record) -> Output:
    return Output(record.identity, record.root)


class Lineage:
    """The inputs and readers of outputs, as far as records tell."""

    def __init__(
        self,
        records: Iterable[Record],  # of every output
        current: Mapping[str, Record] | None = None,  # committed now, by identity
        unreadable: Sequence[str] = (),  # one error for each unreadable record, which the lineage leaves out
        collected: Mapping[str, str] | None = None,  # why gc deleted the output, by identity
    ) -> None:
        self.current, self.collected = dict(current or {}), dict(collected or {})
        self.unreadable = list(unreadable)
        self.records: dict[Output, Record] = {}
        self.readers: dict[Output, list[Output]] = {}
        self._same: dict[str, dict[Output, None]] = {}  # outputs by the digests of their bytes
        self.add(self.current.values())
        self.add(records)

    def add(self, records: Iterable[Record]) -> None:
        """Add records. A record that is already in the lineage stays."""
        self._graphs: dict[str, Any] = {}
        for record in records:
            output = output_of(record)
            if output in self.records:
                continue
            self.records[output] = record
            for digest in {record.root, record.content} - {""}:
                self._same.setdefault(digest, {})[output] = None
            for each in record.inputs:
                above = Output(each.identity, each.root)
                self.readers.setdefault(above, []).append(output)
                self._same.setdefault(above.root, {})[above] = None

    def inputs(self, output: Output) -> list[Output]:
        """Return the direct inputs of an output."""
        record = self.records.get(output)
        return [] if record is None else [Output(each.identity, each.root) for each in record.inputs]

    def made_from(self, output: Output) -> list[Output]:
        """Return the direct inputs of an output. An adopted copy counts as built from the outputs with its bytes."""
        if not self._is_adopted(output):
            return self.inputs(output)
        return [each for each in self.with_bytes_of(output) if each != output]

    def used_by(self, output: Output) -> list[Output]:
        """Return the direct readers of an output. An adopted copy of its bytes counts as a reader."""
        copies = [each for each in self.with_bytes_of(output) if each != output and self._is_adopted(each)]
        return [*self.readers.get(output, ()), *copies]

    def up(self, outputs: Iterable[Output]) -> dict[Output, int]:
        """Return every output that these were built from, nearest first, with its distance in steps."""
        return self._reach(outputs, self.inputs)

    def down(self, outputs: Iterable[Output]) -> dict[Output, int]:
        """Return every output that was built from these, nearest first, with its distance in steps."""
        return self._reach(outputs, self.used_by)

    def with_bytes_of(self, output: Output) -> list[Output]:
        """Return every output with the same bytes, also itself, of any identity, label, kind and facts."""
        record = self.records.get(output)
        alike = dict.fromkeys(self._same.get(output.root, (output,)))
        if record is not None and record.content:
            alike |= self._same[record.content]
        return list(alike)

    def name_of(self, output: Output) -> str:
        """Return an output's name for people. If its record is gone, its readers still know the name."""
        record = self.records.get(output)
        if record is not None:
            return record.name
        for reader in self.readers.get(output, ()):
            for each in self.records[reader].inputs:
                if Output(each.identity, each.root) == output:
                    return each.name
        return output.identity[:12]

    def is_superseded(self, output: Output) -> bool:
        """Did a rebuild replace this output, or is its record gone?"""
        record = self.current.get(output.identity)
        return record is None or record.root != output.root

    def _reach(self, starts: Iterable[Output], step: Callable[[Output], list[Output]]) -> dict[Output, int]:
        import networkx as nx

        graph: Any
        starts = dict.fromkeys(starts)
        if (graph := self._graphs.get(step.__name__)) is None:
            graph = self._graphs[step.__name__] = cast(Any, nx.DiGraph())
            graph.add_nodes_from(self.records | self.readers)
            graph.add_edges_from((output, each) for output in list(graph) for each in step(output))
        for start in [start for start in starts if start not in graph]:
            graph.add_node(start)
            graph.add_edges_from((start, each) for each in step(start))
        layers: Iterable[list[Output]] = nx.bfs_layers(graph, list(starts))
        return {each: distance for distance, layer in enumerate(layers) if distance for each in layer}

    def _is_adopted(self, output: Output) -> bool:
        record = self.records.get(output)
        return record is not None and record.op == ADOPT


@paused()
def read_lineage(store: Store) -> Lineage:
    """Return the lineage of a store. Takes a few listings and concurrent reads."""
    return lineage_of(Inventory(store))


def lineage_of(inventory: Inventory) -> Lineage:
    """Return the lineage of an inventory of the whole store, with the outputs that are no longer current.

    Takes one or two more listings and concurrent reads.
    """
    past, unreadable = inventory.past()
    return Lineage(past, inventory.records, [*inventory.damage.values(), *unreadable], inventory.collected)
