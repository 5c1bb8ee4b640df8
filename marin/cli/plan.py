"""``marin plan``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from marin.cli.exits import Exit
from marin.cli.options import (
    EVERY_STEP,
    EXPERIMENT,
    JSON,
    PREFIX,
    SET,
    echo_json,
    ends,
    plan_of,
    region_options,
    scale_option,
)
from marin.plan.cost.egress import Allowance, Regions, must_be_allowed
from marin.plan.cost.plan_cost import StepCost, by_operator, crossing, in_all, plan_costs
from marin.plan.cost.sizes import expected_sizes
from marin.plan.decision import Action
from marin.plan.draws import must_not_starve
from marin.plan.plan import Plan
from marin.report.table import open_console
from marin.steps.scale import Scale
from marin.store.region import Region


@click.command()
@EXPERIMENT
@scale_option()
@PREFIX
@SET
@region_options
@EVERY_STEP
@JSON
@ends
def command(
    experiment: str,
    scale: Scale,
    prefix: str,
    settings: tuple[str, ...],
    region: Region | None,
    store_region: Region | None,
    egress_budget: int | None,
    allow_egress: str,
    every_step: bool,
    as_json: bool,
) -> int:
    """What would run, why, and what it costs. Starts and writes nothing.

    Exit code 3 if a committed output drifted or is damaged, 6 if more bytes would cross regions than --egress-budget,
    so that a run would stop.
    """
    from marin.report.cost_table import print_costs
    from marin.report.terminal import print_plan

    plan = plan_of(experiment, scale, prefix, settings)
    regions = Regions(plan.store.prefix, region, store_region)
    sizes = expected_sizes(plan)
    costs = plan_costs(plan, regions, sizes)
    if as_json:
        echo_json({"experiment": Path(experiment).stem, "scale": scale.value, **described(plan, costs)})
    else:
        console = open_console()
        print_plan(console, plan, every=every_step)
        print_costs(console, plan, costs, regions)
    if plan.having(Action.STOP):
        return Exit.DRIFT
    must_not_starve(plan, sizes)
    must_be_allowed(crossing(costs), Allowance(stated=egress_budget, because=allow_egress), regions)
    return Exit.OK


def described(plan: Plan, costs: Sequence[StepCost]) -> dict[str, Any]:
    """The whole plan as JSON-able data: every step with its reason, drift, notes and cost."""
    cost_of = {cost.decision.step: cost for cost in costs}
    return {
        "issue": plan.experiment.issue,
        "set": plan.experiment.all_changes(),
        "store": plan.store.prefix,
        "costs": {
            **in_all(plan, costs).to_json(),
            "operators": {op: cost.to_json() for op, cost in by_operator(plan, costs).items()},
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
                "same_as": decision.alias_target.identity if decision.alias_target else None,
                "inputs": [dependency.identity for dependency in decision.step.dependencies],
                "output": decision.record.attempt if decision.record else None,
                "bytes": decision.record.bytes if decision.record else None,
                "cost": cost_of[decision.step].to_json() if decision.step in cost_of else None,
            }
            for decision in plan.decisions
        ],
    }
