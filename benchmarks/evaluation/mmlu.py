"""Seconds for a task as large as MMLU on this machine: ``./py benchmarks/evaluation/mmlu.py [PARTS]``.

lm-evaluation-harness' own ``mmlu``, five examples before each item, over generated questions in its form: 14,042 in 57
subjects. The benchmark builds all questions and scores all answers. The model answers PARTS parts of 256 items (4 by
default), as tasks of a cluster do, but one after the other in this process. The other parts' answers are made up. The
model is against_hf.py's, with 1.6 million random parameters. Beside the seconds are the processor seconds.
"""

# pyright: basic
from __future__ import annotations

import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.evaluation.against_hf import SHAPE, written
from experiments.suites import MMLU
from marin.evaluation.encoder import OffsetEncoder
from marin.evaluation.harness_model import HarnessModel
from marin.evaluation.questions import AnsweredModel, Answers, answers_of, questions_in_parts
from marin.evaluation.stock_tasks import evaluate_task, loaded_task
from marin.training.scoring import load_model
from tests.experiments.suite_data import settings_of
from tests.operators.stock_data import put, repository
from tests.operators.test_export import written_checkpoint, written_tokenizer

ITEMS = 14_042
TASK = MMLU["mmlu"]
WORDS = """river stone leaf sun law cell force market treaty nerve acid prime vector court virus orbit loan verb gene
    valley the of a in and to is which by when not most"""


def rows(subject: str, count: int) -> list[dict[str, Any]]:
    draw, words = random.Random(subject), WORDS.split()

    def text(least: int, most: int) -> str:
        return " ".join(draw.choices(words, k=draw.randint(least, most)))

    return [
        {
            "question": text(15, 60) + "?",
            "subject": subject,
            "choices": [text(2, 10) for _ in range(4)],
            "answer": draw.randrange(4),
        }
        for _ in range(count)
    ]


def write_data(folder: Path) -> None:
    subjects = {each["dataset_name"] for each in settings_of(TASK) if each.get("dataset_name")}
    configs: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for number, subject in enumerate(sorted(subjects)):
        here = ITEMS // len(subjects) + (number < ITEMS % len(subjects))
        configs[subject] = {split: rows(f"{subject} {split}", count) for split, count in (("dev", 5), ("test", here))}
    put(repository(configs), folder)


def timed[T](what: str, work: Callable[[], T]) -> T:
    began, worked = time.perf_counter(), time.process_time()
    found = work()
    print(f"{what}: {written(time.perf_counter() - began, time.process_time() - worked)}", flush=True)
    return found


def main(parts: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder)
        tokenizer = written_tokenizer(where / "tokenizer").directory
        checkpoint = written_checkpoint(where / "checkpoint", SHAPE).directory
        write_data(where / "mmlu")
        encoder = OffsetEncoder(tokenizer)
        model = HarnessModel(load_model(checkpoint), encoder)
        with loaded_task(TASK, where / "mmlu") as loaded:
            asked = timed("questions", lambda: questions_in_parts(loaded, None))
        some = [question for part in asked[:2] for question in part]
        prompt = sum(len(encoder.encode([question.arguments[0]])[0].ids) for question in some) / len(some)
        print(f"{len(asked)} parts of about {prompt:.0f} tokens a question, load average {os.getloadavg()[0]:.1f}")
        answers = [Answers([(-1.0, False)] * len(part)) for part in asked]
        for number in range(parts):
            answers[number] = timed(f"answers of part {number}", partial(answers_of, model, asked[number]))
        with loaded_task(TASK, where / "mmlu") as loaded:
            timed("scores", lambda: evaluate_task(AnsweredModel(asked, answers), TASK, loaded, None))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 4)
