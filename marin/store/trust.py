"""Whether bytes may be used: not if they are revoked, or were made, over any number of steps, from what is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress

from marin.errors import CorruptRecord
from marin.store.layout import record_name
from marin.store.lineage import ADOPT, Lineage, Output, Taint, read_lineage
from marin.store.record import Record, parse_record
from marin.store.revocation import Revocation, Revocations
from marin.store.store import Store

PATIENCE = 6  # rounds of reads, each a step further up, before every record is read at once


class TrustChecker:
    """Reads no more of the store than the ancestors of what it is asked about, and nothing if nothing is revoked.

    records: known already, by identity.
    """

    def __init__(self, store: Store, records: Mapping[str, Record], revocations: Revocations) -> None:
        self.store, self.revocations = store, revocations
        self._known = {Output(record.identity, record.root): record for record in records.values()}
        self._unknown: set[Output] = set()
        self._names: dict[Output, str] = {}
        self._ways = Taint()
        self._trusted: set[Output] = set()
        self._superseded: dict[str, list[str]] | None = None
        self._lineage: Lineage | None = None
        self._ways_of_all = Taint()

    def untrusted(self, record: Record) -> tuple[str, bool]:
        """(why these bytes are not to be used, or ""; are they revoked themselves rather than made from such)."""
        revocation = self.why(record)
        if revocation is None:
            return "", False
        way = self._ways.told(Output(record.identity, record.root), self._name_of)
        said = self.revocations.describe(revocation)
        return (f"{way}, {said}", False) if way else (said, True)

    def why(self, record: Record) -> Revocation | None:
        """The revocation that makes an output untrusted."""
        if not self.revocations:
            return None
        output = Output(record.identity, record.root)
        if output not in self._ways and output not in self._trusted:
            self._known[output] = record
            self._read_up(output)
            self._judge(output)
        origin = self._ways.origin(output)
        return self._revocation(origin) if origin is not None else None

    def ancestry(self, record: Record) -> tuple[list[Record], list[str]]:
        """(it and everything that it was made from, nearest first; names of those whose record is gone)."""
        start = Output(record.identity, record.root)
        self._known.setdefault(start, record)
        found: list[Record] = []
        gone: list[str] = []
        seen, pending, rounds = {start}, [start], 0
        while pending:
            unread = [output for output in pending if output not in self._known and output not in self._unknown]
            if unread:
                rounds += 1
                if rounds <= PATIENCE:
                    self._read(unread)
                else:
                    self._whole()
            later: list[Output] = []
            for output in pending:
                known = self._known.get(output)
                if known is None:
                    gone.append(self._name_of(output))
                    continue
                found.append(known)
                for held in known.inputs:
                    above = Output(held.identity, held.root)
                    self._names[above] = held.name
                    if above not in seen:
                        seen.add(above)
                        later.append(above)
            pending = later
        return found, gone

    def _name_of(self, output: Output) -> str:
        record = self._known.get(output)
        return record.name if record is not None else self._names.get(output, output.identity[:12])

    def _revocation(self, output: Output) -> Revocation | None:
        record = self._known.get(output)
        return self.revocations.of(output.root, record.content if record is not None else "")

    def _judge(self, start: Output) -> None:
        """Inputs before what was made from them, without recursion. What is read twice is judged once."""
        trail = [start]
        entered: set[Output] = set()
        while trail:
            output = trail[-1]
            if output in self._ways or output in self._trusted:
                trail.pop()
                continue
            inputs = self._inputs(output)
            if self._revocation(output) is not None:
                self._ways.add(output, None)
            elif output not in entered:
                entered.add(output)
                trail += [held for held in inputs if held not in entered]
            elif (bad := next((held for held in inputs if held in self._ways), None)) is not None:
                self._ways.add(output, bad)
            else:
                self._trusted.add(output)

    def _inputs(self, output: Output) -> list[Output]:
        record = self._known.get(output)
        if record is None:
            return []
        if record.op == ADOPT:
            # It came in from outside, and only all records together say whether its bytes were made here before.
            self._whole()
            before = self._ways_of_all.before(output)
            return [] if before is None else [before]
        self._names |= {Output(held.identity, held.root): held.name for held in record.inputs}
        return [Output(held.identity, held.root) for held in record.inputs]

    def _read_up(self, start: Output) -> None:
        """The records of everything it was made from."""
        seen, pending = {start}, [start]
        for _ in range(PATIENCE):
            unread: list[Output] = []
            while pending:
                output = pending.pop()
                if output not in self._known:
                    unread.append(output)
                elif output not in self._ways and output not in self._trusted:
                    above = [held for held in self._inputs(output) if held not in seen]
                    seen.update(above)
                    pending += above
            unread = [output for output in unread if output not in self._unknown]
            if not unread:
                return
            self._read(unread)
            pending = unread
        self._whole()

    def _whole(self) -> Lineage:
        if self._lineage is None:
            self._lineage = read_lineage(self.store)
            self._known = self._lineage.records | self._known
            self._ways_of_all = self._lineage.untrusted(self.revocations)
        return self._lineage

    def _read(self, outputs: Iterable[Output]) -> None:
        """Records of these outputs: what is committed under their identities now, or what that replaced."""
        wanted = set(outputs)
        self._take({record_name(output.identity) for output in wanted})
        missing = wanted - self._known.keys()
        if missing and self._superseded is None:
            self._superseded = {}
            for name in self.store.superseded():
                self._superseded.setdefault(name.rpartition("/")[2].partition(".")[0], []).append(name)
        if missing and self._superseded:
            self._take({name for output in missing for name in self._superseded.get(output.identity, ())})
        for output in wanted - self._known.keys():
            with suppress(CorruptRecord):  # `marin audit` names it
                if (record := self.store.record(output.identity)) is not None:  # only its lease names it
                    self._known.setdefault(Output(record.identity, record.root), record)
        self._unknown |= wanted - self._known.keys()

    def _take(self, names: set[str]) -> None:
        for name, content in self.store.objects.read_many(sorted(names)).items():
            try:
                record = parse_record(content, f"{self.store.prefix}/{name}") if content else None
            except CorruptRecord:
                continue  # its readers still know the bytes that they read; `marin audit` names it
            if record is not None:
                self._known.setdefault(Output(record.identity, record.root), record)
