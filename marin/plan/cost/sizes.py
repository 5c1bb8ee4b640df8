"""How large outputs are, or are expected to be: by record, by the step, or as the last one with the same fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from marin.plan.decision import REMADE, Decision
from marin.plan.missing import field_changes, last_outputs
from marin.plan.plan import Plan
from marin.steps.experiment import Experiment
from marin.steps.resources import Size
from marin.steps.step import ExecutorStep
from marin.store.record import Record

TEXT_BYTES_PER_TOKEN = 4  # of English in UTF-8; Llama 3's tokenizer makes fewer tokens of it


@dataclass(frozen=True)
class Sizes:
    """By step; a step that is missing is of unknown size."""

    of: dict[ExecutorStep[Any], Size] = field(default_factory=dict[ExecutorStep[Any], Size])
    there: set[ExecutorStep[Any]] = field(default_factory=set[ExecutorStep[Any]])  # committed, so exact
    guessed: set[ExecutorStep[Any]] = field(
        default_factory=set[ExecutorStep[Any]]
    )  # tokens: by bytes, or an old output

    def tokens(self, step: ExecutorStep[Any]) -> int | None:
        return self.of[step].tokens if step in self.of else None


def expected_sizes(plan: Plan) -> Sizes:
    """Of every output of a plan that anybody can know."""
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
    """By the fields of the steps alone, without a store."""
    sizes = Sizes()
    for step in experiment.steps():
        expected = step.expected_size({each: sizes.of[each] for each in step.dependencies if each in sizes.of})
        if expected is not None:
            sizes.of[step] = expected
    return sizes


def _expected(
    decision: Decision, inputs: Mapping[ExecutorStep[Any], Size], made_before: Mapping[ExecutorStep[Any], Record]
) -> tuple[Size | None, bool]:
    """And whether it is that of an old output."""
    step, last = decision.step, made_before.get(decision.step)
    if decision.record is not None:
        return _size_of(decision.record), True
    expected = step.expected_size(inputs)
    if expected is not None or last is None or len(inputs) < len(step.dependencies) or field_changes(step, last):
        return expected, False
    return _size_of(last), True


def _size_of(record: Record) -> Size:
    """tokens: those of a token store; of documents about so many, by their text."""
    match record.kind:
        case "tokens":
            tokens = record.facts.get("tokens")
        case "documents":
            text = record.facts.get("bytes")
            tokens = text // TEXT_BYTES_PER_TOKEN if isinstance(text, int) else None
        case _:
            tokens = None
    return Size(bytes=record.bytes, tokens=tokens if isinstance(tokens, int) else None)
