"""Test a plan's decisions on plain facts: no store, no code, no files."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from marin import ExecutorStep, Pinned
from marin.plan.condition import UNCHANGED, Comparison, Condition, Missing
from marin.plan.decision import Action, Decision, OnDrift, Trust, decide
from marin.plan.early_cutoff import Alias
from marin.store.record import Acceptance, Provenance, Record
from tests.support.toy import Blob, Join, Write

A = Write(text="a", label="a")
B = Join(parts=(A,), label="b")
C = Join(parts=(B,), separator="/", label="c")
NEW = Condition(missing=Missing(reason="never built"))
CHANGED = Comparison(changes=("toy.shout changed (1 → 2)", "toy.MORE changed (3 → 4)"))


def record_of(step: ExecutorStep[Any]) -> Record:
    return Record(
        format=Record.LATEST,
        identity=step.identity,
        op=step.op,
        version=step.version,
        label=step.label,
        attempt=f"{step.op}/{step.label}",
        token=1,
        kind="toy-blob",
        facts={},
        config={},
        inputs=[],
        outside={},
        code="code",
        packages={},
        root=step.identity[::-1],
        files=1,
        bytes=1,
        provenance=Provenance(who="ann", host="here", started="2026-01-01 10:00:00", seconds=20 * 86_400.5),
    )


def committed(step: ExecutorStep[Any], output: Comparison = UNCHANGED) -> Condition:
    return Condition(record=record_of(step), output=output)


def decided(
    conditions: dict[ExecutorStep[Any], Condition],
    on_drift: OnDrift = OnDrift.STOP,
    forced: tuple[ExecutorStep[Any], ...] = (),
    alias: Alias | None = None,
) -> dict[ExecutorStep[Any], Decision]:
    ends = [list(conditions)[-1]]
    decisions = decide(conditions, ends, lambda _step, _action: alias, forced, on_drift)
    return {decision.step: decision for decision in decisions}


def actions(**given: Any) -> list[Action]:
    return [decision.action for decision in decided(**given).values()]


def test_what_is_committed_and_unchanged_is_used_and_what_is_not_there_is_made() -> None:
    everything = {A: committed(A), B: committed(B), C: NEW}
    assert actions(conditions=everything) == [Action.CACHED, Action.CACHED, Action.RUN]
    assert decided(everything)[A].reason == "committed 2026-01-21 10:00:10", "not when it began"
    assert decided(everything)[C].reason == "never built"


def test_what_a_committed_result_was_made_from_need_not_be_there() -> None:
    found = decided({A: NEW, B: committed(B)})
    assert [decision.action for decision in found.values()] == [Action.NOT_NEEDED, Action.CACHED]


@pytest.mark.parametrize(
    ("on_drift", "wanted"),
    [(OnDrift.STOP, Action.STOP), (OnDrift.REBUILD, Action.RUN), (OnDrift.ACCEPT, Action.CACHED)],
)
def test_drift_is_decided_by_the_policy(on_drift: OnDrift, wanted: Action) -> None:
    decision = decided({A: committed(A, CHANGED)}, on_drift)[A]
    assert decision.action is wanted
    assert decision.trust is Trust.DRIFTED
    assert decision.drift == CHANGED.changes
    assert decision.forced == (wanted is Action.RUN)


def test_drift_that_somebody_accepted_is_a_note() -> None:
    acceptance = Acceptance(code="", inputs={}, outside={}, because="a refactor", who="ann", when="2026-01-02")
    accepted = replace(CHANGED, acceptance=acceptance, excuse=acceptance.describe())
    decision = decided({A: committed(A, accepted)})[A]
    assert (decision.action, decision.drift, decision.trust) == (Action.CACHED, (), Trust.FRESH)
    assert decision.notes == ("drift accepted by ann on 2026-01-02: a refactor",)


def test_damage_stops_whatever_the_policy_says_and_a_rebuild_mends_it() -> None:
    damaged = {A: replace(committed(A, CHANGED), damage="changed in place: text.txt")}
    for on_drift in OnDrift:
        decision = decided(damaged, on_drift)[A]
        assert (decision.action, decision.trust, decision.drift) == (Action.STOP, Trust.CORRUPT, ())
    again = decided(damaged, forced=(A,))[A]
    assert (again.action, again.forced) == (Action.RUN, True)


def test_readers_of_what_is_made_again_run_only_if_its_bytes_change() -> None:
    everything = {A: committed(A), B: committed(B), C: committed(C)}
    assert actions(conditions=everything, forced=(A,)) == [Action.RUN, Action.RECHECK, Action.RECHECK]


def test_a_step_that_differs_only_in_what_it_reads_waits_for_the_bytes() -> None:
    only_inputs = Condition(missing=Missing(reason="its inputs are new", only_inputs_changed=True))
    assert actions(conditions={A: NEW, B: only_inputs}) == [Action.RUN, Action.RECHECK]
    assert actions(conditions={A: NEW, B: NEW}) == [Action.RUN, Action.RUN]


def test_what_was_made_from_revoked_bytes_waits_for_them_and_what_is_revoked_does_not() -> None:
    tainted = replace(committed(B), untrusted="made from toy-write/a, revoked by ann")
    assert actions(conditions={A: committed(A), B: tainted}) == [Action.CACHED, Action.STOP]
    assert actions(conditions={A: committed(A), B: tainted}, forced=(A,)) == [Action.RUN, Action.RECHECK]
    revoked = replace(tainted, revoked=True)
    assert actions(conditions={A: committed(A), B: revoked}, forced=(A,)) == [Action.RUN, Action.STOP]


def test_an_equal_action_elsewhere_serves_only_while_its_inputs_are_certain() -> None:
    alias = Alias(record_of(Join(parts=(A, A), label="other")), None)
    found = decided({A: committed(A), B: NEW}, alias=alias)
    assert found[B].action is Action.ALIAS
    assert found[B].alias_target == alias.target
    assert actions(conditions={A: committed(A, CHANGED), B: NEW}, alias=alias) == [Action.STOP, Action.RUN]


@pytest.mark.parametrize(
    ("on_drift", "wanted"),
    [(OnDrift.STOP, Action.STOP), (OnDrift.REBUILD, Action.RUN), (OnDrift.ACCEPT, Action.RUN)],
)
def test_work_in_progress_of_other_code_is_decided_by_the_policy(on_drift: OnDrift, wanted: Action) -> None:
    condition = Condition(work=CHANGED)
    assert not condition.is_missing
    decision = decided({A: condition}, on_drift)[A]
    assert decision.action is wanted
    assert decision.drift == CHANGED.changes
    accepted = Condition(work=replace(CHANGED, excuse="drift accepted by ann"), missing=NEW.missing)
    assert accepted.is_missing
    assert accepted.continue_accepted
    assert decided({A: accepted}, on_drift)[A].notes == ("goes on with work in progress: drift accepted by ann",)


def test_a_deleted_output_stops_only_where_something_needs_it() -> None:
    gone = replace(committed(A), damage="the output is missing", deleted=True)
    assert actions(conditions={A: gone, B: committed(B)}) == [Action.NOT_NEEDED, Action.CACHED]
    assert actions(conditions={A: gone, B: NEW}) == [Action.STOP, Action.RUN]
    assert "--rebuild" in decided({A: gone, B: NEW})[A].reason


def test_a_pin_is_never_made() -> None:
    pin: Pinned[Blob] = Pinned(at="toy-write/a", digest="0" * 64, label="pin")
    target = record_of(A)
    unused = Condition(pinned_output=target)
    assert decided({pin: unused})[pin].action is Action.ALIAS
    assert decided({pin: Condition(pin_fault="it is not there")})[pin].reason == "it is not there"
    for on_drift in (OnDrift.STOP, OnDrift.REBUILD):
        assert decided({pin: replace(unused, pinned=CHANGED)}, on_drift)[pin].action is Action.STOP
        assert decided({pin: replace(committed(pin), pinned=CHANGED)}, on_drift)[pin].action is Action.STOP
    assert decided({pin: replace(unused, untrusted="revoked", revoked=True)})[pin].trust is Trust.REVOKED
