"""Find cached text that holds items of evaluation suites, and the checkpoints that read it. Runs no step.

A fix does not change text that was written before. The search therefore reads the outputs themselves, not the steps of
today's experiment, and follows records down to the checkpoints.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

from marin.errors import BadField, MarinError
from marin.report.contents import TEXT, cached_text
from marin.report.decontamination import PUBLISHED
from marin.report.words import grouped
from marin.store.files.directory import Directory
from marin.store.files.verify import Check
from marin.store.inventory import Inventory
from marin.store.lineage import Lineage, Output, output_of
from marin.store.lookup import output_called
from marin.store.record import Record

if TYPE_CHECKING:
    from marin.text.control import Control
    from marin.text.overlap import OverlapIndex
    from marin.text.suite_search import Searched

CHECKPOINT = "checkpoint"


@dataclass(frozen=True)
class Suite:
    """An evaluation suite, ready for a search. control: how many planted items the search finds."""

    index: OverlapIndex
    control: Control


class State(Enum):
    """The state of a text. HOLDS: holds items. CLEAN: searched, or made from clean text alone. UNKNOWN: neither."""

    HOLDS = auto()
    CLEAN = auto()
    UNKNOWN = auto()


@dataclass(frozen=True, kw_only=True)
class ContaminationSearch:
    """One output of the search. problem: why the search is incomplete; "" if it is complete."""

    record: Record
    searched: Searched
    problem: str = ""
    is_gone: bool = False  # whether its bytes are missing

    @property
    def state(self) -> State:
        if self.searched.holding:
            return State.HOLDS
        return State.UNKNOWN if self.problem else State.CLEAN


class Reading(NamedTuple):
    """The texts behind a checkpoint, its parents included. ways: paths from text with items to the checkpoint.

    doubtful: paths that pass text that was not searched. unknown: text of unknown content.
    """

    checkpoint: Output
    ways: list[list[Output]]
    doubtful: list[list[Output]]
    unknown: list[Output]


def read_suites(inventory: Inventory, names: Iterable[str]) -> dict[str, Suite]:
    """Return the suites by name. A name is an output with items, or the path or URL of a published suite's file.

    Raises BadField for any other name, ControlMissed if the search misses over a quarter of planted items.
    """
    from marin.evaluation.items import read_items
    from marin.evaluation.published import is_suite, read_suite
    from marin.text.control import check_control
    from marin.text.overlap import OverlapIndex
    from marin.text.overlap_rule import Overlap

    suites: dict[str, Suite] = {}
    for name in names:
        if (file := _file(name, inventory.store.prefix)) is not None:
            if not is_suite(file[1]):
                raise BadField(f"{name} is not a suite; wanted JSON, JSON lines, CSV or Parquet")
            items = read_suite(*file)
        else:
            record = output_called(inventory, name)
            if record.kind != "items":
                wanted = "items: an output of ReadSuite or ReadItems, or a file"
                raise BadField(f"{record.name} holds {record.kind}, wanted {wanted}")
            items = read_items(inventory.store.output(record))
        index = OverlapIndex(items, Overlap())
        suites[name] = Suite(index, check_control(index))
    return suites


def _file(name: str, prefix: str) -> tuple[Directory, str] | None:
    if os.path.isfile(name):
        return Directory(os.path.dirname(os.path.abspath(name))), os.path.basename(name)
    if "://" in name and not name.startswith(f"{prefix}/"):
        folder, _, file = name.rpartition("/")
        return Directory(folder), file
    return None


def texts(lineage: Lineage, outputs: Iterable[Output] | None = None) -> list[Record]:
    """Return those outputs that hold text, one of several with shared bytes. outputs: all of the store by default."""
    wanted = lineage.records if outputs is None else outputs
    records = {record.attempt: record for each in wanted if (record := text_of(lineage, each)) is not None}
    return [record for _, record in sorted(records.items())]


def audit_contamination(
    inventory: Inventory,
    lineage: Lineage,
    suites: Mapping[str, Suite],
    records: Iterable[Record],
    every: int = 1,
    advance: Callable[[int], object] = lambda _: None,
) -> Contamination:
    """Search text for items. records: of the text. every: one shard in so many. advance: called with bytes done."""
    indexes = {name: suite.index for name, suite in suites.items()}
    looked: dict[str, ContaminationSearch] = {}
    for record in records:
        looked[record.attempt] = _look(inventory, record, indexes, every)
        advance(record.bytes)
    return Contamination(lineage, looked)


def text_of(lineage: Lineage, output: Output) -> Record | None:
    """Return the output's record if it holds text."""
    record = lineage.records.get(output)
    return record if record is not None and record.kind in TEXT else None


def _look(inventory: Inventory, record: Record, suites: Mapping[str, OverlapIndex], every: int) -> ContaminationSearch:
    from marin.text.suite_search import Searched

    store, searched = inventory.store, Searched()
    if not store.output(record).exists():
        moved = f"; they were at {record.mirrored[-1].origin}" if record.mirrored else ""
        return ContaminationSearch(
            record=record, searched=searched, problem=f"its bytes are missing{moved}", is_gone=True
        )
    # Damage is not always an error for the reader: other tokens are other text.
    problem = "; ".join(store.verify(record, Check.CHECKSUMS if every == 1 else Check.SIZES)[:3])
    try:
        searched.look_through(cached_text(inventory, record, every), suites)
    except (MarinError, OSError) as error:
        problem = problem or str(error)
    return ContaminationSearch(record=record, searched=searched, problem=problem)


