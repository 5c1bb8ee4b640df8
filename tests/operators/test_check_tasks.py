"""CheckTasks: what evaluations will ask is there before a training begins, and a task more makes no other training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from marin import Context, ExecutorStep, RawFiles, Report
from marin.evaluation.harness_task import HarnessTask
from marin.store.files.directory import Directory
from operators.check_tasks import CheckTasks
from operators.evaluate import Evaluate
from operators.evaluate_tasks import EvaluateTasks
from tests.operators.running import Given
from tests.operators.stock_data import ARC, FILES, GSM8K, put
from tests.operators.test_train import PRETRAIN
from tests.support.toy import Blob, record_of, run, statuses
from tests.training.runs import SEQ_LEN


class Rows(ExecutorStep[RawFiles], op="toy-rows"):
    """A dataset as the hub has it, but for the files without."""

    repo: str
    without: tuple[str, ...] = ()

    def run(self, ctx: Context) -> RawFiles:
        files = {name: content for name, content in FILES[self.repo].items() if name not in self.without}
        put(files, ctx.out.path)
        return RawFiles(files=len(files), bytes=1)


class Gated(ExecutorStep[Blob], op="toy-gated"):
    gates: tuple[ExecutorStep[Report], ...]

    def run(self, ctx: Context) -> Blob:
        ctx.out.write_text("text.txt", "trained")
        return Blob(bytes=7)


GSM, EASY = Rows(repo="openai/gsm8k", label="gsm8k"), Rows(repo="allenai/ai2_arc", label="arc")
BPE = Given(name_of_input="bpe")


def asked(tasks: dict[str, HarnessTask], *data: Rows) -> EvaluateTasks:
    return EvaluateTasks(checkpoint=PRETRAIN, tokenizer=BPE, tasks=tasks, data={each.repo: each for each in data})


def gated(*evaluations: ExecutorStep[Any]) -> Gated:
    return Gated(gates=(CheckTasks.of(evaluations, "check").passed,), label="training")


def test_each_task_is_checked_once_whatever_it_is_called_and_evaluations_of_other_kinds_not_at_all() -> None:
    both, again = asked({"gsm8k": GSM8K, "arc": ARC}, GSM, EASY), asked({"gsm": GSM8K}, GSM)
    loss = Evaluate(checkpoint=PRETRAIN, tokenizer=BPE, domains={"prose": BPE}, window=SEQ_LEN, stride=16)
    check = CheckTasks.of((again, both, loss), "check")
    assert set(check.tasks) == {(GSM8K, GSM), (ARC, EASY)}
    assert len(check.tasks) == 2
    assert CheckTasks.of((both,), "other").identity == CheckTasks.of((loss, again, both), "check").identity
    assert CheckTasks.of((loss,), "check").tasks == ()


@pytest.mark.filterwarnings("ignore")
def test_a_task_more_is_checked_and_what_waited_stays_what_it_is(tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    assert statuses(run(store, end=gated()))["toy-gated/training"] == "ran"
    more = gated(asked({"gsm8k": GSM8K, "arc": ARC}, GSM, EASY))
    done = run(store, end=more)
    assert statuses(done)["toy-gated/training"] == "alias"
    [check] = [step for step in done.results if isinstance(step, CheckTasks)]
    report = Directory(f"{store}/{record_of(store, check).attempt}").read_text("report.json")
    assert json.loads(report) == {"items": {"arc_easy": 6, "gsm8k": 4}}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("task", "without", "error"),
    [
        (GSM8K, ("main/test-00000-of-00001.parquet",), "task gsm8k: the files of openai/gsm8k in"),
        (HarnessTask("gsm8k", "gsm8k", "openai/gsm8k", shots=5), (), "3 examples to choose from, but a prompt shows 5"),
        (HarnessTask("gsm9k", "gsm8k", "openai/gsm8k"), (), "has no task gsm9k in tasks/gsm8k"),
    ],
)
def test_what_cannot_be_asked_is_said_before_anything_that_waits_for_it_begins(
    tmp_path: Path, task: HarnessTask, without: tuple[str, ...], error: str
) -> None:
    rows = Rows(repo="openai/gsm8k", without=without)
    done = run(str(tmp_path / "store"), end=gated(asked({"gsm8k": task}, rows)))
    assert statuses(done)["toy-gated/training"] == "skipped"
    [failed] = [result.error for result in done.results.values() if result.error and "check-tasks" in result.step.name]
    assert error in failed
