"""Exp 2: learning rate.

Question: which peak learning rate predicts held-out text best? (An example: write your own question.)
Arms: 2e-3, 5e-3 and 1e-2, with two seeds each.
Decision: bits per byte of the held-out tenth, with intervals over seeds.
"""

from marin import Experiment, Scale, executor_main
from operators.compare import Compare

from my_project.own_text import OwnText

LEARNING_RATES = (2e-3, 5e-3, 1e-2)
SEEDS = (0, 1)


def build(scale: Scale) -> Experiment:
    own = OwnText(scale)
    arms = {
        f"lr {lr:g}": tuple(
            own.score(own.train(f"lr {lr:g}, seed {seed}", own.training, lr=lr, seed=seed)) for seed in SEEDS
        )
        for lr in LEARNING_RATES
    }
    verdict = Compare(arms=arms, baseline="lr 0.005", label="learning rate")
    return Experiment(issue=2, question=__doc__, results={"comparison": verdict})


if __name__ == "__main__":
    executor_main(build)
