"""What a plan costs before it runs: tokens, floating-point operations, chip-hours."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from marin.plan import Action, Decision, Plan
from marin.resources import Work

MFU = 0.40  # share of peak FLOP/s that training reaches; dense 8B-32B runs report 0.35-0.55, so this errs to dear
SECONDS_PER_HOUR = 3600


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
    hours = work.flops / (MFU * accelerator.peak_flops * SECONDS_PER_HOUR) if accelerator else None
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
        table.add_row(cost.name, f"{cost.work.steps:,}", tokens(cost.work.tokens), flops, cost.accelerator, hours, days)
    if len(costs) > 1:
        every = [cost.chip_hours for cost in costs if cost.chip_hours is not None]
        table.add_row(
            "[bold]in all[/]",
            f"{sum(cost.work.steps for cost in costs):,}",
            tokens(sum(cost.work.tokens for cost in costs)),
            f"{sum(cost.work.flops for cost in costs):.2e}",
            "",
            f"{sum(every):,.0f}" if every else "",
            "",
        )
    console.print(table)
    if any(cost.chip_hours for cost in costs):
        console.print(f"chip-hours at {MFU:.0%} of peak bf16 FLOP/s", style="dim", highlight=False)


def tokens(count: int) -> str:
    """2.679T, 458.8k."""
    for scale, suffix in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if count >= scale:
            return f"{count / scale:.3f}{suffix}" if suffix == "T" else f"{count / scale:.1f}{suffix}"
    return str(count)
