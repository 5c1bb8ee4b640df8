"""The costs of a plan as a table: one line an operator, and below it one for each training run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

from marin.plan.cost.amount import Amount
from marin.plan.cost.egress import Regions
from marin.plan.cost.plan_cost import StepCost, Sum, by_operator, in_all
from marin.plan.decision import Action
from marin.plan.plan import Plan
from marin.report.table import columns_of, print_table
from marin.steps.resources import MFU
from marin.steps.scale import Scale
from marin.store.numbers import counted, write_bytes, write_count

COLUMNS = columns_of(
    "cost | >steps | >reads | >writes | >egress | >trains ?3 | >tokens ?1 | >FLOPs ?2 | >on ?4 | >chip-hours | >days ?5"
)
MOST_RUNS = 12  # training runs with a line of their own


def print_costs(console: Console, plan: Plan, costs: Sequence[StepCost], regions: Regions) -> None:
    """Nothing when nothing would run."""
    if not costs:
        return
    sums = {
        op: cost for op, cost in by_operator(plan, costs).items() if cost.reads.bytes or cost.writes.bytes or cost.work
    }
    rows: list[list[Text | str]] = []
    for op, cost in sums.items():
        rows.append(_row(Text(op), cost))
        trainings = [_training(each) for each in costs if each.training and each.decision.step.op == op]
        rows += trainings if len(trainings) <= MOST_RUNS else []
    whole = in_all(plan, costs)
    if sums:
        rows.append(_row(Text("in all", style="bold"), whole))
    small = plan.snapshot.scale == Scale.REHEARSAL.value and not _is_remote(regions) and whole.egress is None
    lines = [*_legend(whole, unknown_matters=not small), *_about_egress(costs, whole, regions)]
    if rows or lines:
        console.print()
    if rows:
        print_table(console, COLUMNS, rows)
    for line in lines:
        console.print(Text(line, style="dim"))


def _row(name: Text, cost: Sum) -> list[Text | str]:
    run, maybe = cost.actions.get(Action.RUN, 0), cost.actions.get(Action.RECHECK, 0)
    steps = f"{run:,}" if not maybe else f"{run:,}–{run + maybe:,}"
    trained = ["", "", "", "", "", ""]
    if (work := cost.work) is not None:
        hours = "" if cost.chip_hours is None else f"{cost.chip_hours:,.0f}"
        trained = [f"{work.steps:,}", write_count(work.tokens), f"{work.flops:.2e}", "", hours, ""]
    egress = "" if cost.egress is None else write_amount(cost.egress.amount)
    return [name, steps, write_amount(cost.reads), write_amount(cost.writes), egress, *trained]


def _training(cost: StepCost) -> list[Text | str]:
    training = cost.training
    assert training is not None
    hours = days = ""
    if training.chip_hours is not None:
        hours, days = f"{training.chip_hours:,.0f}", f"{training.chip_hours / training.chips / 24:.1f}"
    name, work = Text(f"  {cost.decision.step.label or cost.name}", style="dim"), training.work
    trained = [f"{work.steps:,}", write_count(work.tokens), f"{work.flops:.2e}", training.accelerator, hours, days]
    return [name, "", "", "", "", *trained]


def write_amount(amount: Amount) -> str:
    """``1.2 GiB``; ``~1.2 GiB`` with an estimate in it; ``≥ 1.2 GiB`` with an unknown one beside it; "" for nothing."""
    if not amount.bytes:
        return ""
    return ("≥ " if amount.unknown else "") + ("~" if amount.estimated else "") + write_bytes(amount.bytes)


def _is_remote(regions: Regions) -> bool:
    return "://" in regions.prefix and not regions.prefix.startswith("memory://")


def _legend(whole: Sum, *, unknown_matters: bool) -> Iterator[str]:
    """unknown_matters: not in a rehearsal on this machine, whose outputs are small whatever they are."""
    both = whole.reads + whole.writes
    if both.estimated:
        yield "~ expected: by fields and published counts, or as large as the last output with the same fields"
    if both.unknown and unknown_matters:
        yield (
            f"{'≥ ' if both.bytes else ''}how large {counted(len(both.unknown), 'output')} will be is not known: "
            "neither the fields nor an earlier output with the same fields at this scale tells"
        )
    if Action.RECHECK in whole.actions:
        yield "1–3 steps: some run only if an input gets other bytes; the rest of a line counts them all"
    if whole.chip_hours:
        yield f"chip-hours at {MFU:.0%} of peak bf16 FLOP/s"


def _about_egress(costs: Sequence[StepCost], whole: Sum, regions: Regions) -> list[str]:
    """What crosses regions, or why nobody knows; nothing for a store on the machine itself."""
    nowhere = sum(cost.egress is None for cost in costs)
    asks = _is_remote(regions)
    if nowhere == len(costs):
        return ["region unknown: egress not checked (--region says where steps run)"] if asks else []
    lines = [f"egress {line}" for line in whole.egress.describe()] if whole.egress is not None else []
    if nowhere and asks:
        lines.append(f"egress of {nowhere} of {len(costs)} steps is not checked: nobody says where they run (--region)")
    elif not nowhere and not lines and (store := regions.store()) is not None:
        lines.append(f"no egress: steps run where the store is, in {store}")
    return lines + [f"egress not checked: {why.splitlines()[0]}" for why in regions.unchecked.values()]
