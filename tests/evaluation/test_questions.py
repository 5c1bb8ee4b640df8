"""Stock tasks of lm-evaluation-harness, their questions cut into parts: whatever the cut, the same results."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from marin.errors import InputError
from marin.evaluation.harness_model import HarnessModel
from marin.evaluation.harness_task import HarnessTask
from marin.evaluation.language_model import Scored
from marin.evaluation.prefix_tree import Ids, Wanted
from marin.evaluation.questions import AnsweredModel, Answers, answers_of, questions_in_parts
from marin.evaluation.stock_tasks import Answered, evaluate_task, loaded_task, numbers_of
from marin.store.files.directory import Directory
from tests.evaluation.models import Bytes
from tests.operators.stock_data import ARC, FILES, GSM8K, arc, dataset


class Odd:
    """A LanguageModel whose answers depend on all that it is asked, and on nothing else."""

    length = 1 << 20

    def continuations(self, wanted: Sequence[Wanted]) -> list[Scored]:
        return [
            Scored(-np.log(2.0 + (one.tokens[one.first :] * one.tokens.sum()) % 97), one.tokens[one.first :] % 2 == 0)
            for one in wanted
        ]

    def generate(
        self, prompts: Sequence[Ids], most: int, end: int, finished: Callable[[Sequence[int]], bool]
    ) -> list[list[int]]:
        return [list(f" it is\n#### {prompt.sum() % 10}".encode()) for prompt in prompts]


MODEL = HarnessModel(Odd(), Bytes())


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("data")
    for repo, files in FILES.items():
        for name, content in files.items():
            (root / repo / name).parent.mkdir(parents=True, exist_ok=True)
            (root / repo / name).write_bytes(content)
    return root


def in_parts(task: HarnessTask, data: Path, part: int, items: int | None = None) -> tuple[list[int], Answered]:
    """Return the number of questions in each part, and the harness's result for answers that went through JSON."""
    with loaded_task(task, data / task.dataset) as loaded:
        parts = questions_in_parts(loaded, items, part)
    answers = msgspec.json.encode([answers_of(MODEL, questions) for questions in parts])
    with loaded_task(task, data / task.dataset) as loaded:
        replies = AnsweredModel(parts, msgspec.json.decode(answers, type=list[Answers]))
        return [len(each) for each in parts], evaluate_task(replies, task, loaded, items)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("task", [GSM8K, ARC], ids=lambda task: task.name)
def test_parts_of_any_size_give_what_the_harness_gives_of_the_whole(task: HarnessTask, data: Path) -> None:
    with loaded_task(task, data / task.dataset) as loaded:
        whole = evaluate_task(MODEL, task, loaded, None)
    each: dict[str, Any] = {"gsm8k": (4, 1), "arc_easy": (6, 4)}
    items, questions = each[task.name]
    for part, sizes in ((items, [items]), (4, [4, items - 4]), (1, [1] * items)):
        found, answered = in_parts(task, data, part)
        assert found == [size * questions for size in sizes if size]
        assert answered.samples == whole.samples
        assert numbers_of(task, answered) == numbers_of(task, whole)
    _, few = in_parts(task, data, 2, items=3)
    assert few.samples[task.name] == [one for one in whole.samples[task.name] if one["doc_id"] < 3]


@pytest.mark.filterwarnings("ignore")
def test_what_was_not_answered_is_not_made_up(data: Path) -> None:
    with loaded_task(ARC, data / ARC.dataset) as loaded:
        *asked, _ = questions_in_parts(loaded, None, 2)
    with (
        loaded_task(ARC, data / ARC.dataset) as loaded,
        pytest.raises(InputError, match=r"task arc_easy asks '.*number 4\?\\nAnswer:', which it did not"),
    ):
        evaluate_task(AnsweredModel(asked, [answers_of(MODEL, part) for part in asked]), ARC, loaded, None)


@pytest.mark.filterwarnings("ignore")
def test_what_several_items_ask_alike_is_asked_once(tmp_path: Path) -> None:
    for name, content in dataset("ARC-Easy", {"test": arc(2) * 3, "validation": arc(1), "train": arc(1)}).items():
        Directory(str(tmp_path)).write_bytes(name, content)
    with loaded_task(dataclasses.replace(ARC, shots=0), tmp_path) as loaded:
        assert [len(part) for part in questions_in_parts(loaded, None, 2)] == [8, 0, 0]
