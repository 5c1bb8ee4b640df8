"""The suites of the retrospectives: tasks that the harness has, on the datasets that these tasks read."""

import json
import math
import os
from dataclasses import replace
from pathlib import Path

import pytest

from experiments import suites
from marin.errors import BadField, InputError
from marin.evaluation.harness_task import HarnessTask
from marin.evaluation.published_models import TASKS_8B, TASKS_32B
from marin.evaluation.results import read_results
from marin.store.files.directory import Directory
from operators.download import HuggingFace
from tests.experiments.suite_data import settings_of, write_data
from tests.operators.running import Given
from tests.operators.test_train import PRETRAIN

SUITES = {"base_8b": suites.BASE_8B, "base_32b": suites.BASE_32B, "olmes": suites.OLMES}
TASKS = sorted({task for suite in SUITES.values() for task in suite.values()}, key=repr)


@pytest.mark.parametrize("task", TASKS, ids=lambda task: f"{task.name}-{task.shots}{'-other' * bool(task.prompt)}")
def test_the_harness_has_the_task_and_it_reads_that_dataset(task: HarnessTask) -> None:
    held = settings_of(task)
    names = [found.get(kind) for found in held for kind in ("task", "group")]
    assert task.name in names
    assert task.dataset in {found.get("dataset_path") for found in held}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("task", TASKS, ids=lambda task: f"{task.name}-{task.shots}{'-other' * bool(task.prompt)}")
def test_every_task_is_asked_and_scored_from_its_dataset_as_it_is_on_the_hub(
    task: HarnessTask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from marin.evaluation.questions import AnsweredModel, Answers, questions_in_parts
    from marin.evaluation.stock_tasks import choice_results, evaluate_task, loaded_task, numbers_of, write_answered

    def forked() -> int:
        raise AssertionError("a process with threads of Ray or JAX was forked, which may never end")

    monkeypatch.setattr(os, "fork", forked)
    write_data(task, tmp_path)
    with loaded_task(task, tmp_path) as loaded:
        parts = questions_in_parts(loaded, 2)
    replies = {"loglikelihood": (-1.0, True), "loglikelihood_rolling": -1.0, "generate_until": "    return 1\n"}
    answers = [Answers([replies[question.kind] for question in part]) for part in parts]
    out = Directory(str(tmp_path / "out"))
    with loaded_task(task, tmp_path) as loaded:  # asks the same questions again
        answered = evaluate_task(AnsweredModel(parts, answers), task, loaded, 2)
        numbers = numbers_of(task, answered)
        write_answered(out / "task", task, answered, {})
        chosen = choice_results("task", loaded, answered)
    assert numbers.items == 2 * len(loaded["tasks"])
    assert numbers.metrics
    assert all(math.isfinite(held) for held in numbers.metrics.values())
    metrics = {f"task/{name}": held for name, held in numbers.metrics.items()}
    out.write_text("scores.json", json.dumps({"metrics": metrics}))
    paired = read_results(out).logged
    assert paired.keys() == {name for name in metrics if "perplexity" not in name}, "comparisons pair items by these"
    assert all(len(held) == numbers.items for held in paired.values())
    writes = any(question.kind != "loglikelihood" for part in parts for question in part) or "lambada" in task.name
    assert [len(items) for items in chosen.values()] == [] if writes else [numbers.items]
    if task.shots is not None:
        assert {one.get_config("num_fewshot") for one in loaded["tasks"].values()} == {task.shots}


@pytest.mark.filterwarnings("ignore")
def test_a_task_that_the_harness_cannot_ask_is_named(tmp_path: Path) -> None:
    from marin.evaluation.questions import questions_in_parts
    from marin.evaluation.stock_tasks import loaded_task

    task = replace(suites.CORE["agieval_lsat_ar"], target=None)
    write_data(task, tmp_path)
    with loaded_task(task, tmp_path) as loaded, pytest.raises(InputError, match=r"agieval_lsat_ar: .* with 3 examples"):
        questions_in_parts(loaded, None)


def test_the_tables_of_the_retrospectives_are_covered() -> None:
    assert set(TASKS_32B.split()) <= suites.BASE_32B.keys()
    assert set(TASKS_8B.split()) <= suites.BASE_8B.keys()
    assert {name: suites.CORE[name].shots for name in ("arc_easy", "piqa", "hellaswag", "hellaswag_0shot", "copa")} == {
        "arc_easy": 10, "piqa": 10, "hellaswag": 10, "hellaswag_0shot": 0, "copa": 0,
    }  # fmt: skip


def test_every_dataset_is_downloaded_at_a_commit_or_asked_for() -> None:
    checkpoint, tokenizer = PRETRAIN.at(4), Given(name_of_input="tokenizer")
    with pytest.raises(BadField, match="no commit is published for SaylorTwift/bbh, lighteval/winograd_wsc"):
        suites.evaluation("32b", checkpoint, tokenizer, suites.BASE_32B)
    given = dict.fromkeys(suites.UNPINNED, "ab" * 20)
    with pytest.raises(BadField, match="humaneval would run code by the model on your machines; leave the task"):
        suites.evaluation("32b", checkpoint, tokenizer, suites.BASE_32B, revisions=given)
    step = suites.evaluation("32b", checkpoint, tokenizer, suites.BASE_32B, revisions=given, run_generated_code=True)
    assert step.data.keys() == {task.dataset for task in suites.BASE_32B.values()}
    assert all(isinstance(each, HuggingFace) and each.repo == repo for repo, each in step.data.items())
