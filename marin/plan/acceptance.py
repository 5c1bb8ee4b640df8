"""Accept drift: somebody says, with a reason, that an output stands although today's code would not build it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from marin.errors import BadField, CorruptRecord, Revoked
from marin.fingerprint.fingerprint import store_code
from marin.plan.decision import Action, Trust
from marin.plan.drift import CurrentCode
from marin.plan.outside_data import keep_listing
from marin.plan.plan import Plan
from marin.steps.step import ExecutorStep
from marin.store.numbers import write_time
from marin.store.process import this_process
from marin.store.record import Acceptance, Observed
from marin.store.redaction import redacted


class Accepted(NamedTuple):
    step: ExecutorStep[Any]
    entry: Acceptance


def accept_named(plan: Plan, steps: Iterable[ExecutorStep[Any]], because: str) -> list[Accepted]:
    """Accept the drift of these steps' outputs or work in progress. Steps that have not drifted are skipped.

    plan: made without a policy on drift, so that drifted steps stop. Raises BadField if there is no reason or no
    drift, Revoked for a revoked output, and CorruptRecord for damage. Then nothing was accepted.
    """
    if not because.strip():
        raise BadField("accepting drift needs its reason: --because 'same result, refactor'; it is recorded and shown")
    named = list(steps)
    stopped = [plan.of(step) for step in named if plan.of(step).action is Action.STOP]
    for decision in stopped:
        if decision.trust is Trust.REVOKED:
            raise Revoked(
                f"{decision.step.name}: {decision.reason}. A revocation is not drift: rebuild the output, build on its "
                "replacement, or take the revocation back: `marin revoke STEP --withdraw --because REASON`"
            )
        if not decision.drift:
            raise CorruptRecord(f"{decision.step.name}: {decision.reason}. This is damage, not drift")
    if not stopped:
        names = ", ".join(f"{step.name} ({plan.of(step).action})" for step in named)
        raise BadField(f"nothing to accept: no drift in {names}; `marin plan` lists what stops")
    return [_accept(plan, decision.step, because) for decision in stopped]


def accept_planned(plan: Plan) -> list[Accepted]:
    """Record the drift that ``--on-drift accept`` accepted."""
    return [
        _accept(plan, step, plan.accepted_because[step.identity])
        for step in plan.today
        if step.identity in plan.accepted_because
    ]


def new_acceptance(
    today: CurrentCode, inputs: Mapping[str, str], seen: Observed, because: str, changes: Sequence[str]
) -> Acceptance:
    """Return an acceptance of today's code and data for an output.

    inputs: today's root digest of each input, by identity. seen: the files that the output's run was observed to read.
    """
    return Acceptance(
        code=today.code.digest,
        inputs=dict(inputs),
        outside=today.outside,
        observed=today.present.of(seen),
        because=redacted(because.strip()),
        who=this_process().user,
        when=write_time(),
        changes=[redacted(line) for line in changes],
    )


def _accept(plan: Plan, step: ExecutorStep[Any], because: str) -> Accepted:
    today, decision = plan.today[step], plan.of(step)
    store_code(plan.store, today.code.digest, today.code.to_json(sources=True))
    keep_listing(plan.store, today.entries)
    inputs = {read.identity: record.root for read in step.dependencies if (record := plan.of(read).record)}
    made = decision.record or decision.alias_target or plan.store.state_marker(step.identity)
    seen = made.observed if made is not None else Observed()
    entry = new_acceptance(today, inputs, seen, because, decision.drift)
    plan.store.acceptances.add(step.identity, entry)
    return Accepted(step, entry)
