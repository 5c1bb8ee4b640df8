"""Exp 1390: can Llama 32B go on from step 80,000 with the history of its clip restored?

Question: the clip of updates was off from about step 74,000. So at 80,000 the clip knows no norms, and clips nothing
for half a window. Does the history of an earlier checkpoint, grafted on, prevent the spikes?
Arms: the clip with the history of step 74,000; the clip with an empty history.
Start: step 80,000 of Llama, optimizer state kept. End: 82,000 (a rehearsal: 20 steps).
Decision: training loss on the same batches, and the norm of the updates.
The original took the history of step 77,096. If the clip was lost at 74,000, as the retrospective says, that step has
no history. In the original the run was stable for a few thousand steps and spiked again: the optimizer's state was not
the cause.
At a rehearsal's size nothing spikes, and two sigma clip nothing. A rehearsal clips at half a sigma, so that the graft
acts from the first step on, and the empty history from half a window on (8 steps there, 64 at full scale). README.md
has the result.
Issue: https://github.com/marin-community/marin/issues/1390
"""

from experiments.marin_32b import CLIP_LOST, QK_NORM_FROM, TRIED_UNTIL, Marin32B
from experiments.pipeline import Pipeline
from marin import Experiment, Scale, executor_main
from marin.training.optimizer import Adam, ClipUpdateNorm
from marin.training.readings import Reading
from operators.compare import Compare
from operators.compare_trainings import CompareTrainings
from operators.datasets import catalogue, gsm8k
from operators.start import Fork

SIGMA = {Scale.FULL: 2.0, Scale.REHEARSAL: 0.5}


def build(scale: Scale) -> Experiment:
    items = gsm8k.test_items(scale)
    data = Pipeline(scale=scale, decontaminate_against=(items,))
    run, mix = Marin32B(data), data.mix(catalogue.PRETRAIN)
    cooked = run.at(run.unclipped(mix), QK_NORM_FROM)
    clipped = run.at(run.llama(mix), CLIP_LOST)
    recipe = Adam(clip_update_norm=ClipUpdateNorm(sigma=SIGMA[scale]))
    arms = {
        "grafted": run.tried("32b-necro", mix, recipe, Fork(cooked, clip_history=clipped)),
        "empty": run.tried("32b-necro-empty", mix, recipe, Fork(cooked)),
    }
    scores = {name: run.score(arm.label, arm, items) for name, arm in arms.items()}
    verdict = Compare(label="32b-necro", arms=scores, baseline="empty", primary=("bpb/",))
    first, end = map(run.size.step, (QK_NORM_FROM, TRIED_UNTIL[scale]))
    read = {"loss": "loss", "norm of the update": "update_norm", "share of steps clipped": "clipped"}
    training = CompareTrainings(
        label="32b-necro",
        arms=arms,
        baseline="empty",
        readings={name: Reading(metric=metric, first=first, end=end) for name, metric in read.items()},
    )
    return Experiment(issue=1390, question=__doc__, results={**scores, "comparison": verdict, "training": training})


if __name__ == "__main__":
    executor_main(build)
