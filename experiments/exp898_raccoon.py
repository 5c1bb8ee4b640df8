"""Exp 898, Raccoon: why does the loss creep up in a deep cooldown? (8B, steps 819,924 to 840,000)

Question: the 8B is cooled down again, a hundred times deeper in all, so that fine-tuning works better. The loss rose
slowly at the end of the cooldown. Is the cause weight decay, or Adam's moments?
Arms: Softer Raccoon (1.7e-5 to 1e-6); without weight decay; with fresh moments for Adam.
Start: step 829,992 of Soft Raccoon, which decays from 1.7e-4 at 820,000 to 1.7e-5 at 830,000 after Jellyfish's step
819,924. Jellyfish's mixture. End: 840,000.
Decision: training loss of the last steps against the first steps, paired between the arms by batch.
Neither arm helped: the cause was the lm_head's norm, as Spoonbill (916) found. README.md says how a rehearsal's 18
steps move the loss and the norm.
The retrospective has 100 B tokens for Soft Raccoon; 10,000 steps are 125.8 B.
Issue: https://github.com/marin-community/marin/issues/898
"""

from dataclasses import replace

from experiments.marin_8b import JELLYFISH_LAST, OCELOT, Marin8B
from experiments.pipeline import Pipeline
from infra.hardware import tpu
from marin import Experiment, Scale, executor_main
from marin.training.optimizer import Adam
from marin.training.readings import Reading
from marin.training.schedule import Decay, Schedule
from operators.compare import Compare
from operators.compare_trainings import CompareTrainings
from operators.datasets import gsm8k
from operators.start import Fork, OptimizerState
from operators.train import Train

SOFT, SOFTER_FROM, BETWEEN, END = 820_000, 829_992, 830_000, 840_000  # optimizer steps
RATES = (1.7e-4, 1.7e-5, 1e-6)  # at 820,000, 830,000 and 840,000


def build(scale: Scale) -> Experiment:
    items = gsm8k.test_items(scale)
    run = Marin8B(Pipeline(scale=scale, decontaminate_against=(items,)))

    def decay(name: str, start: Fork, steps: tuple[int, int], rates: tuple[float, float], recipe: Adam) -> Train:
        """Return a training whose rate decays linearly between the round steps, and holds the first rate before."""
        first, end = (run.step(round(step, -4)) for step in steps)
        return run.train(
            name,
            steps=steps,
            start=start,
            optimizer=replace(recipe, peak_lr=rates[0]),
            schedule=Schedule(decay=Decay(first, end), floor=rates[1] / rates[0]),
            resources=tpu("v4-128", slices=4),
            keep=(SOFTER_FROM,),
        )

    soft = decay("8b-soft-raccoon", Fork(run.cooled()), (JELLYFISH_LAST, BETWEEN), RATES[:2], OCELOT)

    def softer(name: str, recipe: Adam = OCELOT, state: OptimizerState = OptimizerState.KEPT) -> Train:
        start = Fork(run.at(soft, SOFTER_FROM), state)
        return decay(name, start, (SOFTER_FROM, END), RATES[1:], recipe)

    arms = {
        "softer": softer("8b-softer-raccoon"),
        "no weight decay": softer("8b-softer-raccoon-no-decay", replace(OCELOT, weight_decay=0.0)),
        "fresh moments": softer("8b-softer-raccoon-fresh", state=OptimizerState.FRESH),
    }
    scores = {name: run.score(arm.label, arm, items) for name, arm in arms.items()}
    verdict = Compare(label="8b-raccoon", arms=scores, baseline="softer", primary=("bpb/",))
    start, early, late, end = map(run.step, (BETWEEN, 833_000, 837_000, END))
    training = CompareTrainings(
        label="8b-raccoon",
        arms=arms,
        baseline="softer",
        readings={
            "growth of the loss": Reading(metric="loss", first=late, end=end, since=(start, early)),
            "growth of log Z": Reading(metric="held_out/log_z", first=late, end=end, since=(start, early)),
            "norm of lm_head at the end": Reading(metric="norm/lm_head", first=end - 1, end=end),
        },
    )
    return Experiment(issue=898, question=__doc__, results={**scores, "comparison": verdict, "training": training})


if __name__ == "__main__":
    executor_main(build)
