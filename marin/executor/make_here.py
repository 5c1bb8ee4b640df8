"""Make one step in this process, for tests of operators and for notebooks."""

from __future__ import annotations

from marin.errors import StepFailed
from marin.executor.backends.inline import InlineBackend
from marin.executor.run_results import Status
from marin.executor.scheduler import Scheduler
from marin.plan.plan import make_plan
from marin.steps.artifact import Artifact, artifact_from
from marin.steps.experiment import Experiment
from marin.steps.step import ExecutorStep
from marin.store.store import open_store


def make_here[A: Artifact](step: ExecutorStep[A], prefix: str) -> A:
    """Return the artifact of a step. The step and its inputs are made in this process if the store lacks them.

    prefix: of the store. Raises StepFailed naming the step that failed, Drift, BadPrefix.
    """
    experiment = Experiment(issue=1, question="Made by itself.", results={"it": step}, repository="")
    store = open_store(prefix)
    plan = make_plan(experiment, store)
    plan.must_not_stop()
    run = Scheduler(plan, InlineBackend(), lambda _event, _result: None).execute()
    for failed in run.having(Status.FAILED):
        raise StepFailed(f"{failed.step.name}: {failed.error}; its log is {store.prefix}/{failed.log}")
    record = store.record(step.identity)
    assert record is not None, "every step was made"
    made: A = artifact_from(record.kind, record.facts, store.output(record))  # pyright: ignore[reportAssignmentType]
    return made
