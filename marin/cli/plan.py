"""``marin plan``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from marin.cli.completions import complete_step
from marin.cli.exits import Exit
from marin.cli.options import EXPERIMENT, JSON, PlanOptions, echo_json
from marin.cli.parameters import all_of, argument, command_line, flag
from marin.plan.cost.plan_cost import StepCost, Sum, by_operator, declared_sizes, expected_sizes, in_all
from marin.plan.plan import Plan, resolve_names
from marin.report.table import open_console, say
from marin.store.numbers import counted


@command_line()
def command(
    experiment: str = EXPERIMENT,
    step: str | None = argument(required=False, metavar="[STEP]", complete=complete_step),
    options: PlanOptions = all_of(PlanOptions),
    phases: bool = flag(
        "--phases", "Show the trainings instead: learning rate, batch, tokens, data and machines, by phase."
    ),
    data: bool = flag(
        "--data", "Also show how much each training draws of each source; refuse mixtures that the run would refuse."
    ),
    as_json: bool = JSON,
) -> int:
    """Show the steps that would run, why, and their cost. Starts and writes nothing.

    With STEP (op/label, op or identity) it shows everything known about one step: fields, inputs, code, and changes.
    With --phases it shows the trainings. Without --prefix it then reads only the file, no store and no network.

    The exit code tells if a run would stop: 3 if a committed output drifted or is damaged, 6 if more bytes would cross
    regions than --egress-budget.
    """
    if step is not None and (phases or data):
        raise click.UsageError("--phases shows all trainings of an experiment; leave out STEP")
    if phases or data:
        given = click.get_current_context().get_parameter_source("prefix") is not ParameterSource.DEFAULT
        return _show_phases(experiment, options, count=given, data=data, as_json=as_json)
    plan = options.plan(experiment, by_policy=True)
    if step is not None:
        from marin.report.explanation import explanation, print_explanation

        steps = sorted(resolve_names([step], plan.experiment.steps()), key=lambda each: each.name)
        explanations = [explanation(plan, each) for each in steps]
        if as_json:
            echo_json(explanations)
        for each in explanations if not as_json else ():
            print_explanation(open_console(), each)
        return Exit.OK
    priced = options.priced(plan)
    if as_json:
        echo_json({"experiment": Path(experiment).stem, "scale": options.scale, **described(plan, priced.costs)})
    else:
        priced.show(open_console(), every=options.every_step)
    return priced.would_run()


def _show_phases(experiment: str, options: PlanOptions, *, count: bool, data: bool, as_json: bool) -> int:
    """Print the trainings, and return the exit code. count: count tokens in the store, else take declared sizes."""
    from marin.report.phases import phases_of, print_draws, print_phases
    from marin.report.trainings import check_draws

    if count:
        plan = options.plan(experiment)
        read, sizes = plan.experiment, expected_sizes(plan)
    else:
        read = options.experiment(experiment)
        sizes = declared_sizes(read)
    phases = phases_of(read, sizes)
    if as_json:
        shown = phases if data else [replace(phase, draws=None) for phase in phases]
        echo_json({"scale": options.scale, "phases": shown})
    else:
        console = open_console()
        say(console, f"{experiment} · {options.scale.value}: {counted(len(phases), 'training')}", "bold")
        print_phases(console, phases)
        if data:
            print_draws(console, phases)
    if data:
        for step in read.steps():
            check_draws(step, sizes)
    return Exit.OK


def described(plan: Plan, costs: Sequence[StepCost]) -> dict[str, Any]:
    """Return the whole plan for JSON: every step with its reason, drift, notes and cost."""
    cost_of = {cost.decision.step: cost for cost in costs}
    steps: list[dict[str, Any]] = []
    for decision in plan.decisions:
        step, record, alias = decision.step, decision.record, decision.alias_target
        about = {name: getattr(decision, name) for name in ("action", "reason", "drift", "notes", "trust")}
        cost = cost_of.get(step)
        more = {
            "same_as": alias and alias.identity,
            "inputs": [dependency.identity for dependency in step.dependencies],
            "output": record and record.attempt,
            "bytes": record and record.bytes,
            "cost": cost and {**_moved(cost), "training": cost.training},
        }
        steps.append({"step": step.name, "identity": step.identity, **about, **more})
    return {
        "issue": plan.experiment.issue,
        "set": plan.experiment.all_changes(),
        "store": plan.store.prefix,
        "costs": {
            **_summed(in_all(plan, costs)),
            "operators": {op: _summed(cost) for op, cost in by_operator(plan, costs).items()},
        },
        "steps": steps,
    }


def _summed(cost: Sum) -> dict[str, Any]:
    return {"actions": cost.actions, **_moved(cost), "training": cost.work, "chip_hours": cost.chip_hours}


def _moved(cost: StepCost | Sum) -> dict[str, Any]:
    return {"reads": cost.reads, "writes": cost.writes, "egress": cost.egress and cost.egress.to_json()}
