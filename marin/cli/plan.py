"""``marin plan``."""

from __future__ import annotations

from typing import Any

import click
from rich.console import Console

from marin.cli.options import EXPERIMENT, JSON, PREFIX, echo_json, ends, plan_of, scale_option
from marin.exits import Exit
from marin.plan import Action, Decision
from marin.scale import Scale


@click.command()
@EXPERIMENT
@scale_option()
@PREFIX
@JSON
@ends
def command(experiment: str, scale: Scale, prefix: str, as_json: bool) -> int:
    """What would run and why, one line a step; exit code 3 if something drifted."""
    from marin.costs import print_costs
    from marin.terminal import print_plan

    made = plan_of(experiment, scale, prefix)
    if as_json:
        echo_json([_as_json(decision) for decision in made.decisions])
    else:
        print_plan(Console(), made, every=True)
        print_costs(Console(), made)
    return Exit.DRIFT if made.having(Action.STOP) else Exit.OK


def _as_json(decision: Decision) -> dict[str, Any]:
    return {
        "step": decision.step.name,
        "identity": decision.step.identity,
        "action": decision.action,
        "reason": decision.reason,
        "drift": list(decision.drift),
        "notes": list(decision.notes),
        "output": decision.record.attempt if decision.record else None,
    }
