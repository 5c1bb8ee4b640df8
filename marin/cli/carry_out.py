"""Carry out the plan of an experiment: run what must run, print the results, write the page."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from marin.cli.exits import Exit
from marin.cli.priced import PricedPlan
from marin.cli.run_options import RunOptions
from marin.errors import BadPrefix, StalePlan, StoreFull
from marin.executor.run_results import Run, Status
from marin.plan.acceptance import accept_planned
from marin.plan.decision import Action
from marin.report.closing import print_closing, print_next, print_results
from marin.report.table import say

if TYPE_CHECKING:
    from marin.executor.backends.backend import Backend


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
    plan = priced.plan
    if plan.having(Action.RUN, Action.RECHECK, Action.ALIAS):
        from marin.cli.execute import execute  # backends and scheduler

        close = functools.partial(_close, console, source=source, options=options)
        return execute(priced, source, options, console, backend, close)
    priced.must_run()
    accept_planned(plan)
    run = Run(plan)
    run.begin()
    return run


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
