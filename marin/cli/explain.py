"""``marin explain``."""

from __future__ import annotations

import click

from marin.cli.completions import complete_step
from marin.cli.exits import Exit
from marin.cli.options import EXPERIMENT, JSON, PREFIX, SET, echo_json, ends, plan_of, scale_option
from marin.plan.plan import resolve_names
from marin.report.table import open_console
from marin.steps.scale import Scale


@click.command()
@EXPERIMENT
@click.argument("step", shell_complete=complete_step)
@scale_option()
@PREFIX
@SET
@JSON
@ends
def command(experiment: str, step: str, scale: Scale, prefix: str, settings: tuple[str, ...], as_json: bool) -> int:
    """Everything known about STEP (op/label, op or identity): fields, inputs, code, why it would run."""
    from marin.report.explain import explanation, print_explanation

    plan = plan_of(experiment, scale, prefix, settings)
    steps = sorted(resolve_names([step], plan.experiment.steps()), key=lambda each: each.name)
    explanations = [explanation(plan, each) for each in steps]
    if as_json:
        echo_json(explanations)
        return Exit.OK
    for each in explanations:
        print_explanation(open_console(), each)
    return Exit.OK
