"""Measure what the steps of a run move between regions."""

from __future__ import annotations

from marin.errors import EgressOverBudget
from marin.executor.job import Ending, Job, Outcome
from marin.plan.cost.egress import Allowance, Amount, Regions
from marin.store.numbers import write_bytes
from marin.store.store import Store


class EgressMeter:
    """Refuses a step whose inputs would take the run above its egress budget.

    Before a first run, the size of its outputs is unknown, so the plan cannot refuse it. Once a step's inputs exist,
    their sizes are known. bytes: moved between regions so far, without outside data, which the plan counted.
    """

    def __init__(self, store: Store, regions: Regions, allowance: Allowance) -> None:
        self.store, self.regions, self.allowance = store, regions, allowance
        self.bytes = 0

    def begin(self, job: Job) -> None:
        """Count the inputs of a job that is about to start. Raises EgressOverBudget."""
        reads = self._reads(job)
        if reads and self.bytes + reads > self.allowance.budget and not self.allowance.because:
            raise EgressOverBudget(
                f"{job.step.name} would read {write_bytes(reads)} from another region. With the "
                f"{write_bytes(self.bytes)} that this run has moved already, that exceeds the budget of "
                f"{write_bytes(self.allowance.budget)}; the size of the inputs was unknown before the run. Committed "
                "outputs stay; use --region, `marin mirror`, --egress-budget SIZE or --allow-egress REASON"
            )
        self.bytes += reads

    def end(self, job: Job, outcome: Outcome) -> None:
        if outcome.ending in (Ending.HELD, Ending.CACHED):  # another driver reads the inputs and writes the output
            self.bytes -= self._reads(job)
        if outcome.ending is Ending.DONE and outcome.record is not None:
            published = [self.store.record(milestone.step.identity) for milestone in job.milestones.values()]
            written = (outcome.record, *(record for record in published if record is not None))
            self.bytes += self._crossing(job, writes=sum(record.bytes for record in written))

    def _reads(self, job: Job) -> int:
        return self._crossing(job, reads=sum(held.bytes for held in job.inputs.values()))

    def _crossing(self, job: Job, reads: int = 0, writes: int = 0) -> int:
        egress = self.regions.egress(job.step, Amount(reads), Amount(writes), outside=False)
        return 0 if egress is None else egress.amount.bytes
