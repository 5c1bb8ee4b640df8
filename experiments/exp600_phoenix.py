"""Exp 600, Phoenix: can a cooled-down model go back to its peak rate on other data? (8B, steps 819,924 to 1,320,000)

Question: Phoenix warms the rate up again in 2,000 steps. In these steps it reads the old mixture and Nemotron-CC side
by side. Does the loss spike, and for how long is the cooldown's gain lost?
Arms: Phoenix, as it was. Control: the peak rate and Nemotron-CC alone at once, without the 2,000 steps.
Start: step 819,924 of Jellyfish, optimizer state kept. End of the comparison: 830,000; Phoenix itself ends at
1,320,000, 11.073 T tokens.
Decision: held-out loss during the warmup and right after; bits per byte of every domain at 830,000.
Later accounts say that the mixtures were interpolated. The code has one stage with both mixtures' sources by weight.
Issue: https://github.com/marin-community/marin/issues/600
"""

from experiments.marin_8b import JELLYFISH_LAST, REWARMED, Marin8B, published_until
from experiments.pipeline import Pipeline
from marin import Experiment, Scale, executor_main
from marin.training.readings import Reading
from operators.compare import Compare
from operators.compare_trainings import CompareTrainings
from operators.datasets import gsm8k
from operators.datasets.mixtures import PHOENIX, PHOENIX_ALONE_FROM, PHOENIX_FROM
from operators.start import Fork

HELD_OUT = "held_out/micro_loss"


def build(scale: Scale) -> Experiment:
    items = gsm8k.test_items(scale)
    run = Marin8B(Pipeline(scale=scale, decontaminate_against=(items,)))
    phoenix = run.phoenix()
    abrupt = run.train(
        "8b-phoenix-abrupt",
        steps=(JELLYFISH_LAST, REWARMED),
        start=Fork(run.cooled()),
        data={**published_until(PHOENIX_FROM), PHOENIX_FROM: PHOENIX},
        schedule=run.rewarmed(0),
    )
    arms = {"phoenix": run.at(phoenix, REWARMED), "abrupt": run.at(abrupt, REWARMED)}
    scores = {name: run.score(f"8b-{name}-rewarmed", checkpoint, items) for name, checkpoint in arms.items()}
    verdict = Compare(label="8b-phoenix", arms=scores, baseline="abrupt", primary=("bpb/",))
    start, peak, end = map(run.step, (PHOENIX_FROM, PHOENIX_ALONE_FROM, REWARMED))
    training = CompareTrainings(
        label="8b-phoenix",
        arms={"phoenix": phoenix, "abrupt": abrupt},
        baseline="abrupt",
        readings={
            "held-out loss, first 2,000 steps": Reading(metric=HELD_OUT, first=start, end=peak),
            "held-out loss, the 8,000 after them": Reading(metric=HELD_OUT, first=peak, end=end),
            "norm of the gradient, first 2,000 steps": Reading(metric="grad_norm", first=start, end=peak),
        },
    )
    return Experiment(issue=600, question=__doc__, results={**scores, "comparison": verdict, "training": training})


if __name__ == "__main__":
    executor_main(build)
