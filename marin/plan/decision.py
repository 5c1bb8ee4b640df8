"""Decide about each step from its condition and its inputs. Pure: the caller has read all facts before."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from marin.plan.condition import Condition, Conditions, Missing
from marin.plan.early_cutoff import Alias, input_roots
from marin.steps.step import ExecutorStep, action_key
from marin.store.numbers import counted, listed
from marin.store.record import Record


class OnDrift(StrEnum):
    """The ways to treat a committed output that has drifted: today's code or inputs would not build it."""

    STOP = "stop"
    REBUILD = "rebuild"
    ACCEPT = "accept"


class Action(StrEnum):
    CACHED = "cached"  # reuse the committed output
    ALIAS = "alias"  # reuse the output that the same action has under another identity
    RUN = "run"  # build it
    RECHECK = "recheck"  # an input is being rebuilt; the step runs only if the input's bytes change
    STOP = "stop"  # drifted, damaged or revoked, and nobody has said what to do
    NOT_NEEDED = "absent"  # never built, or deleted; the outputs that read it are committed


class Trust(StrEnum):
    """The trust in a committed output, from the store and today's code."""

    FRESH = "fresh"
    DRIFTED = "drifted"
    REVOKED = "revoked"
    CORRUPT = "corrupt"
    INCOMPLETE = "incomplete"
    PINNED_UNVERIFIED = "pinned-unverified"


REMADE = (Action.RUN, Action.RECHECK)
PINNED = "pinned: "
NAMED = 12  # changes of one output; a folder of text may have thousands


class Decision(Struct, frozen=True, kw_only=True):
    step: ExecutorStep[Any]
    action: Action
    reason: str  # one line for people
    record: Record | None = None  # the committed record
    drift: tuple[str, ...] = ()  # the changes since the output was built
    notes: tuple[str, ...] = ()  # further lines: package drift, accepted drift, opaque code
    trust: Trust | None = None  # None where nothing is committed
    alias_target: Record | None = None  # the output that an ALIAS shares
    forced: bool = False  # must run even if an equal action has an output elsewhere
    deleted: bool = False  # all files of the record are gone

    @property
    def reason_apart(self) -> str:
        """The reason without its first line of drift, for places that list every line of drift below."""
        if not self.drift or self.drift[0] not in self.reason:
            return self.reason
        return self.reason.partition(self.drift[0])[0].rstrip(": ") or "drifted"


def shown_changes(drift: Sequence[str]) -> list[str]:
    """Return the first ``NAMED`` changes, a line each, and a last line that counts the rest."""
    more = len(drift) - NAMED
    return [
        *drift[:NAMED],
        *([f"and {counted(more, 'more change')}: `marin plan FILE STEP` lists them all"] if more > 0 else []),
    ]


def decide(
    conditions: Conditions,
    ends: Collection[ExecutorStep[Any]],
    find_alias: Callable[[ExecutorStep[Any], str], Alias | None],
    forced: Collection[ExecutorStep[Any]] = (),
    on_drift: OnDrift = OnDrift.STOP,
) -> list[Decision]:
    """Return one decision for each step, in the order of the conditions: dependencies first.

    ends: the experiment's results. find_alias: finds the output that an action has under another identity.
    forced: steps to rebuild in any case.
    """
    decided: dict[ExecutorStep[Any], Decision] = {}
    for step, condition in conditions.items():
        if step in forced:
            decided[step] = _force(_undecided(step, condition), condition)
        elif not condition.is_missing:
            decided[step] = decide_present(step, condition, on_drift)
        elif step.pin is not None:
            decided[step] = _decide_unused_pin(_undecided(step, condition), condition, on_drift)
        else:
            roots = input_roots(step, lambda read: _certain_record(decided[read]))
            alias = None if roots is None else find_alias(step, action_key(step, roots))
            decided[step] = _decide_missing(_undecided(step, condition), condition.missing, alias)
    deleted = {step for step, decision in decided.items() if decision.trust is Trust.INCOMPLETE and decision.deleted}
    needed = _recheck_readers(ends, decided, conditions, deleted)
    return [
        decision if step in needed or (decision.action not in REMADE and step not in deleted) else _not_needed(decision)
        for step, decision in decided.items()
    ]


def _undecided(step: ExecutorStep[Any], condition: Condition) -> Decision:
    record, notes, deleted = condition.record, condition.notes, condition.deleted
    return Decision(step=step, action=Action.STOP, reason="", record=record, notes=notes, deleted=deleted)


