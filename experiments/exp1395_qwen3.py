"""Exp 1395: give the 32B QK-Norm at step 80,000.

Question: what does the switch from Llama to Qwen3 (the same blocks, with QK-Norm) cost, and does the run recover?
Arms: Llama goes on from step 80,000 with its optimizer state; Qwen3 starts from Llama's weights, with a new learning
rate warmup. The same data in the same order.
Start: step 80,000 of the Llama run. End: 160,000.
Decision: bits per byte of every domain at the end. Training loss on the same batches says what the switch costs at
first, and how long the recovery takes.
At small scale Llama does not spike, so a rehearsal shows the cost and the recovery, not the benefit of QK-Norm.
Issue: https://github.com/marin-community/marin/issues/1395
"""

from experiments.marin_32b import QK_NORM_FROM, WARMUP, Marin32B
from experiments.pipeline import Pipeline
from marin import Experiment, Scale, executor_main
from marin.training.model import Architecture
from marin.training.readings import Reading
from operators.compare import Compare
from operators.compare_trainings import CompareTrainings
from operators.datasets import catalogue, gsm8k
from operators.train import Fork

END = 160_000  # optimizer steps


def build(scale: Scale) -> Experiment:
    items = gsm8k.test_items(scale)
    data = Pipeline(scale=scale, decontaminate_against=(items,))
    run = Marin32B(data)
    pretraining = data.mix(catalogue.PRETRAIN)
    parent = run.at(run.llama(pretraining), QK_NORM_FROM)
    llama = run.train(
        "32b-llama-on",
        steps=(QK_NORM_FROM, END),
        start=Fork(parent),
        data={0: pretraining},
        architecture=Architecture.LLAMA,
        warmup=WARMUP,
    )
    arms = {"llama": run.at(llama, END), "qwen3": run.pretrained(pretraining, until=END)}
    scores = {name: run.score(name, checkpoint, items) for name, checkpoint in arms.items()}
    verdict = Compare(label="qk-norm", arms=scores, baseline="llama", primary=("bpb/",))
    first, soon, late, end = map(run.size.step, (QK_NORM_FROM, QK_NORM_FROM + 5_000, 120_000, END))
    training = CompareTrainings(
        label="qk-norm",
        arms={"llama": llama, "qwen3": run.qwen3(pretraining, until=END)},
        baseline="llama",
        readings={
            "loss, first 5,000 steps": Reading(metric="loss", first=first, end=soon),
            "loss, second half": Reading(metric="loss", first=late, end=end),
        },
    )
    return Experiment(issue=1395, question=__doc__, results={**scores, "comparison": verdict, "training": training})


if __name__ == "__main__":
    executor_main(build)
