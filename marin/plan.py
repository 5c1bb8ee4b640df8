"""The plan: an experiment compared with a store, one decision per step, each with its reason.

Pure: reads the store and the code, starts nothing, writes nothing.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from marin.errors import BadField, CorruptRecord, Drift, UnknownStep
from marin.experiment import Experiment
from marin.fingerprint import CodeFingerprint, code_fingerprint
from marin.fingerprint import compare as compare_code
from marin.reasons import why_missing
from marin.record import Record
from marin.step import ExecutorStep
from marin.store import Store

NAMED = 4  # so many steps that drifted alike are named; `marin plan` lists all


class OnDrift(StrEnum):
    """What to do about a committed output that today's code or inputs would not make."""

    STOP = "stop"
    REBUILD = "rebuild"
    ACCEPT = "accept"


class Action(StrEnum):
    """CACHED: use what is there. RUN: make it. RECHECK: an input is being made again; runs only if its bytes
    change. STOP: drifted or damaged, and nobody has said what to do. ABSENT: not there and not needed."""

    CACHED = "cached"
    RUN = "run"
    RECHECK = "recheck"
    STOP = "stop"
    ABSENT = "absent"


@dataclass(frozen=True)
class Decision:
    """reason: one line for people. notes: further lines (package drift, accepted drift, opaque code)."""

    step: ExecutorStep[Any]
    action: Action
    reason: str
    record: Record | None = None
    drift: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Today:
    """What would build a step now, apart from its inputs."""

    code: CodeFingerprint
    outside: dict[str, str]


@dataclass
class Plan:
    """decisions: dependencies first."""

    experiment: Experiment
    store: Store
    decisions: list[Decision]
    today: dict[ExecutorStep[Any], Today]
    accept: dict[str, str] = field(default_factory=dict[str, str])

    def of(self, step: ExecutorStep[Any]) -> Decision:
        return self._by_step[step]

    def __post_init__(self) -> None:
        self._by_step = {decision.step: decision for decision in self.decisions}

    def having(self, *actions: Action) -> list[Decision]:
        return [decision for decision in self.decisions if decision.action in actions]

    def must_not_stop(self) -> None:
        """Raises CorruptRecord for damage, else Drift listing every drifted step, what changed, and the ways on."""
        stopped = self.having(Action.STOP)
        damaged = [decision for decision in stopped if not decision.drift]
        if damaged:
            lines = [f"{decision.step.name}: {decision.reason}" for decision in damaged]
            raise CorruptRecord("\n".join([*lines, "Nothing was started."]))
        if not stopped:
            return
        lines = [f"{len(stopped)} committed output(s) are not what today's experiment would make:"]
        alike: dict[tuple[str, ...], list[str]] = {}
        for decision in stopped:
            alike.setdefault(decision.drift, []).append(decision.step.name)
        for drift, names in alike.items():
            more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
            lines.append(f"  {', '.join(names[:NAMED])}{more}")
            lines += [f"      {change}" for change in drift]
        lines += [
            "Nothing was started. Three ways on:",
            "  raise the operator's version         a new output beside the old one, which stays",
            "  --on-drift rebuild                   make these steps again in place, work in progress from its start",
            "                                       (or --rebuild STEP for one of them)",
            "  --on-drift accept --because REASON   keep the outputs, go on with the work; the reason is recorded",
        ]
        raise Drift("\n".join(lines))


def make_plan(
    experiment: Experiment,
    store: Store,
    *,
    on_drift: OnDrift = OnDrift.STOP,
    because: str = "",
    rebuild: Collection[str] = (),
) -> Plan:
    """Decide about every step. Raises UnknownStep for a --rebuild that names no step, BadPrefix, BadField."""
    if on_drift is OnDrift.ACCEPT and not because.strip():
        raise BadField("--on-drift accept needs --because 'why the old outputs still stand'; it is recorded")
    steps = experiment.steps()
    forced = resolve_names(rebuild, steps)
    today = {step: Today(code_fingerprint(step), step.outside()) for step in steps}
    states = _states(steps, store, today)
    return _decide(experiment, store, states, today, forced, on_drift, because)


@dataclass
class _State:
    record: Record | None
    drift: tuple[str, ...]
    damage: str
    unfinished: tuple[str, ...]  # why work in progress must not simply be gone on with
    notes: tuple[str, ...]