def _force(stop: Decision, condition: Condition) -> Decision:
    trust = None
    if condition.damage:
        trust = Trust.CORRUPT
    elif condition.untrusted:
        trust = Trust.REVOKED
    elif condition.record is not None:
        trust = Trust.DRIFTED if condition.drift else Trust.FRESH
    reason = "asked for by --rebuild"
    return replace(stop, action=Action.RUN, reason=reason, drift=condition.drift, trust=trust, forced=True)


def _not_needed(decision: Decision) -> Decision:
    reason, notes = "not in the store and not needed: its readers are committed", tuple[str, ...]()
    if decision.deleted and decision.record is not None:
        reason = "its output was deleted and is not needed: its readers are committed"
        gone = f"{decision.record.attempt} was deleted; if a step needs it later: --rebuild {decision.record.name}"
        notes = (*decision.notes, gone)
    return Decision(step=decision.step, action=Action.NOT_NEEDED, reason=reason, notes=notes)


def _decide_missing(stop: Decision, missing: Missing | None, alias: Alias | None) -> Decision:
    if alias is not None:
        other = f"{alias.target.name} {alias.target.identity[:12]}"
        reason = f"same operator, version, fields and input bytes as {other}: nothing to run"
        return replace(stop, action=Action.ALIAS, reason=reason, alias_target=alias.target)
    return replace(stop, action=Action.RUN, reason=missing.reason if missing is not None else "never built")


def _decide_unused_pin(stop: Decision, condition: Condition, on_drift: OnDrift) -> Decision:
    target, drift = condition.pinned_output, condition.drift
    if target is None:
        return replace(stop, reason=condition.pin_fault, trust=Trust.INCOMPLETE)
    if condition.untrusted:
        return replace(stop, reason=f"the pinned output was {condition.untrusted}", trust=Trust.REVOKED)
    if drift and on_drift is not OnDrift.ACCEPT:
        return replace(stop, reason=listed(drift, 1), drift=drift, trust=Trust.DRIFTED)
    return replace(
        stop,
        action=Action.ALIAS,
        reason=f"{PINNED}{target.attempt}, every byte is checked against {target.root[:12]} first",
        drift=drift,
        notes=_accepting(stop, drift),
        trust=Trust.PINNED_UNVERIFIED,
        alias_target=target,
    )


def _certain_record(decision: Decision) -> Record | None:
    """Return the record that a step's readers will find, None if it is not known before anything runs."""
    if decision.action is Action.CACHED:
        return decision.record
    return decision.alias_target if decision.action is Action.ALIAS else None


def decide_present(step: ExecutorStep[Any], condition: Condition, on_drift: OnDrift) -> Decision:
    """Decide about a committed output, or about work in progress that must not simply continue."""
    record, drift = condition.record, condition.drift
    if record is not None and not (drift or condition.damage or condition.deleted or condition.untrusted):
        alias = f", as an alias: the bytes are those of {record.attempt}" if record.alias_of else ""
        reason = f"committed {record.provenance.ended}{alias}"
        return Decision(
            step=step, action=Action.CACHED, reason=reason, record=record, notes=condition.notes, trust=Trust.FRESH
        )
    stop = _undecided(step, condition)
    if condition.damage and not condition.deleted:
        return replace(stop, reason=condition.damage, trust=Trust.CORRUPT)
    if record is None:
        return _decide_work(stop, condition.work_drift, on_drift)
    if condition.untrusted and not (drift and on_drift is OnDrift.REBUILD and not condition.revoked):
        return replace(stop, reason=condition.untrusted, drift=drift, trust=Trust.REVOKED)
    if drift and (on_drift is OnDrift.STOP or (step.pin is not None and on_drift is OnDrift.REBUILD)):
        return replace(stop, reason=listed(drift, 1), drift=drift, trust=Trust.DRIFTED)
    if drift and on_drift is OnDrift.REBUILD:
        reason = f"drifted: {listed(drift, 1)}"
        return replace(stop, action=Action.RUN, reason=reason, drift=drift, trust=Trust.DRIFTED, forced=True)
    notes = _accepting(stop, drift)
    if condition.deleted:
        return _decide_deleted(stop, record, (*notes, condition.damage))
    accepted = replace(stop, action=Action.CACHED, reason="drift accepted", notes=notes)
    return replace(accepted, drift=drift, trust=Trust.DRIFTED)


def _accepting(decision: Decision, drift: tuple[str, ...]) -> tuple[str, ...]:
    return (*decision.notes, f"drift accepted now: {listed(drift, 1)}") if drift else decision.notes


