"""The plan: a comparison of an experiment with a store. It has one decision for each step, with the reason.

Planning reads the store and the code, starts nothing and writes nothing.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from marin.errors import BadField, CorruptRecord, Drift, Revoked, UnknownStep, did_you_mean
from marin.fingerprint.of_step import code_fingerprint, must_match_files
from marin.plan.decision import Action, Decision, OnDrift, Trust, decide, shown_changes
from marin.plan.digests import Digests
from marin.plan.drift import CurrentCode
from marin.plan.early_cutoff import Aliases
from marin.plan.facts import read_conditions
from marin.plan.observed import Present
from marin.plan.outside_data import CHANGED_OUTSIDE, outside_of
from marin.plan.pinned import check_kinds
from marin.plan.snapshot import Snapshot
from marin.steps.experiment import Experiment
from marin.steps.scale import Scale
from marin.steps.step import ExecutorStep
from marin.store.numbers import listed
from marin.store.store import Store

logger = logging.getLogger(__name__)
NAMED = 4  # steps that a message names of those with the same drift; `marin plan` lists all


@dataclass
class Plan:
    experiment: Experiment
    store: Store
    decisions: list[Decision]  # dependencies first
    today: dict[ExecutorStep[Any], CurrentCode]
    snapshot: Snapshot
    accepted_because: dict[str, str] = field(default_factory=dict[str, str])  # of each drifted output, by identity
    keep_state: frozenset[str] = frozenset()  # identities of steps that continue work in progress of other code
    because: str = ""  # the reason that the user gave
    on_drift: OnDrift = OnDrift.STOP  # applies also to outputs that others commit meanwhile
    policy: str = ""  # the file that sets on_drift; "" if no file does

    def of(self, step: ExecutorStep[Any]) -> Decision:
        return self._by_step[step]

    def __post_init__(self) -> None:
        self._by_step = {decision.step: decision for decision in self.decisions}
        self.aliases = Aliases(self.snapshot, self.today)

    def having(self, *actions: Action) -> list[Decision]:
        return [decision for decision in self.decisions if decision.action in actions]

    def must_not_stop(self) -> None:
        """Raise CorruptRecord for damage, else Revoked, else Drift with every drifted step and the ways on.

        Raise PatchedCode if a step would run and this process holds other code than the step's files.
        """
        stopped = self.having(Action.STOP)
        damaged = [decision for decision in stopped if not decision.drift and decision.trust is not Trust.REVOKED]
        if damaged:
            lines = [f"{decision.step.name}: {decision.reason}" for decision in damaged]
            raise CorruptRecord("\n".join([*lines, "Nothing was started."]))
        revoked = [decision for decision in stopped if decision.trust is Trust.REVOKED]
        if revoked:
            raise Revoked(_about_revoked(revoked))
        if stopped:
            raise Drift(_about_drift(stopped))
        for decision in self.having(Action.RUN, Action.RECHECK):
            must_match_files(decision.step)


def _about_revoked(stopped: list[Decision]) -> str:
    lines = [f"{len(stopped)} output(s) of this experiment are revoked, or were built from revoked outputs:"]
    lines += [f"  {decision.step.name}: {decision.reason}" for decision in stopped]
    return "\n".join(
        [
            *lines,
            "Nothing was started. Ways on:",
            "  raise the version of the operator that made the revoked output, or build on its replacement",
            "  --rebuild STEP     rebuild the revoked output in place, and then its readers",
            "  marin revoke STEP --withdraw --because REASON   if the revocation was a mistake",
        ]
    )


def _about_drift(stopped: list[Decision]) -> str:
    lines = [f"{len(stopped)} committed output(s) differ from what today's experiment would make:"]
    alike: dict[tuple[str, ...], list[str]] = {}
    for decision in stopped:
        alike.setdefault(decision.drift, []).append(decision.step.name)
    for drift, names in alike.items():
        lines.append(f"  {listed(names, NAMED)}")
        lines += [f"      {change}" for change in shown_changes(drift)]
    if any(decision.step.pin is not None for decision in stopped):
        lines += [
            "marin does not rebuild pins. Ways on from a pin:",
            "  build a new output, and pin that     `marin ls --json` prints its path and digest",
            "  Pinned(…, because=REASON)            keep using it; the reason is shown at each use",
            "  --on-drift accept --because REASON   keep using it; the reason is recorded in the store only",
        ]
    if all(decision.step.pin is not None for decision in stopped):
        return "\n".join([*lines, "Nothing was started."])
    if all(change.startswith(CHANGED_OUTSIDE) for decision in stopped for change in decision.drift):
        lines += [
            "Nothing was started. Two ways on:",
            "  --on-drift rebuild                   take today's data, and rebuild the steps that read it",
            "  --on-drift accept --because REASON   keep the outputs of the old data; the reason is recorded",
        ]
        return "\n".join(lines)
    lines += [
        "Nothing was started. Three ways on:",
        "  raise the operator's version         a new output beside the old one, which stays",
        "  --on-drift rebuild                   rebuild these steps in place, work in progress from its start",
        "                                       (or --rebuild STEP for one step)",
        "  --on-drift accept --because REASON   keep the outputs, go on with the work; the reason is recorded",
    ]
    return "\n".join(lines)


def make_plan(
    experiment: Experiment,
    store: Store,
    *,
    on_drift: OnDrift = OnDrift.STOP,
    policy: str = "",
    because: str = "",
    rebuild: Collection[str] = (),
    scale: Scale | None = None,
) -> Plan:
    """Decide about every step. scale: the scale of the experiment. policy: the file that sets ``on_drift``.

    Raises UnknownStep for a --rebuild that names no step, BadPrefix, BadField.
    """
    if on_drift is OnDrift.ACCEPT and not because.strip():
        raise BadField("--on-drift accept needs --because 'why the old outputs are still good'; it is recorded")
    steps = experiment.steps()
    forced = resolve_names(rebuild, steps)
    digests, began = Digests(), time.monotonic()
    today = {step: _today(step, digests) for step in steps}
    code_read = time.monotonic()
    snapshot = Snapshot(store, steps, scale)
    store_read = time.monotonic()
    conditions, aliases = read_conditions(snapshot, today), Aliases(snapshot, today)
    decisions = decide(conditions, experiment.results.values(), aliases.find, forced, on_drift)
    pinned = {d.step: output for d in decisions if d.step.pin and (output := d.alias_target or d.record) is not None}
    check_kinds(steps, pinned)
    accepted = {
        step.identity: because
        for step, condition in conditions.items()
        if (condition.drift or condition.work_drift) and on_drift is OnDrift.ACCEPT and step not in forced
    }
    continued = {step.identity for step, each in conditions.items() if each.continue_accepted and step not in forced}
    logger.info(
        "planned %d steps on %s: %.2f s for code and outside data, %.2f s for the store, %.2f s to judge; %s",
        *(len(steps), store.prefix, code_read - began, store_read - code_read, time.monotonic() - store_read),
        ", ".join(f"{count} {action.value}" for action, count in Counter(each.action for each in decisions).items()),
    )
    return Plan(
        experiment,
        store,
        decisions,
        today,
        snapshot,
        accepted,
        keep_state=frozenset(continued | accepted.keys()),
        because=because.strip(),
        on_drift=on_drift,
        policy=policy,
    )


def _today(step: ExecutorStep[Any], digests: Digests) -> CurrentCode:
    return CurrentCode(code_fingerprint(step), outside_of(step), Present(type(step), digests))


def resolve_names(names: Iterable[str], steps: Iterable[ExecutorStep[Any]]) -> set[ExecutorStep[Any]]:
    """Return the steps with these names: ``op/label``, label, operator or identity prefix (at least 6 digits).

    Raises UnknownStep for a name that fits no step.
    """
    every = list(steps)
    found: set[ExecutorStep[Any]] = set()
    for name in names:
        matching = [
            step
            for step in every
            if name in (step.name, step.label, step.op) or (len(name) >= 6 and step.identity.startswith(name))
        ]
        if not matching:
            raise UnknownStep(f"no step is called {name!r}; {did_you_mean(name, [step.name for step in every])}")
        found.update(matching)
    return found
