"""Estimate the cost of a plan before it runs: tokens, operations, chip-hours, bytes read, written and moved.

The size of an output that does not exist yet is, in this order:

- the size of the output that it replaces;
- the size that the step computes from its fields and the sizes of its inputs;
- the size of the last output of its name at this scale with the same fields, if the sizes of its inputs are known.

Otherwise the size is unknown, and the plan says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct, field

from marin.plan.cost.egress import Amount, Egress, Regions, total, total_egress
from marin.plan.decision import REMADE, Action, Decision
from marin.plan.missing import field_changes, last_outputs
from marin.plan.plan import Plan
from marin.steps.experiment import Experiment
from marin.steps.resources import Size, Work, training_cost
from marin.steps.step import ExecutorStep
from marin.store.record import Record

TEXT_BYTES_PER_TOKEN = 4  # of English in UTF-8; Llama 3's tokenizer gives fewer tokens than this


class Sizes(Struct, frozen=True):
    """The size of each step's output. A step that is not listed has an unknown size."""

    of: dict[ExecutorStep[Any], Size] = field(default_factory=dict[ExecutorStep[Any], Size])
    there: set[ExecutorStep[Any]] = field(default_factory=set[ExecutorStep[Any]])  # committed, so exact
    # The tokens of these steps are guessed: from bytes, or from an old output.
    guessed: set[ExecutorStep[Any]] = field(default_factory=set[ExecutorStep[Any]])

    def tokens(self, step: ExecutorStep[Any]) -> int | None:
        return self.of[step].tokens if step in self.of else None

    def amount(self, step: ExecutorStep[Any]) -> Amount:
        if step not in self.of:
            return Amount(unknown=(step.name,))
        return Amount(self.of[step].bytes, 0 if step in self.there else self.of[step].bytes)


def expected_sizes(plan: Plan) -> Sizes:
    """Return the size of every output of a plan, as far as it can be known."""
    made_before = last_outputs([each.step for each in plan.having(*REMADE) if each.record is None], plan.snapshot)
    sizes = Sizes()
    for decision in plan.decisions:
        step = decision.step
        if decision.action not in REMADE:
            record = decision.record or decision.alias_target
            if record is not None:
                sizes.of[step] = _size_of(record)
                sizes.there.add(step)
                if record.kind == "documents":
                    sizes.guessed.add(step)
            continue
        inputs = {each: sizes.of[each] for each in step.dependencies if each in sizes.of}
        expected, is_old = _expected(decision, inputs, made_before)
        if expected is not None:
            sizes.of[step] = expected
            if is_old or sizes.guessed & inputs.keys():
                sizes.guessed.add(step)
    return sizes


def declared_sizes(experiment: Experiment) -> Sizes:
    """Return the sizes that follow from the fields of the steps alone, without a store."""
    sizes = Sizes()
    for step in experiment.steps():
        expected = step.expected_size({each: sizes.of[each] for each in step.dependencies if each in sizes.of})
        if expected is not None:
            sizes.of[step] = expected
    return sizes


def _expected(
    decision: Decision, inputs: Mapping[ExecutorStep[Any], Size], made_before: Mapping[ExecutorStep[Any], Record]
) -> tuple[Size | None, bool]:
    """Return the expected size of an output, and whether an old output's size was taken."""
    step, last = decision.step, made_before.get(decision.step)
    if decision.record is not None:
        return _size_of(decision.record), True
    expected = step.expected_size(inputs)
    if expected is not None or last is None or len(inputs) < len(step.dependencies) or field_changes(step, last):
        return expected, False
    return _size_of(last), True


def _size_of(record: Record) -> Size:
    """Return the size of a committed output. The tokens of documents are estimated from the size of their text."""
    documents = record.facts.get("documents") if record.kind == "documents" else None
    match record.kind:
        case "tokens":
            tokens = record.facts.get("tokens")
        case "documents":
            text = record.facts.get("bytes")
            tokens = text // TEXT_BYTES_PER_TOKEN if isinstance(text, int) else None
        case _:
            tokens = None
    return Size(
        bytes=record.bytes,
        tokens=tokens if isinstance(tokens, int) else None,
        documents=documents if isinstance(documents, int) else None,
    )


class Training(Struct, frozen=True, kw_only=True):
    work: Work
    accelerator: str
    chips: int
    chip_hours: float | None  # None without an accelerator


class StepCost(Struct, frozen=True, kw_only=True):
    """The cost of a step that will run, or that runs if an input's bytes change (then decision.action is RECHECK)."""

    decision: Decision
    reads: Amount  # all inputs; a step that uses a part of each input reads less
    writes: Amount
    egress: Egress | None = None  # bytes that cross regions, with outside data; None if nobody says where the step runs
    training: Training | None = None

    @property
    def name(self) -> str:
        return self.decision.step.name


class Sum(Struct):
    """The costs of several steps. work: None if no step trains. chip_hours: None if no training has an accelerator."""

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
    """Return the cost of every step that the plan runs or may run, in plan order. Raises UnknownRegion.

    sizes: ``expected_sizes(plan)``, if the caller has them already.
    """
    known = sizes or expected_sizes(plan)
    costs: list[StepCost] = []
    for decision in plan.having(*REMADE):
        step = decision.step
        published = step.producer is not None and plan.of(step.producer).action in REMADE
        inputs = () if published else step.dependencies  # its training run writes it
        reads, writes = total(known.amount(each) for each in inputs), known.amount(step)
        writer = step.producer if published and step.producer is not None else step
        egress = None if regions is None else regions.egress(writer, reads, writes, outside=not published)
        costs.append(StepCost(decision=decision, reads=reads, writes=writes, egress=egress, training=training_of(step)))
    return costs


def training_of(step: ExecutorStep[Any]) -> Training | None:
    """Return the training work of a step from its fields alone; None for a step that does not train."""
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
    """Return one sum for each operator of the plan, in the order in which operators first appear."""
    sums: dict[str, Sum] = {}
    for decision in plan.decisions:
        sums.setdefault(decision.step.op, Sum()).actions[decision.action] += 1
    for cost in costs:
        sums[cost.decision.step.op].costs.append(cost)
    return sums


def in_all(plan: Plan, costs: Iterable[StepCost]) -> Sum:
    return Sum(Counter(decision.action for decision in plan.decisions), list(costs))
