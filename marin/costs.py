"""What a plan costs before it runs: tokens, floating-point operations, chip-hours."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from marin.cost import MFU, training_cost, write_tokens
from marin.plan import Action, Decision, Plan
from marin.resources import Work


@dataclass(frozen=True)
class Cost:
    """One training step of a plan. chip_hours: None without an accelerator."""

    name: str
    planned: bool
    work: Work
    accelerator: str
    chips: int
    chip_hours: float | None


def training_costs(plan: Plan) -> list[Cost]:
    """Every training step, whether it will run (planned) or is committed already."""
    costs: list[Cost] = []
    for decision in plan.decisions:
        work = decision.step.work()
        if work is not None:
            costs.append(_cost(decision, work))
    return costs


def _cost(decision: Decision, work: Work) -> Cost:
    accelerator = decision.step.resources.accelerator
    hours = training_cost(work.flops, accelerator) if accelerator else None
    return Cost(
        name=decision.step.name,
        planned=decision.action in (Action.RUN, Action.RECHECK),
        work=work,
        accelerator=accelerator.name if accelerator else "cpu",
        chips=accelerator.chips if accelerator else 0,
        chip_hours=hours,
    )


def print_costs(console: Console, plan: Plan) -> None:
    """One line per training step that would run, and their sum; nothing when none would."""
    costs = [cost for cost in training_costs(plan) if cost.planned]
    if not costs:
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("training")
    for heading in ("steps", "tokens", "FLOPs", "on", "chip-hours", "days"):
        table.add_column(heading, justify="right")
    for cost in costs:
        hours, days = "", ""
        if cost.chip_hours is not None:
            hours, days = f"{cost.chip_hours:,.0f}", f"{cost.chip_hours / cost.chips / 24:.1f}"
        flops = f"{cost.work.flops:.2e}"
        table.add_row(
            cost.name,
            f"{cost.work.steps:,}",
            write_tokens(cost.work.tokens).split()[0],
            flops,
            cost.accelerator,
            hours,
            days,
        )
    if len(costs) > 1:
        every = [cost.chip_hours for cost in costs if cost.chip_hours is not None]
        table.add_row(
            "[bold]in all[/]",
            f"{sum(cost.work.steps for cost in costs):,}",
            write_tokens(sum(cost.work.tokens for cost in costs)).split()[0],
            f"{sum(cost.work.flops for cost in costs):.2e}",
            "",
            f"{sum(every):,.0f}" if every else "",
            "",
        )
    console.print(table)
    if any(cost.chip_hours for cost in costs):
        console.print(f"chip-hours at {MFU:.0%} of peak bf16 FLOP/s", style="dim", highlight=False)