def _decide_deleted(stop: Decision, record: Record, notes: tuple[str, ...]) -> Decision:
    """Decide about an output that lost its files and has no other fault. A run stops only if a step needs it."""
    way = f"put that folder back from a copy, or make it again with --rebuild {record.name}"
    reason = f"the output {record.attempt} was deleted: {way}"
    if stop.step.pin is not None:
        way = (
            "put that folder back from a copy, or bring the data in again (`marin adopt`, `marin mirror`) and pin that"
        )
        reason = f"the pinned output {record.attempt} was deleted: {way}"
    elif record.mirrored:
        way = f"copy {record.mirrored[-1].origin} back into that folder, or rebuild it with --rebuild {record.name}"
        reason = f"the mirrored output {record.attempt} was deleted: {way}"
    return replace(stop, reason=reason, trust=Trust.INCOMPLETE, notes=notes)


def _decide_work(stop: Decision, drift: tuple[str, ...], on_drift: OnDrift) -> Decision:
    """Decide about work in progress, such as training checkpoints, that other code or inputs began."""
    if on_drift is OnDrift.STOP:
        reason = "work in progress was begun by other code or inputs"
        return replace(stop, reason=reason, drift=drift, trust=Trust.INCOMPLETE)
    reason = "starts over: the work in progress was made by other code"
    if on_drift is OnDrift.ACCEPT:
        reason = "goes on with work in progress, drift accepted"
    return replace(stop, action=Action.RUN, reason=reason, drift=drift)


def _recheck_readers(
    ends: Collection[ExecutorStep[Any]],
    decided: dict[ExecutorStep[Any], Decision],
    conditions: Conditions,
    deleted: set[ExecutorStep[Any]],
) -> set[ExecutorStep[Any]]:
    """Make every reader of a rebuilt output RECHECK, and return the steps that must exist.

    deleted: outputs that stop the run only if they are needed. This function removes outputs whose inputs may change.
    """
    while True:
        needed = _needed(ends, decided, deleted)
        if not any(decision.action in REMADE for decision in decided.values()):
            return needed  # nothing is rebuilt
        changed = False
        for step, decision in decided.items():
            if step not in deleted and not _equal_bytes_would_spare(decision, conditions[step]):
                continue
            remade = [
                read
                for read in step.dependencies
                if read in needed and decided[read].action in REMADE and not _published_earlier(decision, read, decided)
            ]
            if remade and step in deleted:
                deleted.discard(step)
                changed = True
            elif remade:
                names = ", ".join(read.name for read in remade[:3]) + (" …" if len(remade) > 3 else "")
                reason = f"runs only if other bytes come from {names}"
                decided[step] = replace(decision, action=Action.RECHECK, reason=reason, alias_target=None)
                changed = True
        if not changed:
            return needed


def _published_earlier(
    decision: Decision, training: ExecutorStep[Any], decided: Mapping[ExecutorStep[Any], Decision]
) -> bool:
    """Return whether a step is a milestone that an interrupted training run published before.

    The milestone stands, and its readers may start while the training run continues.
    """
    return (
        decision.step.producer == training
        and decision.record is not None
        and decided[training].action is Action.RUN
        and decided[training].record is None
        and not decided[training].forced
        and not any(decided[read].action in REMADE for read in training.dependencies)
    )


def _equal_bytes_would_spare(decision: Decision, condition: Condition) -> bool:
    """Return whether the step can be skipped if its inputs come out unchanged.

    The scheduler then decides once the inputs exist.
    """
    if decision.action is Action.STOP:
        # Built from a revoked input that is being rebuilt. A rebuilt input does not help a step that is revoked itself.
        return decision.trust is Trust.REVOKED and decision.record is not None and not condition.revoked
    if decision.action is Action.RUN:
        return condition.missing is not None and condition.missing.only_inputs_changed
    return decision.action in (Action.CACHED, Action.ALIAS)


def _needed(
    ends: Iterable[ExecutorStep[Any]],
    decided: Mapping[ExecutorStep[Any], Decision],
    deleted: Collection[ExecutorStep[Any]],
) -> set[ExecutorStep[Any]]:
    """Return the steps that must exist: results, and the inputs of running steps. A cached output needs nothing."""
    needed: set[ExecutorStep[Any]] = set()
    there = (step for step, decision in decided.items() if decision.record is not None and step not in deleted)
    open_ends = [*ends, *there]
    while open_ends:
        step = open_ends.pop()
        if step in needed:
            continue
        needed.add(step)
        if decided[step].action in REMADE:
            open_ends += step.dependencies
    return needed
