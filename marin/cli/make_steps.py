"""Plan and run the steps that a command needs before it can answer, with the plan on stderr."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from marin.cli.new_model import GivenModel
from marin.errors import BadField, StepFailed
from marin.store.record import Record
from marin.store.store import Store

if TYPE_CHECKING:
    from marin.executor.backends.backend import Backend
    from marin.plan.plan import Plan
    from marin.steps.scale import Scale
    from marin.steps.step import ExecutorStep


type Steps = Mapping[str, ExecutorStep[Any]]


def read_model(store: Store, model: GivenModel) -> tuple[Record, Record]:
    """Return the weights of a published model and its tokenizer. Reads them into the store if they are not there.

    Raises the errors of ``make_steps``.
    """

    def steps(model_step: Callable[[GivenModel], Any]) -> Steps:
        step = model_step(model)
        return {"weights": step, "tokenizer": step.tokenizer}

    made = make_steps(store, [model], steps, f"The weights of {model.given}.")
    return made["weights"], made["tokenizer"]


def make_steps(
    store: Store,
    models: Sequence[GivenModel],
    steps: Callable[[Callable[[GivenModel], Any]], Steps],
    question: str,
    scale: Scale | None = None,
) -> dict[str, Record]:
    """Return the outputs of steps that read published models, by name. If a step must run, show the plan on stderr.

    steps: makes the steps, given a function that returns the step of a model. marin reads config.json only if something
    must run. The weights of a commit of the hub never change, so marin takes such an output even if marin's own code
    has changed since. Raises BadField for a folder that has changed since it was read, Drift, Revoked and the other
    errors that refuse a run, and StepFailed for the first step that fails.
    """
    from marin.plan.decision import Action, Trust

    os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")  # silences the note that PyTorch is missing
    results = steps(GivenModel.step)
    plan = _plan(store, results, question, scale)
    stopped = plan.having(Action.STOP)
    if stopped and all(each.drift and each.trust is not Trust.REVOKED for each in stopped):
        there = {name: store.record(step.identity) for name, step in results.items()}
        held = {name: record for name, record in there.items() if record is not None}
        if len(held) == len(results) and all(model.is_of_hub for model in models):
            return held
        folders = {str(model.step().identity): model.given for model in models if not model.is_of_hub}
        for each in stopped:
            if (folder := folders.get(each.step.identity)) is not None:
                name = each.step.name
                raise BadField(
                    f"{folder} has changed since {name} was read from it, or marin's code for reading models has. "
                    f"Nothing was started. Use the stored weights by their name, {name}, or delete them and run again: "
                    f"marin gc {name} --delete"
                )
    if plan.having(Action.RUN, Action.RECHECK):
        results = steps(GivenModel.declared)
        plan = _plan(store, results, question, scale)
    return _carry_out(plan, results)


def _plan(store: Store, results: Steps, question: str, scale: Scale | None) -> Plan:
    from marin.plan.plan import make_plan
    from marin.steps.experiment import Experiment
    from marin.store.collector import paused

    with paused():
        experiment = Experiment(issue=1, question=question, results=results, repository="")
        return make_plan(experiment, store, scale=scale)


def _carry_out(plan: Plan, results: Steps) -> dict[str, Record]:
    from marin.cli.offline import must_not_need_hub
    from marin.cli.priced import PricedPlan
    from marin.executor.run_results import Event, Status, StepResult
    from marin.executor.scheduler import Scheduler
    from marin.plan.cost.egress import Allowance, Regions
    from marin.plan.decision import Action
    from marin.report.closing import print_closing
    from marin.report.live import Progress
    from marin.report.table import open_console, say

    store = plan.store
    if plan.having(Action.RUN, Action.RECHECK, Action.ALIAS, Action.STOP):
        about = open_console(stderr=True)  # stdout is for the command's answer
        priced = PricedPlan(plan, Regions(store.prefix, None, None), Allowance(stated=None, because=""))
        priced.show(about, every=False)
        priced.must_run()
        must_not_need_hub(plan, os.environ)
        with Progress(about, plan) as progress:

            def listen(event: Event, result: StepResult) -> None:
                progress(event, result)

            on_message = functools.partial(say, about, style="yellow")
            run = Scheduler(plan, _backend(plan), listen, on_message=on_message).execute()
        print_closing(about, run)
        for failed in run.having(Status.FAILED):
            raise StepFailed(f"{failed.step.name}: {failed.error}; its log is {store.prefix}/{failed.log}")
    found = {name: store.record(step.identity) for name, step in results.items()}
    made = {name: record for name, record in found.items() if record is not None}
    assert made.keys() == results.keys(), "no step failed"
    return made


def _backend(plan: Plan) -> Backend:
    """Return a backend: a process beside this one, or Ray if a step needs an accelerator."""
    from marin.plan.decision import Action

    if plan.store.prefix.startswith("memory://"):  # no other process can see this store
        from marin.executor.backends.inline import InlineBackend

        return InlineBackend()
    steps = [decision.step for decision in plan.having(Action.RUN, Action.RECHECK)]
    if not any(step.resources.accelerator for step in steps):
        from marin.executor.backends.child import ChildBackend

        return ChildBackend()
    from marin.executor.backends.cluster import named_cluster
    from marin.executor.backends.private_ray import stay_on_this_machine
    from marin.executor.backends.ray import RayBackend
    from marin.executor.backends.step_pickles import must_ship

    if named_cluster("") is None:
        stay_on_this_machine()
    must_ship(steps)
    return RayBackend("", lambda _: None)
