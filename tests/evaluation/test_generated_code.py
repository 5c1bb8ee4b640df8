"""Test programs that a model wrote: which programs pass, the limits on them, and HumanEval's scores in the harness."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from marin.errors import BadField
from marin.evaluation.generated_code import CodeEval, passes
from marin.evaluation.harness_task import HarnessTask
from marin.evaluation.questions import AnsweredModel, Answers, questions_in_parts
from marin.evaluation.stock_tasks import evaluate_task, loaded_task, numbers_of
from marin.store.files.directory import Directory
from tests.operators.stock_data import dataset

TEST = "def check(candidate):\n    assert candidate(2, 3) == 5\n"
PROBLEMS: list[dict[str, Any]] = [
    {
        "task_id": f"HumanEval/{number}",
        "prompt": f"def add{number}(a, b):\n",
        "canonical_solution": "    return a + b\n",
        "test": TEST,
        "entry_point": f"add{number}",
    }
    for number in range(3)
]
HUMANEVAL = HarnessTask("humaneval", "humaneval", "openai/openai_humaneval", runs_code=True)


def test_a_program_passes_if_it_comes_to_its_end() -> None:
    """Each line is a program; those that leave early, or say that they pass, do not."""
    programs = {
        "assert 2 + 2 == 4": True,
        "import numpy; assert numpy.arange(3).sum() == 3": True,
        "assert 2 + 2 == 5": False,
        "def add(": False,
        "import sys; sys.exit(0)": False,
        "import os; os._exit(0)": False,
        "print('x' * 32, flush=True); raise SystemExit": False,
        "while True: pass": False,
    }
    assert {program: passes(program, seconds=2) for program in programs} == programs


def test_a_program_finds_nothing_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CLOUD_TOKEN", "secret")
    assert passes("import os; assert 'CLOUD_TOKEN' not in os.environ and os.listdir('.') == []")
    assert passes("open('here', 'w').write('x'); import os; assert os.listdir('.') == ['here']")
    assert not passes("bytearray(8 << 30)")
    assert not passes("open('large', 'wb').write(bytes(4 << 20))")
    left = f"import os, time\nif os.fork() == 0:\n    time.sleep(1)\n    open({str(tmp_path / 'left')!r}, 'w')"
    began = time.monotonic()
    passes(left)  # whether it may fork at all is the kernel's
    time.sleep(max(0.0, began + 1.5 - time.monotonic()))
    assert not (tmp_path / "left").exists()


def test_pass_at_k_is_the_chance_that_one_of_k_passes() -> None:
    right, wrong = "x = 1", "x = 2"
    shares, passed = CodeEval().compute(["assert x == 1"] * 2, [[right, wrong, wrong], [wrong] * 3], k=[1, 2, 10])
    assert passed == [[True, False, False], [False] * 3]
    assert shares == pytest.approx({"pass@1": 1 / 6, "pass@2": 1 / 3})


@pytest.mark.filterwarnings("ignore")
def test_humaneval_is_scored_by_what_its_answers_do_without_the_hub(tmp_path: Path) -> None:
    for name, content in dataset("openai_humaneval", {"test": PROBLEMS}).items():
        Directory(str(tmp_path)).write_bytes(name, content)
    with loaded_task(HUMANEVAL, tmp_path) as loaded:
        (asked,) = questions_in_parts(loaded, None)
    assert [question.arguments[0] for question in asked] == [problem["prompt"] for problem in PROBLEMS]
    written = {"add0": "    return a + b", "add1": "    return a - b", "add2": "    return b + a"}
    replies = AnsweredModel([asked], [Answers([*written.values()])])
    with loaded_task(HUMANEVAL, tmp_path) as loaded:
        answered = evaluate_task(replies, HUMANEVAL, loaded, None)
    assert numbers_of(HUMANEVAL, answered).metrics == {"pass@1,create_test": pytest.approx(2 / 3)}
    assert [sample["pass@1"] for sample in answered.samples["humaneval"]] == [1, 0, 1]
    silent = HarnessTask("humaneval", "humaneval", "openai/openai_humaneval")
    with pytest.raises(BadField, match="runs the code that the model writes; allow it"), loaded_task(silent, tmp_path):
        pass
