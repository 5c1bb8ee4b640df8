"""The inputs of one output, or everything built from it: as data, and as a tree for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from msgspec.structs import asdict

from marin.report.claims import StoreClaims
from marin.report.words import folded, grouped
from marin.store.lineage import PINNED, Lineage, Output
from marin.store.lookup import origin
from marin.store.numbers import counted, listed
from marin.store.record import Record

NAMES = 3  # in a folded line
DESCRIBED = (  # fields of a record
    *("identity", "op", "label", "version", "kind", "facts", "files", "bytes", "root", "content", "inputs"),
    *("alias_of", "lifetime", "mirrored"),
)


class Direction(StrEnum):
    UP = "up"
    DOWN = "down"


@dataclass
class Node:
    """One output, or several like ones. Aliases, which share another output's bytes, are left out."""

    outputs: list[Output]
    children: list[Node] = field(default_factory=list["Node"])
    nearer: int = 0  # how many of its next outputs stand nearer to the start


class About(NamedTuple):
    """The text of a node, for people."""

    name: str
    text: str
    claims: list[tuple[str, str]]  # (line, subject); a subject of "" is not about trust


def walk(roots: Iterable[Node]) -> Iterator[tuple[int, Node]]:
    """Yield (level, node), each node before its children. It does not recurse, because chains can be deep."""
    pending = [(0, root) for root in roots][::-1]
    while pending:
        level, node = pending.pop()
        yield level, node
        pending += [(level + 1, child) for child in reversed(node.children)]


