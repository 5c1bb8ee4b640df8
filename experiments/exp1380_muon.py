"""Exp 1380: does Muon keep Llama 32B from spiking?

Question: Muon makes every matrix's update orthogonal, so that no direction can become large. Does Muon go on where
AdamW spikes?
Arms: Muon for matrices at 2e-3, AdamW for the rest at 7e-4, no skipping and no clip of updates. Control: AdamW as it
was in these steps.
Start: step 77,096 of Llama, before the spikes; AdamW's moments kept, Muon's fresh. End: 82,000 (a rehearsal: 23 steps).
Decision: training loss on the same batches. In the original, loss improved for a while and then diverged.
The retrospective has the AdamW part "still warming up". By the code, the warmup had ended 67,096 steps before.
At a rehearsal's size nothing spikes: the result in README.md shows Muon's first steps, not whether Muon lasts.
Issue: https://github.com/marin-community/marin/issues/1380
"""

from experiments.marin_32b import LAST_GOOD, TRIED_UNTIL, Marin32B
from experiments.pipeline import Pipeline
from marin import Experiment, Scale, executor_main
from marin.training.optimizer import Muon
from marin.training.readings import Reading
from operators.compare import Compare
from operators.compare_trainings import CompareTrainings
from operators.datasets import catalogue, gsm8k


def build(scale: Scale) -> Experiment:
    items = gsm8k.test_items(scale)
    data = Pipeline(scale=scale, decontaminate_against=(items,))
    run, mix = Marin32B(data), data.mix(catalogue.PRETRAIN)
    arms = {"adamw": run.went_on(mix), "muon": run.tried("32b-muon", mix, Muon())}
    scores = {name: run.score(arm.label, arm, items) for name, arm in arms.items()}
    verdict = Compare(label="32b-muon", arms=scores, baseline="adamw", primary=("bpb/",))
    first, end = map(run.size.step, (LAST_GOOD, TRIED_UNTIL[scale]))
    half = (first + end) // 2
    training = CompareTrainings(
        label="32b-muon",
        arms=arms,
        baseline="adamw",
        readings={
            "loss, first half": Reading(metric="loss", first=first, end=half),
            "loss, second half": Reading(metric="loss", first=half, end=end),
            "norm of the update": Reading(metric="update_norm", first=first, end=end),
        },
    )
    return Experiment(issue=1380, question=__doc__, results={**scores, "comparison": verdict, "training": training})


if __name__ == "__main__":
    executor_main(build)
