"""What another driver committed after this one made its plan: the same decision as the plan would have made."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from marin.errors import Drift, Revoked
from marin.plan.condition import accepted
from marin.plan.decision import OnDrift
from marin.plan.drift import changes
from marin.plan.plan import Plan
from marin.steps.step import ExecutorStep
from marin.store.process import this_process
from marin.store.record import Acceptance, Record


def accept_or_raise(plan: Plan, step: ExecutorStep[Any], record: Record, inputs: Mapping[str, Record]) -> bool:
    """False if it is to be made again, because today's code or inputs would make another one.

    inputs: what this driver would make it from, by identity. Raises Drift, Revoked where nobody has said what to do.
    """
    untrusted = plan.snapshot.untrusted(record)
    if untrusted is not None:
        raise Revoked(f"{record.provenance.who} made it meanwhile, and it is not to be used: {untrusted.why}")
    today, roots = plan.today[step], {identity: held.root for identity, held in inputs.items()}
    names = {read.identity: read.name for read in record.inputs}
    if today.present is not None:
        today.present.digests.forget()  # it read them after this driver looked
    drift = changes(plan.store, record.made_by, today, roots, names)
    if not drift or accepted(plan.store, step, today, roots, record.observed) is not None:
        return True
    if plan.on_drift is OnDrift.REBUILD:
        return False
    if plan.on_drift is OnDrift.STOP:
        raise Drift(
            f"another driver made it meanwhile ({record.provenance.who}@{record.provenance.host}, {record.attempt}), "
            f"and not as this one would: {'; '.join(drift)}. Its output stands; run again to choose: raise the "
            "version, --on-drift rebuild, or --on-drift accept --because REASON"
        )
    entry = Acceptance(
        code=today.code.digest,
        inputs=roots,
        outside=today.outside,
        observed=today.observed(record.observed),
        because=plan.because,
        who=this_process().user,
        when=time.strftime("%Y-%m-%d %H:%M:%S"),
        changes=drift,
    )
    plan.store.accept(step.identity, entry)
    return True
