"""One decision per step, from its condition and what it reads."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from marin.plan.condition import Condition, Conditions, since_pinned
from marin.plan.early_cutoff import Aliases, roots_of
from marin.plan.missing import Missing, why_missing
from marin.plan.snapshot import Snapshot
from marin.steps.step import ExecutorStep, Pin, action_key
from marin.store.record import Record


class OnDrift(StrEnum):
    """What to do about a committed output that today's code or inputs would not make."""

    STOP = "stop"
    REBUILD = "rebuild"
    ACCEPT = "accept"


class Action(StrEnum):
    """CACHED: use what is there. ALIAS: use what the same action made under another identity. RUN: make it.
    RECHECK: an input is being made again; runs only if its bytes change. STOP: drifted, damaged or revoked, and
    nobody has said what to do. ABSENT: not there (any more) and not needed."""

    CACHED = "cached"
    ALIAS = "alias"
    RUN = "run"
    RECHECK = "recheck"
    STOP = "stop"
    ABSENT = "absent"


class Trust(StrEnum):
    """How far a committed output can be trusted, as the store and today's code have it."""

    FRESH = "fresh"
    DRIFTED = "drifted"
    REVOKED = "revoked"
    CORRUPT = "corrupt"
    INCOMPLETE = "incomplete"
    PINNED_UNVERIFIED = "pinned-unverified"


REMADE = (Action.RUN, Action.RECHECK)
PINNED = "pinned: "


@dataclass(frozen=True)
class Decision:
    """reason: one line for people. notes: further lines (package drift, accepted drift, opaque code).

    trust: None where nothing is committed. same_as: the output that an ALIAS shares. anew: must be made even if an
    equal action has an output elsewhere. deleted: its output is gone from the store although its record is there; made
    again, the same bytes must come out, unless it is made anew or what it reads has changed.
    """

    step: ExecutorStep[Any]
    action: Action
    reason: str
    record: Record | None = None
    drift: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    trust: Trust | None = None
    same_as: Record | None = None
    anew: bool = False
    deleted: bool = False

    @property
    def reason_apart(self) -> str:
        """The reason without the drift that it begins to tell, where every line of that follows."""
        if not self.drift or self.drift[0] not in self.reason:
            return self.reason
        return self.reason.partition(self.drift[0])[0].rstrip(": ") or "drifted"


def decide(
    found: Conditions,
    ends: list[ExecutorStep[Any]],
    snapshot: Snapshot,
    aliases: Aliases,
    forced: set[ExecutorStep[Any]],
    on_drift: OnDrift,
) -> list[Decision]:
    """Dependencies first."""
    missing = why_missing([step for step in found if _is_missing(found[step])], snapshot)
    first: dict[ExecutorStep[Any], Decision] = {}
    for step, condition in found.items():
        if _is_missing(condition) and step not in forced:
            decision = _missing(step, missing[step], first, aliases, on_drift)
            first[step] = dataclasses.replace(decision, notes=(*condition.notes, *decision.notes))
        else:
            first[step] = _present(step, condition, step in forced, on_drift)
    deleted = {step for step, decision in first.items() if decision.trust is Trust.INCOMPLETE and decision.deleted}
    needed = _settle(ends, first, {step for step, why in missing.items() if why.follows}, found, deleted)
    return [
        decision
        if step in needed or (decision.action not in REMADE and step not in deleted)
        else _absent(step, decision)
        for step, decision in first.items()
    ]


def _absent(step: ExecutorStep[Any], decision: Decision) -> Decision:
    if not decision.deleted or decision.record is None:
        return Decision(step, Action.ABSENT, "not in the store and not needed: what is made from it is committed")
    reason = "its output was deleted and is not needed: what is made from it is committed"
    notes = (*decision.notes, f"{decision.record.attempt} was deleted; it is made again when something needs it")
    return Decision(step, Action.ABSENT, reason, notes=notes)


def _is_missing(condition: Condition) -> bool:
    return condition.record is None and not condition.damage and not condition.unfinished