def _states(
    steps: list[ExecutorStep[Any]], store: Store, today: dict[ExecutorStep[Any], Today]
) -> dict[ExecutorStep[Any], _State]:
    """Each step's own state, in dependency order: record, what drifted, what is damaged."""
    states: dict[ExecutorStep[Any], _State] = {}
    touched, in_progress = store.touched(), store.state_identities()
    for step in steps:
        record, damage = None, ""
        if step.identity in touched:
            try:
                record = store.record(step.identity)
            except CorruptRecord as error:
                damage = str(error)
        drift: tuple[str, ...] = ()
        notes: tuple[str, ...] = ()
        if record is not None:
            drift, notes = _compare(step, record, store, today[step], states)
            if not store.output(record).exists(".marin/record.json"):
                damage = f"the output {record.attempt} is missing from the store; {store.remedy(record)}"
        unfinished: tuple[str, ...] = ()
        if record is None and step.identity in in_progress:
            unfinished = _unfinished_changes(step, store, today[step], states)
        states[step] = _State(record, drift, damage, unfinished, notes)
    return states


def _compare(
    step: ExecutorStep[Any],
    record: Record,
    store: Store,
    today: Today,
    states: dict[ExecutorStep[Any], _State],
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(drift, notes) of a committed output against today's code, inputs and packages."""
    drift: list[str] = []
    if record.code != today.code.digest:
        drift += code_changes(store, record.code, today.code)
    drift += outside_changes(record.outside, today.outside)
    inputs = current_inputs(step, states)
    drift += [
        f"input {held.name} is now {inputs[held.identity][:12]}, was {held.root[:12]} (it was made again since)"
        for held in record.inputs
        if held.identity in inputs and inputs[held.identity] != held.root
    ]
    notes = [
        f"package {name}: {old} → {today.code.packages[name]}"
        for name, old in sorted(record.packages.items())
        if name in today.code.packages and today.code.packages[name] != old
    ]
    if drift:
        for acceptance in store.acceptances(step.identity):
            same_inputs = all(inputs.get(identity) == root for identity, root in acceptance.inputs.items())
            if acceptance.code == today.code.digest and acceptance.outside == today.outside and same_inputs:
                notes.append(f"drift accepted by {acceptance.who} on {acceptance.when}: {acceptance.because}")
                drift = []
                break
    return tuple(drift), tuple(notes)


def _unfinished_changes(
    step: ExecutorStep[Any], store: Store, today: Today, states: dict[ExecutorStep[Any], _State]
) -> tuple[str, ...]:
    marker = store.state_marker(step.identity)
    if marker is None:
        return ()
    changes = code_changes(store, marker.code, today.code) if marker.code != today.code.digest else []
    changes += outside_changes(marker.outside, today.outside)
    inputs = current_inputs(step, states)
    names = {dep.identity: dep.name for dep in step.dependencies}
    changes += [
        f"input {names[identity]} is now {inputs[identity][:12]}, was {root[:12]} when the work began"
        for identity, root in marker.inputs.items()
        if identity in inputs and inputs[identity] != root
    ]
    return tuple(changes)


def current_inputs(step: ExecutorStep[Any], states: dict[ExecutorStep[Any], _State]) -> dict[str, str]:
    """Root digest of each committed dependency, by identity."""
    return {dep.identity: held.record.root for dep in step.dependencies if (held := states[dep]).record is not None}


def code_changes(store: Store, then: str, now: CodeFingerprint) -> list[str]:
    """One line per changed function, class or constant. then: digest of the code at that time."""
    stored = store.code(then)
    if stored is None:
        return [f"the code changed ({then[:12]} → {now.digest[:12]}); the store does not hold the old code"]
    lines: list[str] = []
    for change in compare_code(CodeFingerprint.from_json(stored), now):
        if change.kind == "changed":
            lines.append(f"{change.name} changed ({(change.old or '')[:8]} → {(change.new or '')[:8]})")
        elif change.kind in ("added", "removed"):
            lines.append(f"{change.name} is {'now used' if change.kind == 'added' else 'no longer used'}")
    return lines


def outside_changes(old: dict[str, str], new: dict[str, str]) -> list[str]:
    names = sorted(old.keys() | new.keys())
    return [
        f"outside data {name}: {old.get(name, 'not there')} → {new.get(name, 'not there')}"
        for name in names
        if old.get(name) != new.get(name)
    ]


def _decide(
    experiment: Experiment,
    store: Store,
    states: dict[ExecutorStep[Any], _State],
    today: dict[ExecutorStep[Any], Today],
    forced: set[ExecutorStep[Any]],
    on_drift: OnDrift,
    because: str,
) -> Plan:
    listings: dict[str, list[str]] = {}
    first = {
        step: _own_decision(step, state, step in forced, on_drift, store, listings) for step, state in states.items()
    }
    accepted = {
        step.identity: because
        for step, state in states.items()
        if (state.drift or state.unfinished) and on_drift is OnDrift.ACCEPT and step not in forced
    }
    needed = _settle(list(experiment.results.values()), first)
    decisions = [
        decision
        if step in needed or decision.action not in (Action.RUN, Action.RECHECK)
        else Decision(step, Action.ABSENT, "not in the store and not needed: what is made from it is committed")
        for step, decision in first.items()
    ]
    return Plan(experiment, store, decisions, today, accepted)


def _settle(ends: list[ExecutorStep[Any]], decided: dict[ExecutorStep[Any], Decision]) -> set[ExecutorStep[Any]]:
    """Turn CACHED into RECHECK below whatever will be made again; returns the steps that must exist."""
    while True:
        needed = _needed(ends, decided)
        changed = False
        for step, decision in decided.items():
            if decision.action is not Action.CACHED:
                continue
            remade = [
                dep
                for dep in step.dependencies
                if dep in needed and decided[dep].action in (Action.RUN, Action.RECHECK)
            ]
            if remade:
                names = ", ".join(dep.name for dep in remade[:3]) + (" …" if len(remade) > 3 else "")
                reason = f"runs only if {names} gives other bytes"
                decided[step] = dataclasses.replace(decision, action=Action.RECHECK, reason=reason)
                changed = True
        if not changed:
            return needed


def _own_decision(
    step: ExecutorStep[Any],
    state: _State,
    forced: bool,
    on_drift: OnDrift,
    store: Store,
    listings: dict[str, list[str]],
) -> Decision:
    record, notes = state.record, state.notes
    if forced:
        return Decision(step, Action.RUN, "asked for by --rebuild", record, state.drift, notes)
    if state.damage:
        return Decision(step, Action.STOP, state.damage, record, (), notes)
    if record is None and state.unfinished:
        return _about_unfinished(step, state.unfinished, on_drift)
    if record is None:
        return Decision(step, Action.RUN, why_missing(step, store, listings), None, (), notes)
    if state.drift:
        if on_drift is OnDrift.STOP:
            return Decision(step, Action.STOP, _summary(state.drift), record, state.drift, notes)
        if on_drift is OnDrift.REBUILD:
            return Decision(step, Action.RUN, f"drifted: {_summary(state.drift)}", record, state.drift, notes)
        notes = (*notes, f"drift accepted now: {_summary(state.drift)}")
        return Decision(step, Action.CACHED, "drift accepted", record, state.drift, notes)
    return Decision(step, Action.CACHED, f"committed {record.provenance.started}", record, (), notes)


def _about_unfinished(step: ExecutorStep[Any], changes: tuple[str, ...], on_drift: OnDrift) -> Decision:
    """Work in progress (training checkpoints, say) that was begun by other code or from other inputs."""
    if on_drift is OnDrift.STOP:
        return Decision(step, Action.STOP, "work in progress was begun by other code or inputs", None, changes)
    if on_drift is OnDrift.REBUILD:
        return Decision(step, Action.RUN, "starts over: the work in progress was made by other code", None, changes)
    return Decision(step, Action.RUN, "goes on with work in progress, drift accepted", None, changes)


def _summary(drift: tuple[str, ...]) -> str:
    return drift[0] + (f" and {len(drift) - 1} more" if len(drift) > 1 else "")


def _needed(ends: Iterable[ExecutorStep[Any]], decided: dict[ExecutorStep[Any], Decision]) -> set[ExecutorStep[Any]]:
    """Steps that must exist: results, and what running steps read. A cached output needs nothing."""
    needed: set[ExecutorStep[Any]] = set()
    open_ends = [*ends, *(step for step, decision in decided.items() if decision.record is not None)]
    while open_ends:
        step = open_ends.pop()
        if step in needed:
            continue
        needed.add(step)
        if decided[step].action in (Action.RUN, Action.RECHECK):
            open_ends += step.dependencies
    return needed


def resolve_names(names: Iterable[str], steps: Iterable[ExecutorStep[Any]]) -> set[ExecutorStep[Any]]:
    """Steps by ``op/label``, label, operator or identity prefix (at least 6 digits). Raises UnknownStep."""
    every = list(steps)
    found: set[ExecutorStep[Any]] = set()
    for name in names:
        matching = [
            step
            for step in every
            if name in (step.name, step.label, step.op) or (len(name) >= 6 and step.identity.startswith(name))
        ]
        if not matching:
            near = difflib.get_close_matches(name, [step.name for step in every], n=3, cutoff=0.4)
            raise UnknownStep(f"no step is called {name!r}; near: {', '.join(near) or 'none'}")
        found.update(matching)
    return found
