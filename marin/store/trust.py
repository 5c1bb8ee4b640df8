"""Whether bytes may be used: not if they are revoked, or were made, over any number of steps, from what is."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from marin.errors import CorruptRecord
from marin.store.layout import record_name
from marin.store.lineage import ADOPT, Lineage, Output, output_of, read_lineage
from marin.store.record import Record, parse_record
from marin.store.revocation import Revocation, Revocations
from marin.store.store import Store

MOST_ROUNDS = 6  # of reads, each a step further up, before every record is read at once
SHOWN = 3  # steps on the way from a revoked output that are named, the nearest ones


@dataclass(frozen=True, eq=False)
class Distrust:
    """That an output is not to be used."""

    taint: Taint  # of which this is a part
    output: Output
    revocation: Revocation  # of its own bytes, or of those that it was made from
    origin: Output  # which holds those bytes
    before: Distrust | None = None  # of what it was made from; None if it holds revoked bytes itself
    distance: int = 0  # steps from the origin

    @property
    def is_revoked(self) -> bool:
        """Is it revoked itself, rather than made from what is?"""
        return self.before is None

    @property
    def why(self) -> str:
        """ "made from tokenize/dolmino 0123456789ab (through train/mantis), revoked by ann on …: holds test items"."""
        said = self.taint.revocations.describe(self.revocation)
        return said if self.is_revoked else f"{self.way}, {said}"

    @property
    def way(self) -> str:
        """How it was made from what is revoked."""
        name_of, names, above = self.taint.lineage.name_of, list[str](), self.before
        while above is not None and not above.is_revoked and len(names) < SHOWN:
            names.append(name_of(above.output))
            above = above.before
        if above is not None and above.distance:
            names.append(f"{above.distance} more")
        through = f" (through {' → '.join(names[::-1])})" if names else ""
        return f"made from {name_of(self.origin)} {self.origin.identity[:12]}{through}"

    def reaches(self, reader: Output) -> Distrust:
        """Of what was made from it."""
        return Distrust(self.taint, reader, self.revocation, self.origin, self, self.distance + 1)


class Taint:
    """Every output of a lineage that is revoked, or was made from one that is."""

    def __init__(self, lineage: Lineage, revocations: Revocations) -> None:
        self.lineage, self.revocations = lineage, revocations
        self._found: dict[Output, Distrust] = {}
        if revocations:
            self.judge({**lineage.records, **lineage.readers})

    def of(self, output: Output) -> Distrust | None:
        """None if it can be trusted."""
        return self._found.get(output)

    @property
    def found(self) -> Mapping[Output, Distrust]:
        """Everything that cannot be trusted."""
        return self._found

    def judge(self, outputs: Iterable[Output]) -> None:
        """Also outputs that the lineage has learnt of since. Those nearest to a revoked one come first."""
        level = [seed for output in outputs if output not in self._found and (seed := self._seed(output)) is not None]
        while level:
            later: dict[Output, Distrust] = {}
            for bad in level:
                self._found[bad.output] = bad
                for reader in self.lineage.used_by(bad.output):
                    later.setdefault(reader, bad.reaches(reader))
            level = [bad for output, bad in later.items() if output not in self._found]

    def _seed(self, output: Output) -> Distrust | None:
        record = self.lineage.records.get(output)
        revocation = self.revocations.of(output.root, record.content if record is not None else "")
        if revocation is not None:
            return Distrust(self, output, revocation, output)
        bad = next((self._found[above] for above in self.lineage.made_from(output) if above in self._found), None)
        return None if bad is None else bad.reaches(output)


class TrustChecker:
    """Reads no more of the store than the ancestors of what it is asked about, and nothing if nothing is revoked."""

    def __init__(self, store: Store, records: Mapping[str, Record], revocations: Revocations) -> None:
        """records: known already, by identity."""
        self._store, self._given, self._revocations = store, records, revocations
        self._missing: set[Output] = set()  # outputs without a record
        self._judged: set[Output] = set()
        self._is_whole = False  # has every record of the store been read?

    @functools.cached_property
    def _lineage(self) -> Lineage:
        """As far as it was read."""
        return Lineage(self._given.values())

    @functools.cached_property
    def _taint(self) -> Taint:
        return Taint(self._lineage, self._revocations)

    def untrusted(self, record: Record) -> Distrust | None:
        """Why these bytes are not to be used; None if they may be."""
        if not self._revocations:
            return None
        output = output_of(record)
        if output not in self._judged:
            found = self._read_up(record, until=self._judged, through_copies=True)
            self._taint.judge(found)
            self._judged.update(found)
        return self._taint.of(output)

    def ancestry(self, record: Record) -> tuple[list[Record], list[str]]:
        """(it and everything that it was made from, nearest first; names of those whose record is gone)."""
        found, records = self._read_up(record), self._lineage.records
        gone = [self._lineage.name_of(output) for output in found if output not in records]
        return [records[output] for output in found if output in records], gone

    def _read_up(self, record: Record, until: Collection[Output] = (), *, through_copies: bool = False) -> list[Output]:
        """It and everything that it was made from, nearest first, apart from what is above ``until``.

        through_copies: what came in from outside was made from the same bytes, where they were made here before; only
        all records together say that.
        """
        self._lineage.add([record])
        found: dict[Output, None] = {}
        level, rounds = [output_of(record)], 0
        while level:
            records = self._lineage.records
            unread = {output for output in level if output not in records} - self._missing
            if unread and rounds < MOST_ROUNDS:
                rounds += 1
                self._read(unread)
            elif unread:
                self._read_all()
            if through_copies and any(output in records and records[output].op == ADOPT for output in level):
                self._read_all()
            found |= dict.fromkeys(level)
            above = self._lineage.made_from if through_copies else self._lineage.inputs
            later = dict.fromkeys(each for output in level for each in above(output))
            level = [output for output in later if output not in found and output not in until]
        return list(found)

    def _read_all(self) -> None:
        if not self._is_whole:
            self._is_whole = True
            self._lineage.add(read_lineage(self._store).records.values())

    def _read(self, outputs: set[Output]) -> None:
        """What is committed under their identities now, or what that replaced."""
        self._add(record_name(output.identity) for output in outputs)
        missing = outputs - self._lineage.records.keys()
        self._add(name for output in missing for name in self._superseded.get(output.identity, ()))
        for output in outputs - self._lineage.records.keys():
            with suppress(CorruptRecord):  # `marin audit` names it
                if (record := self._store.record(output.identity)) is not None:  # only its lease names it
                    self._lineage.add([record])
        self._missing |= outputs - self._lineage.records.keys()

    @functools.cached_property
    def _superseded(self) -> dict[str, list[str]]:
        """Names of the records that were replaced, by identity."""
        found: dict[str, list[str]] = {}
        for name in self._store.superseded():
            found.setdefault(name.rpartition("/")[2].partition(".")[0], []).append(name)
        return found

    def _add(self, names: Iterable[str]) -> None:
        for name, content in self._store.objects.read_many(sorted(set(names))).items():
            with suppress(CorruptRecord):  # its readers still know the bytes that they read; `marin audit` names it
                if content:
                    self._lineage.add([parse_record(content, f"{self._store.prefix}/{name}")])