def _missing(
    step: ExecutorStep[Any],
    why: Missing,
    decided: Mapping[ExecutorStep[Any], Decision],
    aliases: Aliases,
    on_drift: OnDrift,
) -> Decision:
    if step.pin is not None:
        return _pinned(step, step.pin, aliases, on_drift)
    roots = roots_of(step, lambda read: _settled_record(decided[read]))
    original = None if roots is None else aliases.find(step, action_key(step, roots))
    if original is not None:
        other = f"{original.name} {original.identity[:12]}"
        reason = f"same operator, version, fields and input bytes as {other}: nothing to run"
        return Decision(step, Action.ALIAS, reason, same_as=original)
    return Decision(step, Action.RUN, why.reason)


def _pinned(step: ExecutorStep[Any], pin: Pin, aliases: Aliases, on_drift: OnDrift) -> Decision:
    """A pin that was not used before."""
    original, wrong = aliases.pinned(pin)
    if original is None:
        return Decision(step, Action.STOP, wrong, trust=Trust.INCOMPLETE)
    untrusted = aliases.snapshot.untrusted(original)
    if untrusted is not None:
        return Decision(step, Action.STOP, f"the pinned output was {untrusted.why}", trust=Trust.REVOKED)
    drift, notes = since_pinned(step, original, aliases.snapshot)
    if drift and on_drift is not OnDrift.ACCEPT:
        return Decision(step, Action.STOP, _summary(drift), None, drift, tuple(notes), Trust.DRIFTED)
    if drift:
        notes = [*notes, f"drift accepted now: {_summary(drift)}"]
    reason = f"{PINNED}{original.attempt}, every byte is checked against {original.root[:12]} first"
    return Decision(step, Action.ALIAS, reason, None, drift, tuple(notes), Trust.PINNED_UNVERIFIED, same_as=original)


def _settled_record(decision: Decision) -> Record | None:
    """What a step's readers will find, if that is known before anything runs."""
    if decision.action is Action.CACHED:
        return decision.record
    return decision.same_as if decision.action is Action.ALIAS else None


def _present(step: ExecutorStep[Any], condition: Condition, forced: bool, on_drift: OnDrift) -> Decision:
    decision = _of_record(step, condition, forced, on_drift)
    return dataclasses.replace(decision, deleted=condition.deleted)


def _of_record(step: ExecutorStep[Any], condition: Condition, forced: bool, on_drift: OnDrift) -> Decision:
    record, notes, drift = condition.record, condition.notes, condition.drift
    if forced:
        return Decision(step, Action.RUN, "asked for by --rebuild", record, drift, notes, _trust(condition), anew=True)
    if condition.damage and not condition.deleted:
        return Decision(step, Action.STOP, condition.damage, record, (), notes, Trust.CORRUPT)
    if record is None:
        return _about_unfinished(step, condition.unfinished, on_drift)
    if condition.untrusted and not (drift and on_drift is OnDrift.REBUILD and not condition.revoked):
        return Decision(step, Action.STOP, condition.untrusted, record, drift, notes, Trust.REVOKED)
    if drift:
        if on_drift is OnDrift.STOP or (step.pin is not None and on_drift is OnDrift.REBUILD):
            return Decision(step, Action.STOP, _summary(drift), record, drift, notes, Trust.DRIFTED)
        if on_drift is OnDrift.REBUILD:
            reason = f"drifted: {_summary(drift)}"
            return Decision(step, Action.RUN, reason, record, drift, notes, Trust.DRIFTED, anew=True)
        notes = (*notes, f"drift accepted now: {_summary(drift)}")
        if condition.deleted:
            return _deleted(step, record, condition.damage, notes)
        return Decision(step, Action.CACHED, "drift accepted", record, drift, notes, Trust.DRIFTED)
    if condition.deleted:
        return _deleted(step, record, condition.damage, notes)
    alias = f", as an alias: the bytes are those of {record.attempt}" if record.alias_of else ""
    reason = f"committed {record.provenance.started}{alias}"
    return Decision(step, Action.CACHED, reason, record, (), notes, Trust.FRESH)


def _deleted(step: ExecutorStep[Any], record: Record, missing: str, notes: tuple[str, ...]) -> Decision:
    """What nobody changed but its files are gone: it is made again, if that can be done here and it is needed."""
    if step.pin is not None:
        way = (
            "put that folder back from a copy, or bring the data in again (`marin adopt`, `marin mirror`) and pin that"
        )
        reason = f"the pinned output {record.attempt} was deleted: {way}"
        return Decision(step, Action.STOP, reason, record, (), notes, Trust.INCOMPLETE)
    if record.mirrored:
        way = f"copy {record.mirrored[-1].origin} there, or make it here with --rebuild {record.name}"
        reason = f"the output {record.attempt} was deleted; it was mirrored: {way}"
        return Decision(step, Action.STOP, reason, record, (), notes, Trust.INCOMPLETE)
    reason = "its output was deleted; made again, and must come out as its record says"
    return Decision(step, Action.RUN, reason, record, (), (*notes, missing), Trust.INCOMPLETE)


