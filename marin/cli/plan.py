"""``marin plan``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from marin.cli.options import EXPERIMENT, JSON, PREFIX, echo_json, ends, plan_of, scale_option
from marin.console import open_console
from marin.costs import by_operator, in_all, plan_costs
from marin.decision import Action
from marin.exits import Exit
from marin.plan import Plan
from marin.scale import Scale


@click.command()
@EXPERIMENT
@scale_option()
@PREFIX
@click.option("--every-step", is_flag=True, help="Do not fold like steps into one line.")
@JSON
@ends
def command(experiment: str, scale: Scale, prefix: str, every_step: bool, as_json: bool) -> int:
    """What would run, why, and what it costs. Starts and writes nothing.

    Exit code 3 if a committed output drifted or is damaged, so that a run would stop.
    """
    from marin.cost_table import print_costs
    from marin.terminal import print_plan

    made = plan_of(experiment, scale, prefix)
    if as_json:
        echo_json({"experiment": Path(experiment).stem, "scale": scale.value, **described(made)})
    else:
        console = open_console()
        print_plan(console, made, every=every_step)
        print_costs(console, made)
    return Exit.DRIFT if made.having(Action.STOP) else Exit.OK


def described(plan: Plan) -> dict[str, Any]:
    """The whole plan as JSON-able data: every step with its reason, drift, notes and cost."""
    costs = plan_costs(plan)
    cost_of = {cost.decision.step: cost for cost in costs}
    return {
        "issue": plan.experiment.issue,
        "store": plan.store.prefix,
        "costs": {
            **in_all(plan, costs).to_json(),
            "operators": {op: held.to_json() for op, held in by_operator(plan, costs).items()},
        },
        "steps": [
            {
                "step": decision.step.name,
                "identity": decision.step.identity,
                "action": decision.action,
                "reason": decision.reason,
                "drift": list(decision.drift),
                "notes": list(decision.notes),
                "trust": decision.trust,
                "same_as": decision.same_as.identity if decision.same_as else None,
                "inputs": [dependency.identity for dependency in decision.step.dependencies],
                "output": decision.record.attempt if decision.record else None,
                "bytes": decision.record.bytes if decision.record else None,
                "cost": cost_of[decision.step].to_json() if decision.step in cost_of else None,
            }
            for decision in plan.decisions
        ],
    }
