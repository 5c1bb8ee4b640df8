"""Plan an experiment, run it, show the result: what ``python experiments/exp….py`` and ``marin run`` do."""

from __future__ import annotations

import functools
import shlex
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from marin.cli.completions import complete_path, complete_result, complete_step
from marin.cli.exits import Exit
from marin.cli.region_options import Parsed, region_options
from marin.errors import BadPrefix, ClusterLost, StalePlan, StoreFull
from marin.executor.backends.backend import Backend, BackendName
from marin.executor.backends.cluster import NamedCluster, named_cluster
from marin.executor.backends.private_ray import stay_on_this_machine
from marin.executor.backends.shipping import must_ship
from marin.executor.events import Events, git_revision
from marin.executor.input_check import parse_bound
from marin.executor.run_results import Event, Run, Status, StepResult
from marin.executor.scheduler import Scheduler
from marin.plan.acceptance import accept_planned
from marin.plan.cost.egress import Allowance, Egress, Regions, must_be_allowed
from marin.plan.cost.plan_cost import StepCost, crossing, plan_costs
from marin.plan.decision import Action, OnDrift
from marin.plan.plan import Plan, make_plan
from marin.report.closing import print_closing
from marin.report.log_stream import LogStream
from marin.report.table import open_console
from marin.steps.experiment import Experiment
from marin.steps.experiment_file import Build, built_by
from marin.steps.scale import Scale
from marin.store.collector import paused
from marin.store.files.verify import EVERY_BYTE
from marin.store.region import Region
from marin.store.store import Store, open_store


@dataclass(frozen=True, kw_only=True)
class Options:
    """How one command wants an experiment planned and run."""

    scale: Scale = Scale.REHEARSAL
    prefix: str = "store"
    dry_run: bool = False
    only: tuple[str, ...] = ()
    rebuild: tuple[str, ...] = ()
    on_drift: OnDrift = OnDrift.STOP
    because: str = ""
    region: Region | None = None
    store_region: Region | None = None
    egress_budget: int | None = None
    allow_egress: str = ""
    check_inputs: int = EVERY_BYTE
    backend: BackendName = BackendName.RAY
    address: str = ""
    every_step: bool = False
    logs: bool = False
    command: str = field(default_factory=lambda: shlex.join(sys.argv))