def _trust(condition: Condition) -> Trust | None:
    if condition.damage:
        return Trust.CORRUPT
    if condition.untrusted:
        return Trust.REVOKED
    if condition.record is None:
        return None
    return Trust.DRIFTED if condition.drift else Trust.FRESH


def _about_unfinished(step: ExecutorStep[Any], changes: tuple[str, ...], on_drift: OnDrift) -> Decision:
    """Work in progress (training checkpoints, say) that was begun by other code or from other inputs."""
    if on_drift is OnDrift.STOP:
        reason = "work in progress was begun by other code or inputs"
        return Decision(step, Action.STOP, reason, None, changes, trust=Trust.INCOMPLETE)
    if on_drift is OnDrift.REBUILD:
        return Decision(step, Action.RUN, "starts over: the work in progress was made by other code", None, changes)
    return Decision(step, Action.RUN, "goes on with work in progress, drift accepted", None, changes)


def _summary(drift: tuple[str, ...]) -> str:
    return drift[0] + (f" and {len(drift) - 1} more" if len(drift) > 1 else "")


def _settle(
    ends: list[ExecutorStep[Any]],
    decided: dict[ExecutorStep[Any], Decision],
    follows: set[ExecutorStep[Any]],
    found: Conditions,
    deleted: set[ExecutorStep[Any]],
) -> set[ExecutorStep[Any]]:
    """Whatever reads what will be made again becomes RECHECK; returns the steps that must exist.

    follows: missing steps that differ from an earlier output only by what they read. deleted: outputs that are made
    again only if they are needed, with the bytes that they had; those whose inputs may change are taken out of it.
    """
    while True:
        needed = _needed(ends, decided, deleted)
        if not any(decision.action in REMADE for decision in decided.values()):
            return needed  # a rerun of what is all there
        changed = False
        for step, decision in decided.items():
            if step not in deleted and not _may_be_spared(step, decision, follows, found):
                continue
            remade = [
                held
                for held in step.dependencies
                if held in needed
                and held not in deleted
                and decided[held].action in REMADE
                and not _published_earlier(decision, held, decided)
            ]
            if remade and step in deleted:
                deleted.discard(step)
                changed = True
            elif remade:
                names = ", ".join(held.name for held in remade[:3]) + (" …" if len(remade) > 3 else "")
                reason = f"runs only if other bytes come from {names}"
                decided[step] = dataclasses.replace(decision, action=Action.RECHECK, reason=reason, same_as=None)
                changed = True
        if not changed:
            return needed


def _published_earlier(
    decision: Decision, training: ExecutorStep[Any], decided: Mapping[ExecutorStep[Any], Decision]
) -> bool:
    """A milestone stands, and its readers may start, while the run that published it and then died goes on."""
    return (
        decision.step.producer == training
        and decision.record is not None
        and decided[training].action is Action.RUN
        and decided[training].record is None
        and not decided[training].anew
        and not any(decided[read].action in REMADE for read in training.dependencies)
    )


def _may_be_spared(
    step: ExecutorStep[Any], decision: Decision, follows: set[ExecutorStep[Any]], found: Conditions
) -> bool:
    """Whether bytes that do not change would spare it, so that it is decided when its inputs are there."""
    if decision.action is Action.STOP:
        # Made from revoked bytes that are being made again; what is revoked itself is not helped by that.
        return decision.trust is Trust.REVOKED and decision.record is not None and not found[step].revoked
    if decision.action is Action.RUN:
        return step in follows
    return decision.action in (Action.CACHED, Action.ALIAS)


def _needed(
    ends: Iterable[ExecutorStep[Any]],
    decided: Mapping[ExecutorStep[Any], Decision],
    deleted: Collection[ExecutorStep[Any]],
) -> set[ExecutorStep[Any]]:
    """Steps that must exist: results, and what running steps read. A cached output needs nothing."""
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
