"""Exp 1295: does the 8B's recipe hold for a Llama of 32 B parameters? (steps 0 to 80,000)

Question: the 32B has the same data, WSD and a batch of 8,192. How far does the run go before the loss spikes?
Arms: the run as it was: 8,192 sequences, 7,680 between 18,500 and 21,010; gradient norm 1.0 until 56,400, .2 after
that; the clip of updates from 72,233, inadvertently off from about 74,000. Machines changed at 18,500 and 21,010.
Start: scratch. End: 80,000, 2.679 T tokens.
Decision: none by itself. Loss and norms of the last steps say whether the run can go on. 1390, 1388 and 1380 try to
save the run, and 1395 succeeds.
The configuration has a gradient norm of .2 throughout. The final retrospective has 1.0 at first, as here. The
retrospective skips at two sigma of the update norm. The code skips at six, of loss or gradient norm, as here.
A rehearsal is one phase with all guards on: at its size nothing spikes.
Issue: https://github.com/marin-community/marin/issues/1295
"""

from experiments.marin_32b import CLIP_LOST, QK_NORM_FROM, Marin32B
from experiments.pipeline import Pipeline
from marin import Experiment, Scale, executor_main
from marin.training.readings import Reading
from operators.compare_trainings import CompareTrainings
from operators.datasets import catalogue, gsm8k


def build(scale: Scale) -> Experiment:
    items = gsm8k.test_items(scale)
    data = Pipeline(scale=scale, decontaminate_against=(items,))
    run = Marin32B(data)
    llama = run.llama(data.mix(catalogue.PRETRAIN))
    scores = run.score("llama-80000", run.at(llama, QK_NORM_FROM), items)
    first, end = map(run.size.step, (CLIP_LOST, QK_NORM_FROM))
    read = {
        "loss": "loss",
        "norm of the gradient": "grad_norm",
        "norm of the update": "update_norm",
        "share of steps skipped": "skipped",
    }
    training = CompareTrainings(
        label="32b-llama",
        arms={"llama": llama.last},
        baseline="llama",
        readings={
            f"{name}, last 6,000 steps": Reading(metric=each, first=first, end=end) for name, each in read.items()
        },
    )
    return Experiment(issue=1295, question=__doc__, results={"scores": scores, "training": training})


if __name__ == "__main__":
    executor_main(build)
