"""A backend around another one that measures what steps move between regions."""

from __future__ import annotations

from typing import Any

from marin.executor.backends.backend import Backend, Watcher
from marin.executor.job import Ending, Job, Outcome
from marin.plan.cost.egress import Allowance, Amount, Regions, total
from marin.steps.step import ExecutorStep
from marin.store.numbers import write_bytes
from marin.store.store import Store


class MeteredBackend:
    """Refuses a step whose inputs would take the run above its egress budget.

    Before a first run, the size of its outputs is unknown, so the plan cannot refuse it. Once a step's inputs exist,
    their sizes are known. bytes: moved between regions so far, without outside data, which the plan counted.
    """

    def __init__(self, backend: Backend, store: Store, regions: Regions, allowance: Allowance) -> None:
        self.backend, self.store, self.regions, self.allowance = backend, store, regions, allowance
        self.bytes = 0
        self._reads: dict[str, int] = {}  # of running steps, by identity
        self._refused: list[tuple[Job, Outcome]] = []

    def start(self, steps: list[ExecutorStep[Any]], watcher: Watcher) -> None:
        self.backend.start(steps, watcher)

    def submit(self, job: Job) -> None:
        reads = self._crossing(job.step, total(Amount(held.bytes) for held in job.inputs.values()), Amount())
        if reads and self.bytes + reads > self.allowance.budget and not self.allowance.because:
            self._refused.append((job, Outcome(ending=Ending.FAILED, error=self._about(job.step, reads))))
            return
        self._reads[job.step.identity] = reads
        self.bytes += reads
        self.backend.submit(job)

    def wait(self, seconds: float) -> list[tuple[Job, Outcome]]:
        if self._refused:
            refused, self._refused = self._refused, []
            return refused
        ended = self.backend.wait(seconds)
        for job, outcome in ended:
            self._count(job, outcome)
        return ended

    def stop(self) -> None:
        self.backend.stop()

    def _count(self, job: Job, outcome: Outcome) -> None:
        reads = self._reads.pop(job.step.identity, 0)
        if outcome.ending in (Ending.HELD, Ending.CACHED):  # another driver reads the inputs and writes the output
            self.bytes -= reads
        if outcome.ending is not Ending.DONE or outcome.record is None:
            return
        published = [self.store.record(milestone.step.identity) for milestone in job.milestones.values()]
        written = (outcome.record, *(record for record in published if record is not None))
        self.bytes += self._crossing(job.step, Amount(), total(Amount(record.bytes) for record in written))

    def _crossing(self, step: ExecutorStep[Any], reads: Amount, writes: Amount) -> int:
        egress = self.regions.egress(step, reads, writes, outside=False)
        return 0 if egress is None else egress.amount.bytes

    def _about(self, step: ExecutorStep[Any], reads: int) -> str:
        return (
            f"EgressOverBudget: {step.name} would read {write_bytes(reads)} from another region. With the "
            f"{write_bytes(self.bytes)} that this run has moved already, that exceeds the budget of "
            f"{write_bytes(self.allowance.budget)}; the size of the inputs was unknown before the run. Committed "
            "outputs stay; use --region, `marin mirror`, --egress-budget SIZE or --allow-egress REASON"
        )
