"""Decide whether an output may be used: not if its bytes are revoked, or anything that it was built from is revoked."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress

from msgspec import Struct

from marin.errors import CorruptRecord
from marin.store.earlier import earlier_records
from marin.store.ends import is_record, read_ends
from marin.store.layout import SUPERSEDED, end_name
from marin.store.lineage import ADOPT, Lineage, Output, output_of, read_lineage
from marin.store.record import Record, parse_record
from marin.store.revocation import Revocation, Revocations
from marin.store.store import Store

MOST_ROUNDS = 6  # of reads, each one step further up; after them, every record is read at once
SHOWN = 3  # steps to name on the way from a revoked output, the nearest ones


class Distrust(Struct, frozen=True, eq=False):
    """The reason why an output must not be used."""

    taint: Taint  # that found it
    output: Output
    revocation: Revocation  # of the output's bytes, or of bytes that it was built from
    origin: Output  # which holds the revoked bytes
    before: Distrust | None = None  # of its input; None if the output itself is revoked
    distance: int = 0  # steps from the origin

    @property
    def is_revoked(self) -> bool:
        """Is the output itself revoked, rather than built from a revoked one?"""
        return self.before is None

    @property
    def why(self) -> str:
        """Return the reason in words.

        "made from tokenize/dolmino 0123456789ab (through train/mantis), revoked by ann on …: holds test items"
        """
        said = self.taint.revocations.describe(self.revocation)
        return said if self.is_revoked else f"{self.way}, {said}"

    @property
    def way(self) -> str:
        """Return in words how the output was built from the revoked one."""
        name_of, names, above = self.taint.lineage.name_of, list[str](), self.before
        while above is not None and not above.is_revoked and len(names) < SHOWN:
            names.append(name_of(above.output))
            above = above.before
        if above is not None and above.distance:
            names.append(f"{above.distance} more")
        through = f" (through {' → '.join(names[::-1])})" if names else ""
        return f"made from {name_of(self.origin)} {self.origin.identity[:12]}{through}"

    def reaches(self, reader: Output) -> Distrust:
        """Return the reason for an output that was built from this one."""
        return Distrust(self.taint, reader, self.revocation, self.origin, self, self.distance + 1)


class Taint:
    """The outputs of a lineage that are revoked, or were built from a revoked one."""

    def __init__(self, lineage: Lineage, revocations: Revocations) -> None:
        self.lineage, self.revocations = lineage, revocations
        self.found: dict[Output, Distrust] = {}  # every output that cannot be trusted, with the reason
        if revocations:
            self.judge({**lineage.records, **lineage.readers})

    def judge(self, outputs: Iterable[Output]) -> None:
        """Judge outputs, also ones added to the lineage since. Outputs nearest to a revoked one come first."""
        queue = [seed for output in outputs if output not in self.found and (seed := self._seed(output)) is not None]
        for bad in queue:  # which grows meanwhile
            if bad.output not in self.found:
                self.found[bad.output] = bad
                readers = self.lineage.used_by(bad.output)
                queue += [bad.reaches(reader) for reader in readers if reader not in self.found]

    def _seed(self, output: Output) -> Distrust | None:
        record = self.lineage.records.get(output)
        revocation = self.revocations.of(output.root, record.content if record is not None else "")
        if revocation is not None:
            return Distrust(self, output, revocation, output)
        bad = next((self.found[above] for above in self.lineage.made_from(output) if above in self.found), None)
        return None if bad is None else bad.reaches(output)


class TrustChecker:
    """Judges outputs one by one. It reads only their ancestors, and nothing if nothing is revoked."""

    def __init__(self, store: Store, records: Mapping[str, Record], revocations: Revocations) -> None:
        """records: known already, by identity."""
        self._store, self._given, self._revocations = store, records, revocations
        self._missing: set[Output] = set()  # outputs without a record
        self._judged: set[Output] = set()
        self._is_whole = False  # has every record of the store been read?

    @functools.cached_property
    def _lineage(self) -> Lineage:
        """Return the lineage of the records that were read so far."""
        return Lineage(self._given.values())

    @functools.cached_property
    def _taint(self) -> Taint:
        return Taint(self._lineage, self._revocations)

    def untrusted(self, record: Record) -> Distrust | None:
        """Return why an output must not be used; None if it may be."""
        if not self._revocations:
            return None
        output = output_of(record)
        if output not in self._judged:
            found = self._read_up(record, until=self._judged, through_copies=True)
            self._taint.judge(found)
            self._judged.update(found)
        return self._taint.found.get(output)

    def ancestry(self, record: Record) -> tuple[list[Record], list[str]]:
        """Return (the record and its ancestors' records, nearest first; names of ancestors without a record)."""
        found, records = self._read_up(record), self._lineage.records
        gone = [self._lineage.name_of(output) for output in found if output not in records]
        return [records[output] for output in found if output in records], gone

    def _read_up(self, record: Record, until: Collection[Output] = (), *, through_copies: bool = False) -> list[Output]:
        """Return the output and its ancestors, nearest first, without the ancestors above ``until``.

        through_copies: an adopted output counts as built from outputs of this store with the same bytes. Finding these
        takes every record.
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
        """Read every output that was ever committed under these identities."""
        identities = {output.identity for output in outputs}
        found = list(earlier_records(self._store.objects, self._store.prefix, identities)[0].values())
        contents = {
            end_name(identity, number): content
            for identity, ends in read_ends(self._store.objects, dict.fromkeys(identities, 0)).items()
            for number, content in ends.items()
        }
        contents |= self._store.objects.read_many(
            [name for identity in identities for name in self._superseded.get(identity, ())]
        )
        for name, content in contents.items():
            with suppress(CorruptRecord):  # readers still know the bytes; `marin audit` names the record
                if content and is_record(content):
                    found.append(parse_record(content, f"{self._store.prefix}/{name}"))
        self._lineage.add(found)
        self._missing |= outputs - self._lineage.records.keys()

    @functools.cached_property
    def _superseded(self) -> dict[str, list[str]]:
        """Return the names of records of outputs that are not here any more, by identity."""
        found: dict[str, list[str]] = {}
        for name in self._store.objects.list(SUPERSEDED):
            found.setdefault(name.partition(".")[0], []).append(f"{SUPERSEDED}/{name}")
        return found
