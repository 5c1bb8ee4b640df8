"""Exp 916, Spoonbill: does z-loss keep the lm_head from growing in a deep cooldown? (8B, steps 819,924 to 840,000)

Question: in a deep cooldown with some FLAN and chats in the mixture, the loss and the norm of lm_head rose again. Only
the data hold log Z in place, because weight decay spares norms. Does a z-loss of 1e-4 stop the rise?
Arms: Hypnotic Spoonbill (no z-loss; 1.7e-4 to 2.75e-5 between 820,000 and 830,000); Focused Spoonbill (the same rate
from Hypnotic's step 824,524 on, with z-loss); Deeper Spoonbill (Focused's step 829,947 to 840,000, to 2.75e-6).
Start: step 819,924 of Jellyfish. End: 830,000; Deeper 840,000.
Decision: norm of lm_head and log Z at 830,000. The z-loss must not make the loss worse.
The retrospective has .3 % Tulu 3, 1 % FLAN and 3e-5. The code has .1 %, 2.9 % and 2.75e-5, as here.
In a rehearsal the z-loss acts for 11 steps. README.md says how much higher log Z and the norm are without z-loss.
Issue: https://github.com/marin-community/marin/issues/916
"""

from dataclasses import replace

from experiments.marin_8b import JELLYFISH_LAST, OCELOT, STARLING, Marin8B, published_until
from experiments.pipeline import Pipeline
from infra.hardware import tpu
from marin import Experiment, Scale, executor_main
from marin.training.optimizer import Adam
from marin.training.readings import Reading
from marin.training.schedule import Decay, Schedule
from operators.compare import Compare
from operators.compare_trainings import CompareTrainings
from operators.datasets import gsm8k
from operators.datasets.mixtures import SPOONBILL
from operators.start import Fork
from operators.train import Train

SPOONBILL_FROM, FOCUSED_FROM, DEEPER_FROM, BETWEEN, END = 820_000, 824_524, 829_947, 830_000, 840_000  # optimizer steps
RATES = (1.7e-4, 2.75e-5, 2.75e-6)  # at 820,000, 830,000 and 840,000


def build(scale: Scale) -> Experiment:
    items = gsm8k.test_items(scale)
    run = Marin8B(Pipeline(scale=scale, decontaminate_against=(items,)))

    def spoonbill(name: str, start: Fork, steps: tuple[int, int], recipe: Adam) -> Train:
        high, low = RATES[1:] if steps[1] > BETWEEN else RATES[:2]
        first, end = map(run.step, (BETWEEN, END) if steps[1] > BETWEEN else (SPOONBILL_FROM, BETWEEN))
        return run.train(
            name,
            steps=steps,
            start=start,
            data={**published_until(SPOONBILL_FROM), SPOONBILL_FROM: SPOONBILL},
            optimizer=replace(recipe, peak_lr=high),
            schedule=Schedule(decay=Decay(first, end), floor=low / high),
            resources=tpu("v4-128", slices=4),
            keep=(FOCUSED_FROM, DEEPER_FROM),
        )

    hypnotic = spoonbill("8b-hypnotic-spoonbill", Fork(run.cooled()), (JELLYFISH_LAST, BETWEEN), OCELOT)
    branch = Fork(run.at(hypnotic, FOCUSED_FROM))
    focused = spoonbill("8b-focused-spoonbill", branch, (FOCUSED_FROM, BETWEEN), STARLING)
    deeper = spoonbill("8b-deeper-spoonbill", Fork(run.at(focused, DEEPER_FROM)), (DEEPER_FROM, END), STARLING)
    arms = {"no z-loss": hypnotic, "z-loss": focused}
    scores = {name: run.score(arm.label, arm, items) for name, arm in {**arms, "deeper": deeper}.items()}
    verdict = Compare(label="8b-spoonbill", arms=scores, baseline="no z-loss", primary=("bpb/",))
    first, end = run.step(827_000), run.step(BETWEEN)
    training = CompareTrainings(
        label="8b-spoonbill",
        arms=arms,
        baseline="z-loss",
        readings={
            "log Z": Reading(metric="held_out/log_z", first=first, end=end),
            "norm of lm_head at the end": Reading(metric="norm/lm_head", first=end - 1, end=end),
            "held-out loss": Reading(metric="held_out/micro_loss", first=first, end=end),
        },
    )
    return Experiment(issue=916, question=__doc__, results={**scores, "comparison": verdict, "training": training})


if __name__ == "__main__":
    executor_main(build)
