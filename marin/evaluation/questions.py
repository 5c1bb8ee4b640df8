"""Splits the questions of an lm-evaluation-harness task into parts, and puts the answers together again.

The harness builds all questions of a task at once, with the examples that it draws, and scores all answers at once.
In between marin may cut the questions anywhere: prompts, metrics and standard errors do not depend on the parts.
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

# Items of a part: a few minutes of a large model, and enough items to share prefixes. The number is constant, because
# the items that are computed together change the last digits of a log-likelihood.
PART = 256


@dataclass(frozen=True)
class Question:
    """A question of the harness to a model.

    kind: the harness's request: loglikelihood, loglikelihood_rolling, generate_until. arguments: the request's."""

    kind: str
    arguments: tuple[Any, ...]

    @property
    def key(self) -> tuple[str, ...]:
        return self.kind, *map(repr, self.arguments)


@dataclass(frozen=True)
class Answers:
    """The answers to the questions of one part, in their order.

    By the question's kind: a log-likelihood and whether every token is the likeliest; the log-likelihood of a whole
    text; a text.
    """

    held: list[tuple[float, bool] | float | str]


def questions_in_parts(loaded: Mapping[str, Any], items: int | None, part: int = PART) -> list[list[Question]]:
    """Return every question of a loaded task once, in parts; the questions of one item stay in one part.

    items: the number of items of each task to ask, the first ones; None for all. Raises InputError if the harness
    cannot make questions from the items.
    """
    by_item: list[list[Question]] = []
    for one in prepared(loaded):
        try:
            one.build_all_requests(limit=items)
        except AssertionError as error:
            raise InputError(
                f"task {one.task_name}: lm-evaluation-harness cannot ask it with {one.get_config('num_fewshot')} "
                f"examples: {error}; give other shots, or HarnessTask(…, target=…) if the right answer is no text"
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
    """Return the model's answers to these questions. Raises the model's errors."""
    held: list[Any] = [None] * len(questions)
    for kind in dict.fromkeys(question.kind for question in questions):
        places = [place for place, question in enumerate(questions) if question.kind == kind]
        asked = [Instance(kind, doc={}, arguments=questions[place].arguments, idx=0) for place in places]  # pyright: ignore[reportArgumentType]
        for place, answer in zip(places, getattr(model, kind)(asked), strict=True):
            held[place] = answer
    return Answers(held)


class AnsweredModel(LM):
    """A harness model that replies with recorded answers. Raises InputError for a question without an answer."""

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
                    f"task {request.task_name} asks {request.args[0][-80:]!r}, which it did not ask when it was "
                    "first loaded: its prompts use randomness without the harness's seeds; marin cannot evaluate it"
                )
            found.append(self._answers[question.key])
        return found