class LineageTree:
    """The inputs of these outputs, or everything built from them.

    starts: the outputs; downwards, every output with equal bytes. found: the other outputs with their distance,
    nearest first.
    """

    def __init__(self, direction: Direction, outputs: Iterable[Output], lineage: Lineage, claims: StoreClaims) -> None:
        self.direction, self.lineage = direction, lineage
        starts = dict.fromkeys(outputs)
        if direction is Direction.DOWN:
            starts |= dict.fromkeys(alike for output in list(starts) for alike in lineage.with_bytes_of(output))
        self.starts = list(starts)
        if direction is Direction.DOWN:
            self.found = lineage.down(self.starts)
        else:
            above = [lineage.up([output]) for output in self.starts]
            self.found = {each: min(one[each] for one in above if each in one) for one in above for each in one}
            self.found = {each: far for each, far in self.found.items() if each not in starts}
        self._walked = dict.fromkeys([*self.starts, *self.found])
        originals = ((self.original(output), output) for output in self._walked)
        self.aliases = grouped((original, output) for original, output in originals if original != output)
        self.claims = claims.of(self._walked | dict.fromkeys(self.aliases))

    def original(self, output: Output) -> Output:
        """Return the output whose bytes an alias shares. Any other output is its own original."""
        record = self.lineage.records.get(output)
        if record is None or not record.alias_of or record.op == PINNED:
            return output
        original = Output(record.alias_of, record.root)
        return original if original in self.lineage.records else output

    def next_to(self, output: Output) -> list[Output]:
        """Return the next outputs of an output and its aliases, as originals.

        An original that only lent its bytes does not count: its inputs belong to another lineage.
        """
        step = self.lineage.inputs if self.direction is Direction.UP else self.lineage.used_by
        alike = [each for each in (output, *self.aliases.get(output, ())) if each in self._walked]
        found = dict.fromkeys(self.original(each) for one in alike for each in step(one))
        return [each for each in found if each != output]

    def of_kind(self, kinds: Iterable[str]) -> list[Record]:
        """Return the found outputs of these kinds of artifact, nearest first, equal bytes once."""
        wanted = set(kinds)
        originals = dict.fromkeys(self.original(output) for output in self.found)
        records = [self.lineage.records[output] for output in originals if output in self.lineage.records]
        return [record for record in records if record.kind in wanted]

    def tally(self) -> str:
        """Return a count such as "7 outputs: 3 checkpoint, 4 tokens; 2 not to be trusted"."""
        originals = {self.original(output) for output in self.found} - {self.original(each) for each in self.starts}
        records = [self.lineage.records.get(output) for output in originals]
        kinds = Counter(record.kind if record is not None else "without a record" for record in records)
        parts = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items(), key=lambda pair: -pair[1]))
        bad = sum(any(claim.is_bad for claim in self.claims[output]) for output in originals)
        tally = counted(len(originals), "output") + (f": {parts}" if parts else "")
        return f"{tally}; {bad} not to be trusted" if bad else tally

    def tree(self, *, depth: int, every: bool) -> tuple[list[Node], int]:
        """Return (tree from the starts, number of outputs that are further away). depth: levels. every: fold nothing.

        Each output appears once, on the level nearest to the starts.
        """
        starts = list(dict.fromkeys(self.original(output) for output in self.starts))
        shown = set(starts)
        roots = [Node(each) for each in self._folded(starts, every)]
        level = roots
        for _ in range(depth):
            below: list[Node] = []
            for node in level:
                following = dict.fromkeys(each for output in node.outputs for each in self.next_to(output))
                fresh = [output for output in following if output not in shown]
                node.nearer = len(following) - len(fresh)
                shown.update(fresh)
                node.children = [Node(each) for each in self._folded(fresh, every)]
                below += node.children
            level = below
        return roots, len({self.original(output) for output in self.found} - shown)

    def about(self, node: Node) -> About:
        output, lineage = node.outputs[0], self.lineage
        record = lineage.records.get(output)
        claims = self.claims[output]
        kind = f"{record.kind}, " if record is not None else ""
        aliases = sum(len(self.aliases.get(each, ())) for each in node.outputs)
        further = f" · {counted(aliases, 'alias', 'aliases')}" if aliases else ""
        further += f" · and {node.nearer} shown nearer to the start" if node.nearer else ""
        lines = [
            (f"{claim.subject}: {claim.text}", claim.subject)
            if all(claim in self.claims[each] for each in node.outputs)
            else (f"all {claim.subject}", claim.subject)
            for claim in claims
        ]
        if len(node.outputs) > 1:
            op = record.op if record is not None else lineage.name_of(output)
            labels = list(dict.fromkeys(lineage.name_of(each).removeprefix(f"{op}/") for each in node.outputs))
            name, text = f"{op}/… × {len(node.outputs)}", f"{kind}{listed(labels, NAMES)}{further}"
        else:
            name, text = lineage.name_of(output), f"{output.identity[:12]}  {kind}{self._made(output)}{further}"
        return About(name, text, [*lines, *((same, "") for same in self.same_bytes(node.outputs))])

    def same_bytes(self, outputs: list[Output]) -> list[str]:
        """Return a line with other names of these bytes, or nothing."""
        names = {self.lineage.name_of(output) for output in outputs}
        aliases = {self.lineage.name_of(alias): alias for output in outputs for alias in self.aliases.get(output, ())}
        others = [f"{name} {alias.identity[:12]}" for name, alias in aliases.items() if name not in names]
        return [f"the same bytes: {listed(others, NAMES)}"] if others else []

    def _made(self, output: Output) -> str:
        """Return when the output was built. The builder and the experiment follow if they differ from the start's."""
        record, start = self.lineage.records.get(output), self.lineage.records.get(self.starts[0])
        if record is None:
            return ""
        made, first = record.provenance, start and start.provenance
        if first is None or output in self.starts or (made.who, made.experiment) != (first.who, first.experiment):
            return origin(record)
        return made.ended[:16]

    def to_json(self) -> dict[str, Any]:
        return {
            "direction": self.direction,
            "starts": [self._node(output, 0) for output in self.starts],
            "outputs": [self._node(output, distance) for output, distance in self.found.items()],
            "unreadable": self.lineage.unreadable,
        }

    def _node(self, output: Output, distance: int) -> dict[str, Any]:
        record = self.lineage.records.get(output)
        marks = [{"kind": claim.subject, "text": claim.text} for claim in self.claims[output]]
        node = {"step": self.lineage.name_of(output), **output._asdict(), "distance": distance, "marks": marks}
        return node if record is None else node | described(record)

    def _folded(self, outputs: Iterable[Output], every: bool) -> list[list[Output]]:
        """Group like outputs, in order of first appearance."""

        def likeness(output: Output) -> tuple[str, str, tuple[str, ...]]:
            record = self.lineage.records.get(output)
            op, kind = (record.op, record.kind) if record is not None else (self.lineage.name_of(output), "")
            return op, kind, tuple(claim.subject for claim in self.claims[output])

        return list(folded(grouped((likeness(output), output) for output in outputs).values(), every=every))


def described(record: Record) -> dict[str, Any]:
    """Return the fields of an output that every ``--json`` prints."""
    about = {"step": record.name, **{name: getattr(record, name) for name in DESCRIBED}, "output": record.attempt}
    return {**about, **asdict(record.provenance), "ended": record.provenance.ended}
