"""A dataset that is in no experiment yet, beside the experiment that made a checkpoint."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from marin import Experiment, mixture
from marin.data.mixture import Stages
from marin.errors import BadField, MissingRevision, UnknownStep
from marin.evaluation.harness_task import HarnessTask
from marin.training.schedule import Decay, Schedule
from operators.decontaminate import Decontaminate
from operators.evaluate import Evaluate
from operators.evaluate_tasks import EvaluateTasks
from operators.judge import Judge
from operators.new_candidates import Candidate, microanneal_of
from operators.read_suite import ReadSuite
from operators.tokenize import Tokenize
from operators.train_tokenizer import TrainTokenizer
from tests.operators.running import Given
from tests.operators.test_train import PRETRAIN, WEB
from tests.training.runs import SEQ_LEN

GSM, PROSE = Given(name_of_input="gsm", label="gsm"), Given(name_of_input="prose", label="prose")
BPE = TrainTokenizer(documents=(WEB,), vocabulary=300, label="own")
USUAL = mixture({Tokenize(documents=WEB, tokenizer=BPE, label="web"): 1.0})
RUN = replace(
    PRETRAIN,
    label="run",
    vocabulary=300,
    data=Stages({0: USUAL}),
    end_step=40,
    schedule=Schedule(warmup=4, decay=Decay(30, 40)),
)
BASE = RUN.at(28)
SCORES = Evaluate(checkpoint=BASE, tokenizer=BPE, tasks={"gsm": GSM}, window=SEQ_LEN, stride=16, label="base")
ORIGIN = Experiment(issue=3, question="Whose checkpoint?", results={"scores": SCORES})
FOLDER = {"own": Candidate(path="/data/own")}


def judged(origin: Experiment = ORIGIN, **fields: Any) -> Judge:
    given: dict[str, Any] = {
        "checkpoint": BASE.identity,
        "candidates": FOLDER,
        "tokens": 7 * 6 * SEQ_LEN,
        "shortest": 0.0,
    }
    made = microanneal_of(origin, **given | fields)
    assert made.issue == 3
    verdict = made.results["verdict"]
    assert isinstance(verdict, Judge)
    return verdict


def test_a_folder_becomes_an_arm_on_the_mixture_that_the_checkpoint_read() -> None:
    verdict = judged()
    assert (verdict.primary, verdict.margin) == (("gsm/olmes/bpb",), 0.01)
    (control, *_), (own, *_) = verdict.arms["control"], verdict.arms["own"]
    trained: dict[str, Any] = {"control": control[0], "own": own[0]}
    assert trained["control"].tasks == {"gsm": GSM}
    shares = trained["own"].checkpoint.data.at[28].by_name()
    assert shares == pytest.approx({"web": 0.7, "own": 0.3})
    assert trained["control"].checkpoint.data.at[28] == USUAL
    # Its text has no duplicates and no evaluation items, and is tokenized as the other.
    names = {step.name for step in Experiment(issue=1, question="?", results={"v": verdict}).steps()}
    assert {"text-files/own", "exact-dedup/own", "decontaminate/own", "tokenize/own"} <= names


def test_a_checkpoint_is_found_by_name_too() -> None:
    assert judged(checkpoint="run@28") == judged(checkpoint=BASE.identity[:12]) == judged()
    with pytest.raises(UnknownStep, match=r"no checkpoint called 'run@27'; its checkpoints are .*milestone/run@28"):
        judged(checkpoint="run@27")


def test_a_dataset_of_the_hub_is_read_at_a_commit() -> None:
    verdict = judged(candidates={"fine": Candidate(repo="a/fine", revision="0" * 40)})
    names = {step.name for step in Experiment(issue=1, question="?", results={"v": verdict}).steps()}
    assert {"download-hf/fine", "tokenize/fine"} <= names
    with pytest.raises(MissingRevision, match="no revision is given"):
        judged(candidates={"fine": Candidate(repo="a/fine")})


def test_tasks_of_the_harness_decide_if_they_are_named_and_their_items_are_taken_out() -> None:
    files = Given(name_of_input="arc", label="arc")
    arc = HarnessTask(name="arc_easy", folder="arc", dataset="allenai/ai2_arc", shots=0)
    other = HarnessTask(name="piqa", folder="piqa", dataset="baber/piqa")
    stock = EvaluateTasks(checkpoint=BASE, tokenizer=BPE, tasks={"arc_easy": arc, "piqa": other}, label="stock",
                          data={"allenai/ai2_arc": files, "baber/piqa": Given(name_of_input="piqa")})  # fmt: skip
    alone = replace(ORIGIN, results={"stock": stock})
    with pytest.raises(BadField, match=r"name what decides among arc_easy, piqa: primary=\('arc_easy/acc',\), say"):
        judged(alone)
    verdict = judged(alone, primary=("arc_easy/acc",))
    [scores] = verdict.arms["own"][0]
    assert isinstance(scores, EvaluateTasks)
    own: Any = scores.checkpoint
    [decontaminated] = [step for step in Experiment(issue=1, question="?", results={"v": verdict}).steps()
                        if isinstance(step, Decontaminate)]  # fmt: skip
    assert decontaminated.against == (ReadSuite(files=files, label="allenai/ai2_arc"),)
    assert own.data.at[28].by_name() == pytest.approx({"web": 0.7, "own": 0.3})
    both = judged(replace(ORIGIN, results={"scores": SCORES, "stock": stock}))
    assert both.primary == ("gsm/olmes/bpb",)
    assert len(both.arms["own"][0]) == 2


def test_what_no_verdict_can_be_made_of_is_refused() -> None:
    with pytest.raises(BadField, match=r"share of a candidate is 1\.5"):
        judged(share=1.5)
    with pytest.raises(BadField, match="candidate own: give either path, or repo"):
        judged(candidates={"own": Candidate()})
    loss = Evaluate(checkpoint=BASE, tokenizer=BPE, domains={"prose": PROSE}, window=SEQ_LEN, stride=16, label="base")
    with pytest.raises(BadField, match="evaluates no tasks, and a verdict goes by tasks, not by loss"):
        judged(replace(ORIGIN, results={"scores": loss}))
    given = replace(RUN, data=Stages({0: mixture({WEB: 1.0})}), label="given").at(28)
    with pytest.raises(BadField, match="reads no output of Tokenize"):
        judged(replace(ORIGIN, results={"scores": replace(SCORES, checkpoint=given)}), checkpoint=given.identity)
