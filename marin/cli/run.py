"""``marin run``, the same as ``python experiments/exp….py``: plan an experiment, run it, show the result."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from marin.cli.options import EXPERIMENT
from marin.cli.parameters import all_of, command_line
from marin.cli.priced import PricedPlan
from marin.cli.run_options import IN_MEMORY, RunOptions
from marin.errors import MissingDependency
from marin.executor.backends.cluster import named_cluster
from marin.executor.backends.private_ray import stay_on_this_machine
from marin.plan.decision import Action
from marin.plan.plan import make_plan
from marin.plan.policy import Policy, policy_of
from marin.report.table import open_console, say
from marin.steps.experiment import Experiment
from marin.steps.experiment_file import Build, load_build
from marin.store.collector import paused
from marin.store.store import Store, open_store

if TYPE_CHECKING:
    from marin.executor.backends.backend import Backend


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
        raise MissingDependency(f"--track: {options.track} is not installed: pip install 'marin[track]'")
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
    # A dry run does without the imports of a run, which take as long as a plan.
    from marin.cli.carry_out import carry_out

    return carry_out(priced, lambda: _planned(experiment, store, source, options), source, options, console, backend)


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
    todo = plan.having(Action.RUN, Action.RECHECK)
    if todo and not options.prefix.startswith(IN_MEMORY):
        from marin.executor.backends.step_pickles import must_ship

        must_ship(decision.step for decision in todo)
    return options.priced(plan)
