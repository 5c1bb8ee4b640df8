"""Exp 1388: does NAdamW keep Llama 32B from spiking?

Question: Nesterov momentum with β₁ .95 is meant to smooth oscillations. Does NAdamW go on where AdamW spikes?
Arms: NAdamW, a gradient norm of 1.0, no skipping and no clip of updates. Control: AdamW as it was in these steps.
Start: step 77,096 of Llama, before the spikes; moments kept. End: 82,000 (a rehearsal: 23 steps).
Decision: training loss on the same batches. In the original, loss improved for a while and then spiked, as with AdamW.
The retrospective has the original schedule. The code has a cosine from the warmup to step 1,000,000, with 6.93e-4 at
77,096, as here. At a rehearsal's size nothing spikes: the result in README.md shows the price of the change, not its
benefit.
Issue: https://github.com/marin-community/marin/issues/1388
"""

from experiments.marin_32b import FLOOR, LAST_GOOD, PLANNED, TRIED_UNTIL, WARMUP, Marin32B
from experiments.pipeline import Pipeline
from marin import Experiment, Scale, executor_main
from marin.training.optimizer import NAdamW
from marin.training.readings import Reading
from marin.training.schedule import Decay, Schedule, Shape
from operators.compare import Compare
from operators.compare_trainings import CompareTrainings
from operators.datasets import catalogue, gsm8k


def build(scale: Scale) -> Experiment:
    items = gsm8k.test_items(scale)
    data = Pipeline(scale=scale, decontaminate_against=(items,))
    run, mix = Marin32B(data), data.mix(catalogue.PRETRAIN)
    warmup, planned = map(run.size.step, (WARMUP, PLANNED))
    cosine = Schedule(warmup=warmup, decay=Decay(warmup, planned, Shape.COSINE), floor=FLOOR)
    arms = {"adamw": run.went_on(mix), "nadamw": run.tried("32b-nadamw", mix, NAdamW(), schedule=cosine)}
    scores = {name: run.score(arm.label, arm, items) for name, arm in arms.items()}
    verdict = Compare(label="32b-nadamw", arms=scores, baseline="adamw", primary=("bpb/",))
    first, end = map(run.size.step, (LAST_GOOD, TRIED_UNTIL[scale]))
    read = {"loss": "loss", "norm of the gradient": "grad_norm", "norm of the update": "update_norm"}
    training = CompareTrainings(
        label="32b-nadamw",
        arms=arms,
        baseline="adamw",
        readings={name: Reading(metric=metric, first=first, end=end) for name, metric in read.items()},
    )
    return Experiment(issue=1388, question=__doc__, results={**scores, "comparison": verdict, "training": training})


if __name__ == "__main__":
    executor_main(build)
