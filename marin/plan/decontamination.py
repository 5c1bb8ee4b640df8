"""Which training data reached a tokenizer without a decontamination step: read off the graph, before any byte."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from marin.data.artifacts import Documents, Tokens
from marin.data.mixture import Stages, source_name
from marin.plan.pinned_kind import kinds_read
from marin.steps.step import ExecutorStep

DECONTAMINATE = "decontaminate"  # the operator's name
NAMED = 12  # sources that a sentence names


@dataclass(frozen=True)
class Undecontaminated:
    """What was trained on as it came."""

    runs: Mapping[str, list[str]]  # labels of the runs that draw from a source, by the source's name
    sources: int  # that were trained on, clean ones included

    def sentence(self) -> str:
        """For a page; "" if nothing is trained on."""
        if not self.sources:
            return ""
        if not self.runs:
            return f"All {self.sources} sources that were trained on passed through decontamination."
        named = "; ".join(f"{name} ({', '.join(labels)})" for name, labels in list(self.runs.items())[:NAMED])
        more = f"; and {len(self.runs) - NAMED} more" if len(self.runs) > NAMED else ""
        reached = (
            "It reached the tokenizer as it was" if len(self.runs) == 1 else "They reached the tokenizer as they were"
        )
        rest = self.sources - len(self.runs)
        others = f"the other {rest} sources that were trained on" if rest else "no source"
        return f"Not decontaminated: {named}{more}. {reached}; {others} passed through decontamination."


def undecontaminated(trainings: Iterable[ExecutorStep[Any]]) -> Undecontaminated:
    runs: dict[str, list[str]] = {}
    known: dict[ExecutorStep[Any], bool] = {}
    sources: set[ExecutorStep[Any]] = set()
    for training in trainings:
        stages = [cast("Stages[Any]", field) for field in vars(training).values() if isinstance(field, Stages)]
        drawn: set[ExecutorStep[Any]] = {source for each in stages for source in each.sources}
        sources |= drawn
        for name in sorted({source_name(source) for source in drawn if not _is_clean(source, known)}):
            runs.setdefault(name, []).append(training.label)
    return Undecontaminated(dict(sorted(runs.items())), len(sources))


def _is_clean(step: ExecutorStep[Any], known: dict[ExecutorStep[Any], bool]) -> bool:
    """Does every way from raw text to this step pass a decontamination? The tokenizer's own training text is no way."""
    if step not in known:
        if step.op == DECONTAMINATE:
            known[step] = True
        else:
            text = [each for each in step.dependencies if _is_text(step, each)]
            known[step] = bool(text) and all(_is_clean(each, known) for each in text)
    return known[step]


def _is_text(reader: ExecutorStep[Any], step: ExecutorStep[Any]) -> bool:
    """Only the store knows what a pin holds, so the field that it is in has to say, or it is taken for text."""
    if step.pin is not None:
        kinds = kinds_read(reader, step)
        return not kinds or any(issubclass(kind, Documents | Tokens) for kind in kinds)
    made = type(step).__marin_makes__()
    return isinstance(made, type) and issubclass(made, Documents | Tokens)
