"""Run the steps of a plan, with events in the store and progress on the console."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

from rich.console import Console

from marin.cli.offline import must_not_need_hub
from marin.cli.priced import PricedPlan
from marin.cli.run_options import IN_MEMORY, RunOptions
from marin.errors import ClusterLost
from marin.executor.backends.backend import Backend
from marin.executor.backends.cluster import DASHBOARD, named_cluster
from marin.executor.egress_meter import EgressMeter
from marin.executor.events import Events, git_revision
from marin.executor.job import RunSettings
from marin.executor.run_results import Event, Run, Status, StepResult
from marin.executor.scheduler import Scheduler
from marin.plan.acceptance import accept_planned
from marin.plan.decision import Action
from marin.report.live import Progress
from marin.report.log_stream import LogStream
from marin.report.table import say


def execute(
    priced: PricedPlan,
    source: Path,
    options: RunOptions,
    console: Console,
    backend: Backend | None,
    close: Callable[[Run], None],
) -> Run:
    """Run the steps that the plan has not settled. Raises the errors that refuse it.

    close: ends a run that an interrupt or a lost cluster stopped, before the error leaves this function.
    """
    egress, plan, regions = priced.must_run(), priced.plan, priced.regions
    if options.runs_here or named_cluster(options.address) is None:
        must_not_need_hub(plan, os.environ)
    store = plan.store
    git = git_revision(source.parent)
    accept_planned(plan)
    todo = plan.having(Action.RUN, Action.RECHECK, Action.ALIAS)
    events = Events(store, source.stem)
    events.began(options.command, git, options.scale.value, len(todo))
    if egress.by_route:
        events.note("egress", **egress.to_json(), budget=priced.allowance.budget, allowed=options.allow_egress)
    scheduler: Scheduler | None = None
    dashboard = ""

    def hear(message: str) -> None:
        nonlocal dashboard
        say(console, message)
        if message.startswith(DASHBOARD):
            dashboard = message.removeprefix(DASHBOARD).split()[0]
            events.note("watched", dashboard=dashboard)

    stream = LogStream(console, store) if options.logs else nullcontext()
    try:
        with Progress(console, plan) as progress, stream as logs:

            def listen(event: Event, result: StepResult) -> None:
                events.step(event, result)
                if logs is not None:
                    logs(event, result)
                progress(event, result)

            backend = backend or _backend(options, hear)
            crosses = any(regions.of(decision.step) for decision in todo)
            on_message = functools.partial(say, console, style="yellow")
            settings = RunSettings(
                experiment=source.stem, git=git, check_inputs=options.check_inputs,
                tracker=options.track or "", profile=options.profile,
            )  # fmt: skip
            meter = EgressMeter(store, regions, priced.allowance) if crosses else None
            scheduler = Scheduler(plan, backend, listen, settings, on_message, meter, keep_going=options.keep_going)
            run = scheduler.execute()
    except BaseException as error:
        events.stopped(error)
        if scheduler is not None and isinstance(error, KeyboardInterrupt | ClusterLost):
            close(scheduler.run)
        raise
    if named_cluster(options.address) is not None:
        run.dashboard = dashboard
    events.ended(run.seconds, len(run.having(Status.FAILED)))
    return run


def _backend(options: RunOptions, hear: Callable[[str], None]) -> Backend:
    """Return the backend, which starts nothing before the first step. hear: receives the address of the dashboard."""
    if options.prefix.startswith(IN_MEMORY):  # no other process can see this store
        from marin.executor.backends.inline import InlineBackend

        return InlineBackend()
    if options.runs_here:
        from marin.executor.backends.child import ChildBackend

        return ChildBackend()
    from marin.executor.backends.ray import RayBackend

    return RayBackend(options.address, hear)
