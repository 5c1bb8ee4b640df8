"""A run's eye on revocations: what is revoked while it lasts is not built on."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from marin.errors import Revoked
from marin.executor.job import Job
from marin.store.layout import REVOCATIONS
from marin.store.lease import LOOK_SECONDS
from marin.store.record import Record
from marin.store.revocation import Revocations, revoked
from marin.store.store import Store
from marin.store.trust import TrustChecker

READ_AGAIN = 30.0  # seconds: what is there already may have been withdrawn, or revoked once more


class RevocationWatch:
    """Lists the revocations at most once in LOOK_SECONDS, and reads them when there are new ones.

    records: known already, by identity.
    """

    def __init__(
        self, store: Store, records: Mapping[str, Record], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._store, self._records, self._clock = store, records, clock
        self._names: frozenset[str] = frozenset()
        self._next_look = self._next_reading = float("-inf")
        self._judge = TrustChecker(store, records, Revocations())

    def untrusted(self, record: Record) -> str:
        """Why these bytes are not to be used by now; "" if they may be. Raises StoreError."""
        self._look()
        untrusted = self._judge.untrusted(record)
        return "" if untrusted is None else untrusted.why

    def must_trust(self, job: Job, pinned: Record | None) -> None:
        """Raises Revoked if what a step is to be made from was revoked since the plan. pinned: what a pin names."""
        read = list(job.inputs.values())
        if job.step.pin is not None and pinned is not None:
            read.append(pinned)
        for held in read:
            if why := self.untrusted(held):
                raise Revoked(f"{held.name}, which {job.step.name} reads, was {why}, since this run was planned")

    def _look(self) -> None:
        now = self._clock()
        if now < self._next_look:
            return
        self._next_look = now + LOOK_SECONDS
        names = frozenset(self._store.objects.list(REVOCATIONS))
        if names == self._names and (not names or now < self._next_reading):
            return
        self._names, self._next_reading = names, now + READ_AGAIN
        self._judge = TrustChecker(self._store, self._records, revoked(self._store))
