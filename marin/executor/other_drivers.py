"""React to other drivers during a run: to revocations, and to outputs that this run was about to make."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from marin.errors import Drift, Revoked
from marin.plan.acceptance import new_acceptance
from marin.plan.decision import OnDrift
from marin.plan.facts import compare
from marin.plan.plan import Plan
from marin.steps.step import ExecutorStep
from marin.store.ends import look_seconds
from marin.store.layout import REVOCATIONS
from marin.store.record import Record
from marin.store.revocation import Revocations, revoked
from marin.store.store import Store
from marin.store.trust import TrustChecker


class RevocationWatch:
    """Lists the revocations at most once in ``look_seconds``, and reads them when there are new ones.

    records: known already, by identity.
    """

    def __init__(
        self, store: Store, records: Mapping[str, Record], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._store, self._records, self._clock = store, records, clock
        self._names: frozenset[str] = frozenset()  # of revocations and withdrawals that were read
        self._next_look = float("-inf")
        self._trust = TrustChecker(store, records, Revocations())

    def untrusted(self, record: Record) -> str:
        """Return why these bytes must not be used now; "" if they may be. Raises StoreError."""
        now = self._clock()
        if now >= self._next_look:
            self._next_look = now + look_seconds(self._store.objects)
            names = frozenset(self._store.objects.list(REVOCATIONS))
            if names != self._names:
                self._trust = TrustChecker(self._store, self._records, revoked(self._store))
                self._names = names
        distrust = self._trust.untrusted(record)
        return "" if distrust is None else distrust.why

    def must_trust(self, step: ExecutorStep[Any], inputs: Iterable[Record]) -> None:
        """Raise Revoked if an input of a step was revoked since the plan."""
        for record in inputs:
            if why := self.untrusted(record):
                raise Revoked(f"{record.name}, which {step.name} reads, was {why}, since this run was planned")


def accept_or_raise(
    plan: Plan, watch: RevocationWatch, step: ExecutorStep[Any], record: Record, inputs: Mapping[str, Record]
) -> bool:
    """Decide like the plan about an output that another driver committed since. False if it must be rebuilt.

    inputs: the inputs that this driver would use, by identity. Raises Revoked, and Drift if nobody said what to do.
    """
    if untrusted := watch.untrusted(record):
        raise Revoked(
            f"{record.provenance.who} made this step meanwhile, but the output {record.attempt} was {untrusted}; run "
            "again: the plan shows the ways on"
        )
    today, roots = plan.today[step], {identity: read.root for identity, read in inputs.items()}
    today.present.digests.forget()  # the other driver read files after this driver looked
    drift = compare(plan.store, step, record.made_by, today, roots).drift
    if not drift:
        return True
    if plan.on_drift is OnDrift.REBUILD:
        return False
    if plan.on_drift is OnDrift.STOP:
        raise Drift(
            f"another driver made this step meanwhile ({record.provenance.who}@{record.provenance.host}, "
            f"{record.attempt}), with other code or data than this run: {'; '.join(drift)}. The other output stays. "
            "Run again with a raised version, --on-drift rebuild, or --on-drift accept --because REASON"
        )
    plan.store.acceptances.add(step.identity, new_acceptance(today, roots, record.observed, plan.because, drift))
    return True
