"""The store as it was a moment ago. All views share one look; an old look is replaced."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator

from marin.errors import MarinError, UnknownStep
from marin.report.claims import Claim, Grade, StoreClaims
from marin.store.files.verify import Check
from marin.store.inventory import Inventory
from marin.store.lineage import Output, lineage_of, output_of
from marin.store.lookup import SHORTEST
from marin.store.numbers import counted
from marin.store.record import Record
from marin.store.revocation import revoked
from marin.store.store import Store

STALE_SECONDS = 2.0  # the least time that a look is used,
STALE_SHARE = 10  # and as a multiple of the time that it took, so that a large store is not read without end
SHOWN_FAULTS = 5


class StoreView:
    """One moment of a store: committed outputs, lineage and revocations."""

    def __init__(self, store: Store) -> None:
        began = time.monotonic()
        self.when = time.strftime("%H:%M:%S")
        self.store = store
        self.inventory = Inventory(store)
        self.lineage = lineage_of(self.inventory)
        self._claims, self._lock = StoreClaims(store, self.lineage, revoked(store)), threading.Lock()
        self.until = time.monotonic() + max(STALE_SECONDS, STALE_SHARE * (time.monotonic() - began))

    @property
    def unreadable(self) -> list[str]:
        return self.lineage.unreadable

    def claims(self, outputs: Iterable[Output]) -> dict[Output, list[Claim]]:
        """Return the claims about each output, worst first."""
        with self._lock:
            return self._claims.of(outputs)

    def store_claims(self) -> StoreClaims:
        """Return a copy for a reader in a thread of its own."""
        return StoreClaims(self.store, self.lineage, self._claims.revocations)

    def find(self, identity: str) -> tuple[str, Record | None]:
        """Return the whole identity of a step, and its record, by the first digits of the identity.

        The record may be replaced or deleted; it is None if the step has no output. Raises UnknownStep if no step fits,
        or several.
        """
        if len(identity) < SHORTEST or not set(identity) <= set("0123456789abcdef"):
            raise UnknownStep(f"{identity[:80]!r} is not an identity; give at least {SHORTEST} digits of one, 0-9a-f")
        former = {output.identity: record for output, record in self.lineage.records.items()}
        records = {**former, **self.inventory.records}
        known = records.keys() | self.inventory.known | self.inventory.damage.keys()
        found = sorted(each for each in known if each.startswith(identity))
        if len(found) != 1:
            advice = "give more digits" if found else "see the list of outputs"
            raise UnknownStep(f"{counted(len(found), 'step')} in this store begin with {identity}; {advice}")
        return found[0], records.get(found[0])

    def is_committed(self, record: Record) -> bool:
        """Return whether the record is the current one, neither replaced nor deleted."""
        return self.inventory.records.get(record.identity) is record

    def warnings(self, records: Iterable[Record], *, thorough: bool = False) -> dict[Output, list[Claim]]:
        """Return warnings that every reader of these outputs must see. Reads no content of their files.

        thorough: check the files of outputs in a bucket too, with a round trip each.
        """
        found: dict[Output, list[Claim]] = {}
        by_output = {output_of(record): record for record in records}
        for output, claims in self.claims(by_output).items():
            record = by_output[output]
            committed = self.is_committed(record)
            found[output] = [claim for claim in claims if claim.is_bad or not committed]
            if committed and (thorough or not self.store.objects.is_remote):
                found[output] += self._faults(record)
        return found

    def _faults(self, record: Record) -> Iterator[Claim]:
        """Yield faults in names, sizes and times of the output's files."""
        try:
            output = self.store.output(record)
            stamp = output.stamp() if output.is_local and record.stamp else ""
            if stamp and stamp == record.stamp:
                return
            found = self.store.verify(record, Check.SIZES)
            if stamp and not found and stamp != self.store.stamp(record):
                compare = f"`marin audit {record.identity[:12]} --bytes` compares the bytes"
                text = f"was touched or copied after its commit: {compare}"
                yield Claim(Grade.DOUBTFUL, "touched", text)
        except (MarinError, OSError) as error:
            found = [str(error)]
        if (more := len(found) - SHOWN_FAULTS) > 0:
            found[SHOWN_FAULTS:] = [f"and {more} more faults; `marin audit --bytes` lists them"]
        yield from (Claim(Grade.UNTRUSTED, "damaged", fault) for fault in found)
