"""Carry out the plan of an experiment: run its steps, print the results, write the page."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

from rich.console import Console

from marin.cli.exits import Exit
from marin.cli.offline import must_not_need_hub
from marin.cli.priced import PricedPlan
from marin.cli.run_options import IN_MEMORY, RunOptions
from marin.errors import BadPrefix, ClusterLost, StalePlan, StoreFull
from marin.executor.backends.backend import Backend
from marin.executor.backends.cluster import DASHBOARD, named_cluster
from marin.executor.egress_meter import EgressMeter
from marin.executor.events import Events, git_revision
from marin.executor.run_results import Event, Run, Status, StepResult
from marin.executor.scheduler import Scheduler
from marin.plan.acceptance import accept_planned
from marin.plan.decision import Action
from marin.report.closing import print_closing, print_next, print_results
from marin.report.log_stream import LogStream
from marin.report.table import say


def carry_out(
    priced: PricedPlan,
    plan_again: Callable[[], PricedPlan],
    source: Path,
    options: RunOptions,
    console: Console,
    backend: Backend | None,
) -> int:
    """Run the plan, print the results, write the page. Return the exit code.

    plan_again: plans the experiment once more, if the store changed since. backend: as in ``run_experiment``.
    """
    try:
        run = _execute(priced, source, options, console, backend)
    except StalePlan as error:
        say(console, f"planning again: {error}")
        run = _execute(plan_again(), source, options, console, backend)
    print_results(console, run)
    _close(console, run, source, options)
    failed = run.having(Status.FAILED)
    if failed and all(result.undecided for result in failed):
        return Exit.DRIFT
    return Exit.FAILED if run.having(Status.FAILED, Status.SKIPPED) else Exit.OK


def _execute(priced: PricedPlan, source: Path, options: RunOptions, console: Console, backend: Backend | None) -> Run:
    """Carry out the plan, with events in the store and progress on the console. Raises the errors that refuse it."""
    from marin.report.live import Progress

    egress, plan, regions = priced.must_run(), priced.plan, priced.regions
    if options.runs_here or named_cluster(options.address) is None:
        must_not_need_hub(plan, os.environ)
    store = plan.store
    git = git_revision(source.parent)
    accept_planned(plan)
    todo = plan.having(Action.RUN, Action.RECHECK, Action.ALIAS)
    if not todo:
        return Scheduler(plan, backend or _backend(options, lambda _: None), lambda _event, _result: None).execute()
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
            scheduler = Scheduler(
                plan, backend, listen, source.stem, git, on_message=on_message,
                check_inputs=options.check_inputs, tracker=options.track or "",
                profile=options.profile, keep_going=options.keep_going,
                meter=EgressMeter(store, regions, priced.allowance) if crosses else None,
            )  # fmt: skip
            run = scheduler.execute()
    except BaseException as error:
        events.stopped(error)
        if scheduler is not None and isinstance(error, KeyboardInterrupt | ClusterLost):
            _close(console, scheduler.run, source, options)
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


def _close(console: Console, run: Run, source: Path, options: RunOptions) -> None:
    """Print the outcome of the steps, write the page, and print the next command."""
    from marin.report.page.write import write_page

    print_closing(console, run)
    try:
        page = write_page(run, source, options.scale, options.command, options.only)
        say(console, f"page{'' if page.is_new else ' unchanged'}: {page.path}")
    except (BadPrefix, StoreFull) as error:
        if run.having(Status.RAN):
            raise
        say(console, f"page not written: {error}")
    print_next(console, run)
