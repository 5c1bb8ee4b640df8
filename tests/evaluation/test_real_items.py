"""Stock tasks over real items, downloaded as from the hub: who answers right gets all, who answers wrong none."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from experiments.suites import BASE_32B
from marin.evaluation.harness_task import HarnessTask
from operators.download import HuggingFace
from tests.operators.running import run_step
from tests.operators.servers import HubServer, serving
from tests.operators.stock_data import dataset
from tests.operators.test_pretrained_tokenizer import set_endpoint
from tests.shared_data import shared

COMMIT = "ab" * 20
type Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Real:
    """A published suite, as it is on the hub.

    rows: by split. right: the answer that a model would write to an item; None if the model chooses. items: number of
    items in the test split; asked: the number that the test asks, if not all. begins: the first question.
    """

    task: HarnessTask
    config: str
    rows: Callable[[], dict[str, Rows]]
    right: Callable[[dict[str, Any]], str] | None
    items: int
    begins: str
    asked: int | None = None


def lines(text: Iterable[str]) -> Rows:
    return [json.loads(line) for line in text if line.strip()]


def gsm8k() -> dict[str, Rows]:
    return {split: lines((shared("gsm8k") / f"{split}.jsonl").read_text().splitlines()) for split in ("train", "test")}


def humaneval() -> dict[str, Rows]:
    with gzip.open(shared("humaneval") / "HumanEval.jsonl.gz", "rt") as file:
        return {"test": lines(file)}


def navigate() -> dict[str, Rows]:
    return {"test": json.loads((shared("bbh") / "navigate.json").read_text())["examples"]}


def agieval(name: str) -> dict[str, Rows]:
    """As the harness's dataset has it: the choices in the question, too."""
    rows = lines((shared("agieval") / f"{name}.jsonl").read_text().splitlines())
    made = [
        {
            "query": f"Q: {row['question']} Answer Choices: {' '.join(row['options'])}\nA: Among A through "
            f"{'ABCDE'[len(row['options']) - 1]}, the answer is",
            "choices": row["options"],
            "gold": ["ABCDE".index(row["label"])],
        }
        for row in rows
    ]
    return {"test": made}


REAL = {
    "gsm8k": Real(BASE_32B["gsm8k"], "main", gsm8k, lambda item: f" {item['answer']}", 1319, "Janet\u2019s ducks", 100),
    "humaneval": Real(
        BASE_32B["humaneval"],
        "openai_humaneval",
        humaneval,
        lambda item: item["canonical_solution"],
        164,
        "from typing import List",
        12,
    ),
    "bbh": Real(
        HarnessTask("bbh_cot_fewshot_navigate", "bbh/cot_fewshot", "SaylorTwift/bbh", 3),
        "navigate",
        navigate,
        lambda item: f"We count. So the answer is {item['target']}.",
        250,
        "If you follow these instructions",
    ),
    "agieval": Real(
        HarnessTask("agieval_aqua_rat", "agieval", "hails/agieval-aqua-rat", 0),
        "default",
        lambda: agieval("aqua-rat"),
        None,
        254,
        "Q: A car is being driven",
    ),
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", REAL)
def test_real_items_are_asked_and_scored(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from marin.evaluation.questions import AnsweredModel, Answers, Question, questions_in_parts
    from marin.evaluation.stock_tasks import choice_metrics, choice_results, evaluate_task, loaded_task, numbers_of

    real = REAL[name]
    step = HuggingFace(repo=real.task.dataset, revision=COMMIT)
    files = dataset(real.config, real.rows())
    held: dict[str, Any] = {"repo": step.repo, "revision": COMMIT, "files": files, "gated": frozenset()}
    with serving(HubServer, **held, large=frozenset(), lies=frozenset()) as url:
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", url)
        set_endpoint(monkeypatch, url)
        downloaded: Any = run_step(step, {}, tmp_path)
    data = downloaded.directory.path
    with loaded_task(real.task, data) as loaded:
        (task,) = loaded["tasks"].values()
        assert len(task.eval_docs) == real.items
        parts = questions_in_parts(loaded, real.asked)
        doc_of = {Question(each.request_type, each.args).key: each.doc for each in task.instances}
    assert real.begins in parts[0][0].arguments[0]

    def answered(right: bool) -> tuple[dict[str, float], dict[str, float]]:
        def answer(question: Question) -> Any:
            item = doc_of[question.key]
            if real.right is not None:
                return real.right(item) if right else "no"
            is_right = question.arguments[1].strip() == item["choices"][item["gold"][0]].strip()
            return -1.0 if is_right is right else -2.0, False

        replies = AnsweredModel(parts, [Answers([answer(question) for question in part]) for part in parts])
        with loaded_task(real.task, data) as loaded:
            found = evaluate_task(replies, real.task, loaded, real.asked)
            return numbers_of(real.task, found).metrics, choice_metrics(choice_results(name, loaded, found))

    metrics, chosen = answered(right=True)
    wrong, less_likely = answered(right=False)
    of_all = {metric for metric in metrics if not metric.startswith("acc_norm")}
    assert {metrics[metric] for metric in of_all} == {1.0}
    assert {wrong[metric] for metric in of_all} == {0.0}
    if real.right is None:
        assert chosen[f"{name}/lm_eval/choice_probability"] > 0.35 > less_likely[f"{name}/lm_eval/choice_probability"]
