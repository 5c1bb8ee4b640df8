"""The evaluation items that a run read between two steps, counted from the order of its data.

A sequence is a window of seq_len tokens and may begin or end inside a problem. A sequence reads an item if the
window's own text passes the overlap rule for the item's question or for its answer. So a hit may be partial (15 % of
either, with today's rule), and a shorter scrap at a window's edge does not count. Copies say how much was read: 1.0 for
one whole question or answer. An item that stands several times in one window counts once.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from marin.data.order import DataOrder
from marin.data.token_store import TokenStore
from marin.errors import CorruptOutput
from marin.store.files.directory import Directory
from marin.text.overlap import ALL, WHOLE, OverlapIndex

PARTS = ("question", "answer")  # the counted parts of an item
TOGETHER = (ALL, WHOLE)  # hits that cover both parts
EXPOSURE_FILE = "exposure.json"
WINDOWS_AT_ONCE = 256  # of 4096 tokens: 4 MB


@dataclass(frozen=True, kw_only=True)
class Reads:
    """The counted reads of a run.

    first, end: optimizer steps, the end excluded. reads: for every item id the number of sequences that read the item,
    0 if none did. parts: copies of "question" and "answer", by item id.
    sequences: the number drawn from the sources that were searched. of_sources: that number by source. holding: the
    number with an item, by source. unindexed: ids of items that are too short to be found.
    """

    first: int
    end: int
    sequences: int
    of_sources: Mapping[str, int]
    holding: Mapping[str, int]
    reads: Mapping[str, int]
    parts: Mapping[str, Mapping[str, float]]
    unindexed: Sequence[str]

    @property
    def read(self) -> set[str]:
        return {id for id, times in self.reads.items() if times}

    @property
    def answers(self) -> set[str]:
        """Return the items whose answer was read. From the question alone a model cannot learn the gold."""
        return {id for id, copies in self.parts.items() if copies["answer"] > 0}

    @property
    def unread(self) -> set[str]:
        """Return the items of which no part was read; items too short to be found are left out."""
        return set(self.reads) - self.read - set(self.unindexed)

    @property
    def copies(self) -> int:
        return sum(self.reads.values())

    @property
    def sentence(self) -> str:
        """Return "read 7 of 128 test items, 8 times in all, in 6 of 9 sequences of all_math between steps …"."""
        items = (
            f"{len(self.read)} of {len(self.reads)} test items, {self.copies} times in all, in"
            if self.read
            else (f"none of {len(self.reads)} test items in")
        )
        return f"read {items} {self.how}"

    @property
    def how(self) -> str:
        """Return "6 of 9 sequences of all_math between steps 160 and 192": 6 of the 9 drawn hold an item."""
        held = {name: n for name, n in self.holding.items() if n}
        where = [f"{n} of {self.of_sources[name]} sequences of {name}" for name, n in held.items()]
        looked = f"{self.sequences} sequences of {', '.join(self.of_sources)}"
        return f"{' and '.join(where) or looked} between steps {self.first} and {self.end}"

    def summary(self) -> dict[str, Any]:
        """Return the summary for a report: counts of items and reads, the sources, and each item that was read."""
        return {
            "items": len(self.read),
            "of": len(self.reads),
            "copies": self.copies,
            "how": self.how,
            "reads": {id: times for id, times in self.reads.items() if times},
            "parts": self.parts,
        }


@dataclass(frozen=True)
class Count:
    """The reads of some steps: sequences and holding by source number, reads by item, copies by (item, part)."""

    sequences: Counter[int]
    holding: Counter[int]
    reads: Counter[int]
    copies: dict[tuple[int, str], float]


def count_reads(
    order: DataOrder[Any],
    stores: Mapping[int, TokenStore],
    steps: range,
    seq_len: int,
    index: OverlapIndex,
    decode: Callable[[Iterable[int]], str],
) -> Count:
    """Count the reads of ``steps`` in ``stores`` (by number in order.sources). Memory: one batch at a time."""
    made = Count(Counter(), Counter(), Counter(), {})
    for step in steps:
        source, sequence = order.batch_at(step)
        for number in sorted(stores):
            drawn = sequence[source == number]
            made.sequences[number] += len(drawn)
            for start in range(0, len(drawn), WINDOWS_AT_ONCE):
                for window in stores[number].read(drawn[start : start + WINDOWS_AT_ONCE], seq_len):
                    _count_window(made, number, index, decode(np.asarray(window).tolist()))
    return made


def _count_window(made: Count, number: int, index: OverlapIndex, text: str) -> None:
    found = index.find(text)
    made.holding[number] += bool(found)
    made.reads.update({hit.item for hit in found})
    alone = {hit.item for hit in found if hit.part in PARTS}
    for hit in found:
        together = PARTS if hit.part in TOGETHER and hit.item not in alone else ()
        for part in (hit.part,) if hit.part in PARTS else together:
            made.copies[hit.item, part] = made.copies.get((hit.item, part), 0.0) + hit.coverage


def total(
    counts: Iterable[Count], order: DataOrder[Any], looked: Iterable[int], steps: range, index: OverlapIndex
) -> Reads:
    """Return all counts as one. looked: the numbers of the sources that were searched."""
    sequences, holding, reads = Counter[int](), Counter[int](), Counter[int]()
    copies: dict[tuple[int, str], float] = {}
    for count in counts:
        sequences.update(count.sequences)
        holding.update(count.holding)
        reads.update(count.reads)
        for key, value in count.copies.items():
            copies[key] = copies.get(key, 0.0) + value
    names = {number: order.names[number] for number in sorted(looked, key=lambda number: order.names[number])}
    return Reads(
        first=steps.start,
        end=steps.stop,
        sequences=sum(sequences.values()),
        of_sources={name: sequences[number] for number, name in names.items()},
        holding={name: holding[number] for number, name in names.items()},
        reads={item.id: reads[number] for number, item in enumerate(index.items)},
        parts={
            item.id: {part: round(copies.get((number, part), 0.0), 4) for part in PARTS}
            for number, item in enumerate(index.items)
            if reads[number]
        },
        unindexed=list(index.unindexed),
    )


def write_reads(out: Directory, reads: Reads) -> None:
    out.write_text(EXPOSURE_FILE, json.dumps(asdict(reads), indent=1, sort_keys=True) + "\n")


def read_reads(directory: Directory) -> Reads:
    """Return the reads that write_reads wrote. Raises CorruptOutput for any other file."""
    try:
        return Reads(**json.loads(directory.read_bytes(EXPOSURE_FILE)))
    except (TypeError, ValueError) as error:
        raise CorruptOutput(f"{directory.url}/{EXPOSURE_FILE} is no exposure ({error}); rebuild the step") from error
