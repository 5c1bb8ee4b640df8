"""``marin run``, the same as ``python experiments/exp….py``: plan an experiment, run it, show the result."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

import click
from rich.console import Console

from marin.cli.completions import complete_result, complete_step
from marin.cli.exits import Exit
from marin.cli.offline import must_not_need_hub
from marin.cli.options import EXPERIMENT, PlanOptions
from marin.cli.parameters import Parsed, all_of, choice, command_line, flag, option, reason
from marin.cli.priced import PricedPlan
from marin.errors import BadField, BadPrefix, ClusterLost, MissingDependency, StalePlan, StoreFull
from marin.executor.backends.backend import Backend, BackendName
from marin.executor.backends.cluster import DASHBOARD, named_cluster
from marin.executor.backends.private_ray import stay_on_this_machine
from marin.executor.backends.shipping import must_ship
from marin.executor.events import Events, git_revision
from marin.executor.input_check import parse_bound
from marin.executor.run_results import Event, Run, Status, StepResult
from marin.executor.scheduler import Scheduler
from marin.plan.acceptance import accept_planned
from marin.plan.decision import Action, OnDrift
from marin.plan.plan import make_plan
from marin.plan.policy import Policy, policy_of
from marin.report.closing import print_closing, print_next, print_results
from marin.report.log_stream import LogStream
from marin.report.table import open_console, say
from marin.report.typed import same_command
from marin.steps.experiment import Experiment
from marin.steps.experiment_file import Build, load_build
from marin.store.collector import paused
from marin.store.files.verify import EVERY_BYTE
from marin.store.store import Store, open_store

IN_MEMORY = "memory://"


def parse_steps(text: str) -> tuple[int, int]:
    """Parse a range of optimizer steps, ``10-12`` or ``10``. Raises BadField."""
    found = re.fullmatch(r"(\d+)(?:-(\d+))?", text.strip())
    if found is None or int(found[1]) > int(found[2] or found[1]):
        raise BadField(f"{text!r} is no range of optimizer steps; wanted the first and the last, such as 10-12")
    return int(found[1]), int(found[2] or found[1])


@dataclass(frozen=True, kw_only=True)
class RunOptions(PlanOptions):
    """Options of commands that run an experiment."""

    dry_run: bool = flag("--dry-run", "Plan only; start and change nothing.")
    only: tuple[str, ...] = option(
        "--only",
        "Run only this result and its inputs (repeatable).",
        multiple=True,
        metavar="RESULT",
        complete=complete_result,
    )
    rebuild: tuple[str, ...] = option(
        "--rebuild",
        "Rebuild the step: op/label, op or identity (repeatable).",
        multiple=True,
        metavar="STEP",
        complete=complete_step,
    )
    on_drift: OnDrift | None = choice(
        "--on-drift",
        OnDrift,
        "What to do about drifted outputs.  [default: on_drift in pyproject.toml, else stop]",
    )
    because: str = reason("--because", "Why drifted outputs are accepted or rebuilt; recorded.")
    check_inputs: int = option(
        "--check-inputs",
        "How much of each input to compare with its manifest before a step reads it.",
        type=Parsed("all|sizes|SIZE", parse_bound),
        default=EVERY_BYTE,
        metavar="all|sizes|SIZE",
        show_default="all",
    )
    track: str | None = option(
        "--track",
        "Show trainings in W&B or trackio as well; they read their own variables (WANDB_…, TRACKIO_…).",
        type=click.Choice(["wandb", "trackio"], case_sensitive=False),
    )
    profile: tuple[int, int] | None = option(
        "--profile",
        "Trace these optimizer steps of trainings (10-12) for Perfetto; the page links the traces.",
        type=Parsed("FIRST-LAST", parse_steps),
        metavar="STEPS",
    )
    backend: BackendName = choice(
        "--backend", BackendName, "Run steps on Ray, or one by one in a process beside this one.", BackendName.RAY
    )
    address: str = option(
        "--address",
        "A running Ray cluster; else the one of RAY_ADDRESS, else a private one that the run starts.",
        default="",
    )
    keep_going: bool = flag("--keep-going", "After a failure, also start steps that lead only to broken ones.")
    logs: bool = flag("--logs", "Print the log lines of running steps, each behind its step's name.")
    command: str = field(default_factory=same_command)

    @property
    def runs_here(self) -> bool:
        return self.backend is BackendName.INLINE or self.prefix.startswith(IN_MEMORY)

    def built(self, build: Build, source: Path) -> Experiment:
        experiment = super().built(build, source)
        return experiment.only(self.only) if self.only else experiment


@command_line()
def command(experiment: str = EXPERIMENT, options: RunOptions = all_of(RunOptions)) -> int:
    """Plan and run EXPERIMENT (a file), like running the file itself."""
    build, source = load_build(experiment)
    return run_experiment(build, source, options)


def run_experiment(build: Build, source: Path, options: RunOptions, backend: Backend | None = None) -> int:
    """Plan, print the plan, run unless dry, print the results, write the page. Return the exit code.

    backend: runs the steps instead of the backend that the options name.
    """
    if options.track and find_spec(options.track) is None:
        raise MissingDependency(f"--track {options.track} needs it: pip install 'marin[track]'")
    console = open_console()
    with paused():
        experiment = options.built(build, source)
        store = open_store(options.prefix)
        priced = _planned(experiment, store, source, options)
    say(console, f"{source.stem} · {options.scale.value} · issue {experiment.issue_url or experiment.issue}", "bold")
    runs = not options.runs_here and priced.plan.having(Action.RUN, Action.RECHECK)
    cluster = named_cluster(options.address) if runs else None  # only one that the user named
    priced.show(console, every=options.every_step, where=cluster)
    if options.dry_run:
        stopped = priced.plan.having(Action.STOP)
        would = f"; {len(stopped)} step(s) would stop the run" if stopped else ""
        console.print(f"dry run: nothing was started{would}")
        return priced.would_run()
    try:
        run = _execute(priced, source, options, console, backend)
    except StalePlan as error:
        say(console, f"planning again: {error}")
        run = _execute(_planned(experiment, store, source, options), source, options, console, backend)
    print_results(console, run)
    _close(console, run, source, options)
    failed = run.having(Status.FAILED)
    if failed and all(result.undecided for result in failed):
        return Exit.DRIFT
    return Exit.FAILED if run.having(Status.FAILED, Status.SKIPPED) else Exit.OK


def _planned(experiment: Experiment, store: Store, source: Path, options: RunOptions) -> PricedPlan:
    on_drift, policy = Policy(options.on_drift, "") if options.on_drift is not None else policy_of(source)
    plan = make_plan(
        experiment,
        store,
        on_drift=on_drift,
        policy=policy,
        because=options.because,
        rebuild=options.rebuild,
        scale=options.scale,
    )
    if not options.runs_here and named_cluster(options.address) is None:
        stay_on_this_machine()
    if not options.prefix.startswith(IN_MEMORY):
        must_ship(decision.step for decision in plan.having(Action.RUN, Action.RECHECK))
    return options.priced(plan)


def _execute(priced: PricedPlan, source: Path, options: RunOptions, console: Console, backend: Backend | None) -> Run:
    """Carry out the plan, with events in the store and progress on the console. Raises the errors that refuse it."""
    from marin.report.live import Progress

    egress, plan, regions = priced.must_run(), priced.plan, priced.regions
    if options.runs_here or named_cluster(options.address) is None:
        must_not_need_hub(plan, os.environ)
    store = plan.store
    git = str(git_revision(source.parent))
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
            events.watched(dashboard)

    stream = LogStream(console, store) if options.logs else nullcontext()
    try:
        with Progress(console, plan) as progress, stream as logs:

            def listen(event: Event, result: StepResult) -> None:
                events.step(event, result)
                if logs is not None:
                    logs(event, result)
                progress(event, result)

            backend = backend or _backend(options, hear)
            if any(regions.of(decision.step) for decision in todo):
                from marin.executor.backends.egress_meter import MeteredBackend

                backend = MeteredBackend(backend, store, regions, priced.allowance)
            on_message = functools.partial(say, console, style="yellow")
            scheduler = Scheduler(
                plan, backend, listen, source.stem, git, on_message=on_message,
                check_inputs=options.check_inputs, tracker=options.track or "",
                profile=options.profile, keep_going=options.keep_going,
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
