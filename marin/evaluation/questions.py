"""What a task of lm-evaluation-harness asks a model, in parts that are answered one by one, and the answers put back.

The harness itself builds all questions of a task at once, with the examples that it draws for them, and scores all
answers at once. Between the two they may be cut anywhere: prompts, metrics and their errors are those of the whole.
"""

# pyright: basic
from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

# Before the first import of `tqdm`, which reads it once.
os.environ.setdefault("TQDM_DISABLE", "1")

from lm_eval.api.instance import Instance
from lm_eval.api.model import LM

from marin.errors import InputError
from marin.evaluation.harness_model import HarnessModel
from marin.evaluation.stock_tasks import prepared

# Items: a few minutes of a large model, and enough to share what they begin with. A constant, because which items are
# computed together shows in the last digits of a log-likelihood.
PART = 256


@dataclass(frozen=True)
class Question:
    """kind: what the harness calls it: loglikelihood, loglikelihood_rolling, generate_until. arguments: of that."""

    kind: str
    arguments: tuple[Any, ...]

    @property
    def key(self) -> tuple[str, ...]:
        return self.kind, *map(repr, self.arguments)


@dataclass(frozen=True)
class Answers:
    """To the questions of one part, in their order: a log-likelihood and whether no answer is likelier; the
    log-likelihood of a whole text; a text.
    """

    held: list[tuple[float, bool] | float | str]


def questions_in_parts(loaded: Mapping[str, Any], items: int | None, part: int = PART) -> list[list[Question]]:
    """Every question of a loaded task once, those of one item together. items: of each task only so many, the first.

    Raises InputError for a task whose items the harness cannot make questions of.
    """
    by_item: list[list[Question]] = []
    for one in prepared(loaded):
        try:
            one.build_all_requests(limit=items)
        except AssertionError as error:
            raise InputError(
                f"task {one.task_name}: lm-evaluation-harness cannot ask it with {one.get_config('num_fewshot')} "
                f"examples: {error}; give HarnessTask(…, target=…) if the right answer is no text, or other shots"
            ) from error
        by_item += (
            [Question(instance.request_type, instance.args) for instance in of_item]
            for _, of_item in groupby(one.instances, key=lambda instance: instance.doc_id)
        )
    parts = (by_item[start : start + part] for start in range(0, len(by_item), part))
    once: dict[tuple[str, ...], None] = {}
    return [list(_new([each for of_item in held for each in of_item], once)) for held in parts]


def _new(questions: Iterable[Question], known: dict[tuple[str, ...], None]) -> Iterable[Question]:
    for question in questions:
        if question.key not in known:
            known[question.key] = None
            yield question


def answers_of(model: HarnessModel, questions: Sequence[Question]) -> Answers:
    """Raises what the model raises."""
    held: list[Any] = [None] * len(questions)
    for kind in dict.fromkeys(question.kind for question in questions):
        places = [place for place, question in enumerate(questions) if question.kind == kind]
        asked = [Instance(kind, doc={}, arguments=questions[place].arguments, idx=0) for place in places]  # pyright: ignore[reportArgumentType]
        for place, answer in zip(places, getattr(model, kind)(asked), strict=True):
            held[place] = answer
    return Answers(held)


class AnsweredModel(LM):
    """What a model has answered, for the harness to score. Raises InputError for what it was not asked."""

    def __init__(self, parts: Iterable[Sequence[Question]], answers: Iterable[Answers]) -> None:
        super().__init__()
        self._answers = {
            question.key: answer
            for part, one in zip(parts, answers, strict=True)
            for question, answer in zip(part, one.held, strict=True)
        }

    def loglikelihood(self, requests: list[Instance]) -> list[tuple[float, bool]]:
        return self._replies(requests)

    def loglikelihood_rolling(self, requests: list[Instance]) -> list[float]:
        return self._replies(requests)

    def generate_until(self, requests: list[Instance]) -> list[str]:
        return self._replies(requests)

    def _replies(self, requests: Sequence[Instance]) -> list[Any]:
        found: list[Any] = []
        for request in requests:
            question = Question(request.request_type, request.args)
            if question.key not in self._answers:
                raise InputError(
                    f"task {request.task_name} asks {request.args[0][-80:]!r}, which it did not when it was loaded "
                    "before: its prompts depend on chance that the harness's seeds do not hold; it cannot be evaluated"
                )
            found.append(self._answers[question.key])
        return found
