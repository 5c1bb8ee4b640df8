"""The committed outputs of a store, and the attempts that have no end yet, read in one sweep."""

from __future__ import annotations

from collections.abc import Collection

from marin.errors import BadPrefix, CorruptRecord
from marin.store.collector import paused
from marin.store.earlier import earlier_attempts, earlier_records
from marin.store.ends import Claim, End, How, parse_claim, parse_end
from marin.store.layout import CLAIMS, ENDS, OWN, SUPERSEDED, claim_name, end_name, numbered
from marin.store.record import Record, SharedParts, parse_record
from marin.store.store import Store

DIGITS = 64  # of an identity; the claims of `marin gc` itself have another name


class Inventory:
    """Committed outputs by identity. Takes two or three listings and concurrent reads; writes nothing.

    The output of an identity is that of its last end that is committed or collected. An empty end, as a power cut
    leaves it, counts for nothing.
    """

    def __init__(self, store: Store, identities: Collection[str] | None = None, *, claims: bool = False) -> None:
        """identities: None for all. claims: also read the claims of steps that have an output."""
        self.store, self._wanted = store, None if identities is None else set(identities)
        self.records: dict[str, Record] = {}  # the committed output of each step
        self.ends: dict[str, End] = {}  # of steps without an output: how the last attempt ended
        self.collected: dict[str, str] = {}  # of steps whose output gc deleted: the reason
        self.claims: dict[str, Claim] = {}  # of attempts that have no end
        self.damage: dict[str, str] = {}  # why an end or a claim cannot be read, by identity
        self._replaced: list[Record] = []  # outputs of a store of before that are no longer current
        self._numbers = self._listed(ENDS)
        self.last = {identity: numbers[-1] for identity, numbers in self._numbers.items()}  # number of the last end
        self._read_ends()
        self._read_earlier()
        # Identities that were ever attempted here, as far as they were listed.
        self.known = self._numbers.keys() | self.records.keys()
        if self._wanted is None:
            self.known |= earlier_attempts(store.objects)
        missing = None if self._wanted is None else self._wanted - self.records.keys() - self.damage.keys()
        if missing is None or missing or claims:
            self._read_claims(self._wanted if claims else missing)

    def newest_first(self) -> list[Record]:
        return sorted(self.records.values(), key=lambda each: (each.provenance.ended, each.name), reverse=True)

    def find(self, identity: str) -> Record | None:
        """Return the output of one more step, which need not be in the inventory yet. Raises CorruptRecord."""
        if identity not in self.records and (record := self.store.record(identity)) is not None:
            self.records[identity] = record
        return self.records.get(identity)

    def past(self) -> tuple[list[Record], list[str]]:
        """Return (the outputs that are no longer current, one error for each unreadable one).

        A rebuild replaced them, gc deleted them, or they stayed in a store from which others were mirrored. Takes one
        or two more listings and concurrent reads.
        """
        now = {identity: record.token for identity, record in self.records.items()}
        names = [
            end_name(identity, number)
            for identity, numbers in self._numbers.items()
            if len(numbers) > 1
            for number in numbers
            if number != now.get(identity)
        ]
        names += [f"{SUPERSEDED}/{name}" for name in self.store.objects.list(SUPERSEDED)]
        found, unreadable, known = list[Record](), list[str](), set(self.damage.values())
        for name, content in self.store.objects.read_many(names).items():
            try:
                parse = parse_record if name.startswith(SUPERSEDED) else parse_end
                end = parse(content, f"{self.store.prefix}/{name}")
            except CorruptRecord as error:
                unreadable += [str(error)] if str(error) not in known else []
            else:
                found += [end] if isinstance(end, Record) else []
        return [*found, *self._replaced], unreadable

    def _listed(self, folder: str) -> dict[str, list[int]]:
        """Return the numbers of the claims or ends in a folder, ascending, by identity."""
        found: dict[str, list[int]] = {}
        for name in self.store.objects.list(folder):
            identity, number = numbered(name)
            if len(identity) == DIGITS and (self._wanted is None or identity in self._wanted):
                found.setdefault(identity, []).append(number)
        return {identity: sorted(numbers) for identity, numbers in found.items()}

    def _read_ends(self) -> None:
        """Read the last end of each step, and earlier ones while they tell of no output."""
        shared = SharedParts()
        left = {identity: list(numbers) for identity, numbers in self._numbers.items()}
        while left:
            names = {end_name(identity, numbers.pop()): identity for identity, numbers in left.items()}
            for name, content in self.store.packs.read(names):
                identity = names[name]
                try:
                    end = parse_end(content, f"{self.store.prefix}/{name}")
                except CorruptRecord as error:
                    self.damage[identity] = str(error)
                    continue
                if isinstance(end, Record):
                    self.records[identity] = shared.of(end)
                elif end is not None:
                    self.ends.setdefault(identity, end)
                    if end.how is How.COLLECTED:
                        self.collected[identity] = end.why
            told = (self.records, self.collected, self.damage)
            left = {each: numbers for each, numbers in left.items() if numbers and not any(each in it for it in told)}
        self.ends = {identity: end for identity, end in self.ends.items() if identity not in self.records}

    def _read_earlier(self) -> None:
        """Read the records of a store of before."""
        wanted = None if self._wanted is None else self._wanted - self.records.keys()
        if wanted is not None and not wanted:
            return
        records, damage = earlier_records(self.store.objects, self.store.prefix, wanted)
        for identity, record in records.items():
            if identity in self.records or identity in self.collected or identity in self.damage:
                self._replaced.append(record)
            else:
                self.records[identity] = record
                self.ends.pop(identity, None)
        self.damage |= {each: why for each, why in damage.items() if each not in self.records.keys() | self.collected}

    def _read_claims(self, identities: Collection[str] | None) -> None:
        """Read the claims of attempts that have no end."""
        listed = self._listed(CLAIMS)
        self.known |= listed.keys()
        names = {
            claim_name(identity, numbers[-1]): identity
            for identity, numbers in listed.items()
            if numbers[-1] > self.last.get(identity, 0) and (identities is None or identity in identities)
        }
        for name, content in self.store.objects.read_many(list(names)).items():
            try:
                if content:  # a power cut leaves an empty one
                    self.claims[names[name]] = parse_claim(content, f"{self.store.prefix}/{name}")
            except CorruptRecord as error:
                self.damage.setdefault(names[name], str(error))


@paused()
def read_inventory(store: Store) -> Inventory:
    """Return the inventory of a store. Raises BadPrefix if there is no store."""
    must_exist(store)
    return Inventory(store)


def must_exist(store: Store) -> None:
    """Raise BadPrefix if there is no store: a reading command must not take a misspelt prefix for an empty store."""
    if not store.objects.list(OWN):
        raise BadPrefix(f"there is no store at {store.prefix}; --prefix names the one to look at")
