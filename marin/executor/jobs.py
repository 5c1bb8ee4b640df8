"""Jobs of a run: one for each step to be made, from the plan and from changes since."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from marin.executor.job import Job, RunSettings
from marin.executor.run_results import Run
from marin.plan.decision import Decision
from marin.plan.early_cutoff import input_roots
from marin.plan.plan import Plan
from marin.steps.step import ExecutorStep, action_key
from marin.store.record import Record


class Jobs(Struct, frozen=True, kw_only=True, dict=True):
    """The jobs of one run."""

    run: Run
    replaced: Mapping[ExecutorStep[Any], Record]  # outputs that others committed meanwhile and this run rebuilds
    settings: RunSettings

    @property
    def _plan(self) -> Plan:
        return self.run.plan

    @functools.cached_property
    def results(self) -> set[ExecutorStep[Any]]:
        """Return the experiment's results, which marin keeps without limit, regardless of their lifetimes."""
        return set(self._plan.experiment.results.values())

    def inputs(self, dependencies: Iterable[ExecutorStep[Any]]) -> dict[str, Record]:
        return {each.identity: record for each in dependencies if (record := self.run.results[each].record)}

    def after(self, step: ExecutorStep[Any]) -> int:
        """Return the number of the last attempt whose output must not be used."""
        seen = self._plan.snapshot.last.get(step.identity, 0)
        return max(seen, self.replaced[step].token) if step in self.replaced else seen

    def of(self, step: ExecutorStep[Any], milestones: Iterable[ExecutorStep[Any]] = ()) -> Job:
        """Return a step's job. milestones: outputs to publish on the way; their inputs are the step's own inputs."""
        inputs = self.inputs(step.dependencies)
        published = {getattr(each, "step"): self._of(each, inputs) for each in milestones}
        return replace(self._of(step, inputs), milestones=published)

    def _of(self, step: ExecutorStep[Any], inputs: dict[str, Record]) -> Job:
        today, decision = self._plan.today[step], self._plan.of(step)
        roots = input_roots(step, lambda read: self.run.results[read].record)
        return Job(
            prefix=self._plan.store.prefix,
            step=step,
            code=today.code.digest,
            packages=dict(today.code.packages),
            outside=today.outside,
            action="" if roots is None else action_key(step, roots),
            inputs=inputs,
            replaces="" if (record := self.replaced.get(step, decision.record)) is None else record.attempt,
            after=self.after(step),
            occupied=frozenset(self._plan.snapshot.attempts(step.op).of_identity(step.identity)),
            keep_state=step.identity in self._plan.keep_state,
            lifetime="" if step in self.results else str(step.lifetime),
            because=self._because(decision),
            run=self.settings,
            scale=self._plan.snapshot.scale,
            changes=self._plan.experiment.changes.get(step.identity, ()),
        )

    def _because(self, decision: Decision) -> str:
        """Return why an output is rebuilt that exists, or existed before it was damaged; "" for a first build."""
        if decision.record is None and not decision.forced and decision.step not in self.replaced:
            return ""
        reason = self.run.results[decision.step].reason
        return f"{reason}: {self._plan.because}" if decision.forced and self._plan.because else reason