def run_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of every command that plans or runs an experiment."""
    decorators = [
        _choice("--scale", Scale, Scale.REHEARSAL, "A laptop rehearsal, or the real thing."),
        click.option(
            "--prefix",
            default="store",
            show_default=True,
            help="Where the store lives: a path, gs://…, s3://… or memory://…",
            shell_complete=complete_path,
        ),
        click.option("--dry-run", is_flag=True, help="Plan, say what would run and what it costs; change nothing."),
        click.option(
            "--only",
            multiple=True,
            metavar="RESULT",
            help="Only this result (repeatable).",
            shell_complete=complete_result,
        ),
        click.option(
            "--rebuild",
            multiple=True,
            metavar="STEP",
            help="Make it again: op/label, op or identity (repeatable).",
            shell_complete=complete_step,
        ),
        _choice("--on-drift", OnDrift, OnDrift.STOP, "Outputs that today's code or inputs would not make."),
        click.option("--because", default="", metavar="REASON", help="Why outputs stand or are made again; recorded."),
        region_options,
        click.option(
            "--check-inputs",
            type=Parsed("all|sizes|SIZE", parse_bound),
            default=EVERY_BYTE,
            metavar="all|sizes|SIZE",
            show_default="all",
            help="Bytes of each input to compare with its manifest before a step reads it.",
        ),
        _choice("--backend", BackendName, BackendName.RAY, "Where steps run."),
        click.option(
            "--address",
            default="",
            help="A running Ray cluster; without it that of RAY_ADDRESS, or a private one is started.",
        ),
        click.option("--logs", is_flag=True, help="Print what running steps log, each line behind its step's name."),
        click.option("--every-step", is_flag=True, help="Do not fold like steps in the printed plan."),
    ]
    for decorate in reversed(decorators):
        command = decorate(command)
    return command


def _choice[E: Enum](name: str, choices: type[E], default: E, text: str) -> Callable[[Any], Any]:
    kind = click.Choice(choices, case_sensitive=False)
    return click.option(name, type=kind, default=default, show_default=default.name.lower(), help=text)


def run_experiment(build: Build, source: Path, options: Options) -> int:
    """Plan, print, run unless dry, print results, write the page. Returns the exit code."""
    from marin.report import terminal

    console = open_console()
    with paused():
        experiment = built_by(build, source, options.scale)
        if options.only:
            experiment = experiment.only(options.only)
        store = open_store(options.prefix)
        plan = _planned(experiment, store, options)
    about = f"{source.stem} · {options.scale.value} · issue {experiment.issue_url}"
    console.print(about, style="bold", markup=False, highlight=False, soft_wrap=True)
    terminal.print_plan(console, plan, every=options.every_step, where=_where(plan, options))
    from marin.report.cost_table import print_costs

    regions = Regions(store.prefix, options.region, options.store_region)
    costs = plan_costs(plan, regions)
    print_costs(console, plan, costs, regions)
    if options.dry_run:
        stopped = plan.having(Action.STOP)
        console.print(
            "dry run: nothing was started" + (f"; {len(stopped)} step(s) would stop the run" if stopped else "")
        )
        if stopped:
            return Exit.DRIFT
        _allowed_egress(costs, options, regions)
        return Exit.OK
    plan.must_not_stop()
    egress = _allowed_egress(costs, options, regions)
    try:
        run = execute(plan, store, source, options, console, egress, regions)
    except StalePlan as error:
        console.print(f"planning again: {error}", highlight=False, markup=False, soft_wrap=True)
        plan = _planned(experiment, store, options)
        plan.must_not_stop()
        egress = _allowed_egress(plan_costs(plan, regions), options, regions)
        run = execute(plan, store, source, options, console, egress, regions)
    terminal.print_results(console, run)
    _close(console, run, source, options)
    failed = run.having(Status.FAILED)
    if failed and all(result.undecided for result in failed):
        return Exit.DRIFT
    return Exit.FAILED if run.having(Status.FAILED, Status.SKIPPED) else Exit.OK


def _close(console: Console, run: Run, source: Path, options: Options) -> None:
    """What became of the steps, and the page."""
    print_closing(console, run)
    from marin.report.page.page import write_page

    try:
        page, new = write_page(run, source, options.scale, options.command, options.only)
        console.print(f"page{'' if new else ' unchanged'}: {page}", markup=False, highlight=False, soft_wrap=True)
    except (BadPrefix, StoreFull) as error:
        if run.having(Status.RAN):
            raise
        console.print(f"page not written: {error}", highlight=False, markup=False, soft_wrap=True)


def _planned(experiment: Experiment, store: Store, options: Options) -> Plan:
    plan = make_plan(
        experiment,
        store,
        on_drift=options.on_drift,
        because=options.because,
        rebuild=options.rebuild,
        scale=options.scale,
    )
    if not _runs_here(options):
        if named_cluster(options.address) is None:
            stay_on_this_machine()
        must_ship(decision.step for decision in plan.having(Action.RUN, Action.RECHECK))
    return plan


def _runs_here(options: Options) -> bool:
    return options.backend is BackendName.INLINE or options.prefix.startswith("memory://")


def _where(plan: Plan, options: Options) -> NamedCluster | None:
    """The cluster that somebody named, if anything will run there."""
    runs = not _runs_here(options) and plan.having(Action.RUN, Action.RECHECK)
    return named_cluster(options.address) if runs else None


def _allowed_egress(costs: Sequence[StepCost], options: Options, regions: Regions) -> Egress:
    """What crosses regions. Raises EgressOverBudget."""
    moved = crossing(costs)
    must_be_allowed(moved, _allowance(options), regions)
    return sum((held for _, held in moved), Egress())


def _allowance(options: Options) -> Allowance:
    return Allowance(stated=options.egress_budget, because=options.allow_egress)


def execute(
    plan: Plan,
    store: Store,
    source: Path,
    options: Options,
    console: Console,
    egress: Egress | None = None,
    regions: Regions | None = None,
) -> Run:
    """Carry the plan out, with events in the store and progress on the console.

    egress: what it moves between regions, as allowed. regions: where its steps run; what they move is metered.
    """
    from marin.report.terminal import Progress

    git = str(git_revision(source.parent))
    accept_planned(plan)
    todo = plan.having(Action.RUN, Action.RECHECK, Action.ALIAS)
    if not todo:
        return Scheduler(plan, make_backend(options), _say_nothing).execute()
    events = Events(store, source.stem)
    events.began(options.command, git, options.scale.value, len(todo))
    if egress is not None and egress.by_route:
        events.note("egress", **egress.to_json(), budget=_allowance(options).budget, allowed=options.allow_egress)
    scheduler: Scheduler | None = None
    try:
        with Progress(console, store, len(todo)) as progress, _stream(options, console, store) as logs:

            def listen(event: Event, result: StepResult) -> None:
                events.step(event, result)
                if logs is not None:
                    logs(event, result)
                progress(event, result)

            say = functools.partial(console.print, highlight=False, markup=False, soft_wrap=True)
            backend = make_backend(options, say)
            if regions is not None and any(regions.of(decision.step) for decision in todo):
                from marin.executor.backends.egress_meter import MeteredBackend

                backend = MeteredBackend(backend, store, regions, _allowance(options))
            tell = functools.partial(say, style="yellow")
            scheduler = Scheduler(
                plan, backend, listen, source.stem, git, on_message=tell, check_inputs=options.check_inputs
            )
            run = scheduler.execute()
    except BaseException as error:
        events.stopped(error)
        if scheduler is not None and isinstance(error, KeyboardInterrupt | ClusterLost):
            _close(console, scheduler.run, source, options)
        raise
    events.ended(run.seconds, len(run.having(Status.FAILED)))
    return run


def _stream(options: Options, console: Console, store: Store) -> AbstractContextManager[LogStream | None]:
    return LogStream(console, store) if options.logs else nullcontext()


def _say_nothing(_event: Event, _result: StepResult) -> None:
    """A run of which nothing runs has no progress."""


def make_backend(options: Options, tell: Callable[[str], None] = lambda _: None) -> Backend:
    """Neither choice starts anything before there is a step to run. tell: where a cluster can be watched."""
    if _runs_here(options):
        from marin.executor.backends.inline import InlineBackend

        return InlineBackend()
    from marin.executor.backends.ray import RayBackend

    return RayBackend(options.address, tell)