class Contamination:
    """The result of a search: findings by output directory, and their consequences for everything built from them."""

    def __init__(self, lineage: Lineage, looked: Mapping[str, ContaminationSearch]) -> None:
        self.lineage, self.looked = lineage, looked
        self.texts = sum(each.searched.texts for each in looked.values())
        self.bytes = sum(each.searched.bytes for each in looked.values())  # UTF-8
        self.states = self._states()
        self._removed = removed = self._removed_later()
        held = [each.record for each in looked.values() if each.state is State.HOLDS]
        far = {record.attempt: len(lineage.up([output_of(record)])) for record in held}
        holding = [looked[attempt] for attempt in sorted(far, key=lambda attempt: (far[attempt], attempt))]
        # Outputs that were made from others come after them.
        self.contaminated = [each for each in holding if each.record.attempt not in removed]
        self.removed_later = [each for each in holding if each.record.attempt in removed]  # by a later step
        self.not_looked = [each for each in looked.values() if each.problem]  # not searched in full
        checkpoints = [record for record in lineage.records.values() if record.kind == CHECKPOINT]
        checkpoints.sort(key=lambda record: (record.provenance.ended, record.name), reverse=True)
        found = [self._reading(output_of(record)) for record in checkpoints]
        # Checkpoints that read text with items, or unknown text, newest first.
        self.readings = [each for each in found if each.ways or each.doubtful or each.unknown]

    @property
    def untold(self) -> list[str]:
        """Names of text whose content is unknown and matters, and of records that cannot be read.

        Text matters if it exists, if a checkpoint read it, or if all text of the search is gone. Text that was made
        from clean text alone is known.
        """
        read = {each for reading in self.readings for each in reading.unknown}
        names = [self.lineage.name_of(each) for each in read if each not in self.lineage.records]
        nothing = all(each.is_gone for each in self.looked.values())
        for each in self.not_looked:
            output = output_of(each.record)
            if output in read or ((nothing or not each.is_gone) and self.state(output) is State.UNKNOWN):
                names.append(each.record.name)
        return [*names, *self.lineage.unreadable]

    def state(self, output: Output) -> State:
        return self.states.get(output, State.UNKNOWN)

    def _reading(self, checkpoint: Output) -> Reading:
        ways, _ = self._ways(checkpoint, {State.HOLDS})
        begun = {way[0] for way in ways}
        every, reached = self._ways(checkpoint, {State.HOLDS, State.UNKNOWN})
        records = self.lineage.records
        unknown = [
            each
            for each in reached
            if each not in records
            or (records[each].attempt in self.looked and self.state(each) is State.UNKNOWN)
            or records[each].op in PUBLISHED
        ]
        doubtful = [way for way in every if way[0] not in begun and records[way[0]].attempt not in self._removed]
        return Reading(checkpoint, ways, doubtful, unknown)

    def _ways(self, checkpoint: Output, through: set[State]) -> tuple[list[list[Output]], list[Output]]:
        """Return (paths from texts with items to the checkpoint, all outputs on the way).

        A path begins at the first text with items, which was made from no other such text.
        """
        next_to: dict[Output, Output | None] = {checkpoint: None}
        pending, starts = deque([checkpoint]), list[Output]()
        while pending:
            output = pending.popleft()
            above = [each for each in self.lineage.made_from(output) if self._carries(each, through)]
            for each in above:
                if each not in next_to:
                    next_to[each] = output
                    pending.append(each)
            down = _way(output, next_to)  # adopted copies of one another form a circle
            if self.state(output) is State.HOLDS and not any(
                self.state(each) is State.HOLDS and each not in down for each in above
            ):
                starts.append(output)
        return [_way(start, next_to) for start in starts], list(next_to)

    def _carries(self, output: Output, through: set[State]) -> bool:
        record = self.lineage.records.get(output)
        is_text = self._may_be_text(output) and self.state(output) in through
        return is_text or (record is not None and record.kind == CHECKPOINT)

    def _may_be_text(self, output: Output) -> bool:
        """Return whether the output may be text. An output without a record may have held anything."""
        return output not in self.lineage.records or text_of(self.lineage, output) is not None

    def _states(self) -> dict[Output, State]:
        """Return the state of all text. Text that was not searched is clean if all its inputs are clean."""
        states: dict[Output, State] = {}
        for output, record in self.lineage.records.items():
            if record.kind in TEXT:
                looked = self.looked.get(record.attempt)
                states[output] = State.UNKNOWN if looked is None else looked.state
        made_from = {
            output: [each for each in self.lineage.made_from(output) if self._may_be_text(each)]
            for output, state in states.items()
            if state is State.UNKNOWN
        }
        while cleared := [
            output
            for output, above in made_from.items()
            if states[output] is State.UNKNOWN and above and all(states.get(each) is State.CLEAN for each in above)
        ]:
            states |= dict.fromkeys(cleared, State.CLEAN)
        return states

    def _removed_later(self) -> set[str]:
        """Return the directories of outputs whose items a later step removed.

        All their readers are clean text, or such outputs themselves. Readers are checkpoints and the searched text.
        """
        records = self.lineage.records

        def counts(reader: Output) -> bool:
            record = records.get(reader)
            return record is not None and (
                record.kind == CHECKPOINT or (record.kind in TEXT and record.attempt in self.looked)
            )

        holding = [output for output, state in self.states.items() if state is State.HOLDS]
        read = ((records[output].attempt, each) for output in holding for each in self.lineage.used_by(output))
        readers = grouped((attempt, each) for attempt, each in read if counts(each))
        removed: set[str] = set()
        while added := [
            attempt
            for attempt, further in readers.items()
            if attempt not in removed
            and all(self.state(each) is State.CLEAN or records[each].attempt in removed for each in further)
        ]:
            removed.update(added)
        return removed


def _way(start: Output, next_to: Mapping[Output, Output | None]) -> list[Output]:
    way, at = list[Output](), start
    while at is not None:
        way.append(at)
        at = next_to[at]
    return way
