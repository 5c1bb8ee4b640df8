"""What a plan costs before it runs: tokens, floating-point operations, chip-hours, bytes read, written and moved.

How large an output will be that is not there yet: as large as the output that it replaces; else what the step says from
its fields and the sizes of what it reads; else as large as the last output of its name at this scale with the same
fields, if the sizes of what it reads are known. Else nobody knows, and the plan says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from marin.plan.cost.amount import Amount, total
from marin.plan.cost.egress import Egress, Regions, total_egress
from marin.plan.cost.sizes import Sizes, expected_sizes
from marin.plan.decision import REMADE, Action, Decision
from marin.plan.plan import Plan
from marin.steps.resources import Size, Work, training_cost
from marin.steps.step import ExecutorStep


@dataclass(frozen=True, kw_only=True)
class Training:
    work: Work
    accelerator: str
    chips: int
    chip_hours: float | None  # None without an accelerator


@dataclass(frozen=True, kw_only=True)
class StepCost:
    """Of one step that will run, or will if an input's bytes change (then decision.action is RECHECK)."""

    decision: Decision
    reads: Amount  # all of its inputs; a step that looks at a part of them reads less
    writes: Amount
    egress: Egress | None = None  # what crosses regions, outside data included; None where nobody says where it runs
    training: Training | None = None

    @property
    def name(self) -> str:
        return self.decision.step.name


@dataclass
class Sum:
    """Costs of several steps. work: None where none trains; chip_hours: where none has an accelerator."""

    actions: Counter[Action] = field(default_factory=Counter[Action])
    costs: list[StepCost] = field(default_factory=list[StepCost])

    @property
    def reads(self) -> Amount:
        return total(cost.reads for cost in self.costs)

    @property
    def writes(self) -> Amount:
        return total(cost.writes for cost in self.costs)

    @property
    def egress(self) -> Egress | None:
        crossing = [cost.egress for cost in self.costs if cost.egress is not None]
        return total_egress(crossing) if crossing else None

    @property
    def work(self) -> Work | None:
        every = [cost.training.work for cost in self.costs if cost.training is not None]
        if not every:
            return None
        steps, tokens = sum(each.steps for each in every), sum(each.tokens for each in every)
        return Work(steps=steps, tokens=tokens, flops=sum(each.flops for each in every))

    @property
    def chip_hours(self) -> float | None:
        trainings = [cost.training for cost in self.costs if cost.training is not None]
        known = [each.chip_hours for each in trainings if each.chip_hours is not None]
        return sum(known) if known else None


def plan_costs(plan: Plan, regions: Regions | None = None, sizes: Sizes | None = None) -> list[StepCost]:
    """Costs of everything that the plan runs or may run, in plan order. Raises UnknownRegion.

    sizes: ``expected_sizes(plan)``, for whoever has them already.
    """
    known = sizes or expected_sizes(plan)
    sizes_of, there = known.of, known.there
    costs: list[StepCost] = []
    for decision in plan.having(*REMADE):
        step = decision.step
        published = step.producer is not None and plan.of(step.producer).action in REMADE
        inputs = () if published else step.dependencies  # its training run writes it
        reads, writes = total(_amount(each, sizes_of, there) for each in inputs), _amount(step, sizes_of, there)
        writer = step.producer if published and step.producer is not None else step
        egress = None if regions is None else regions.egress(writer, reads, writes, outside=not published)
        costs.append(StepCost(decision=decision, reads=reads, writes=writes, egress=egress, training=training_of(step)))
    return costs


def _amount(
    step: ExecutorStep[Any], sizes: Mapping[ExecutorStep[Any], Size], there: Container[ExecutorStep[Any]]
) -> Amount:
    if step not in sizes:
        return Amount(unknown=(step.name,))
    return Amount(sizes[step].bytes, 0 if step in there else sizes[step].bytes)


def training_of(step: ExecutorStep[Any]) -> Training | None:
    """What a step trains, from its fields alone; None for one that does not."""
    work, accelerator = step.work(), step.resources.accelerator
    if work is None:
        return None
    return Training(
        work=work,
        accelerator=str(accelerator) if accelerator else "cpu",
        chips=accelerator.chips if accelerator else 0,
        chip_hours=training_cost(work.flops, accelerator) if accelerator else None,
    )


def by_operator(plan: Plan, costs: Iterable[StepCost]) -> dict[str, Sum]:
    """One sum for each operator of the plan, in the order in which they first appear."""
    sums: dict[str, Sum] = {}
    for decision in plan.decisions:
        sums.setdefault(decision.step.op, Sum()).actions[decision.action] += 1
    for cost in costs:
        sums[cost.decision.step.op].costs.append(cost)
    return sums


def in_all(plan: Plan, costs: Iterable[StepCost]) -> Sum:
    return Sum(Counter(decision.action for decision in plan.decisions), list(costs))


def crossing(costs: Iterable[StepCost]) -> list[tuple[str, Egress]]:
    """What each step moves between regions, by its name, as far as its place is known."""
    may = {Action.RECHECK: " (if an input changes)"}
    return [(f"{cost.name}{may.get(cost.decision.action, '')}", cost.egress) for cost in costs if cost.egress]
