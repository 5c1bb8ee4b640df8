"""Exp 2: which learning rate?

Question: which peak learning rate predicts held-out text best?
Arms: 2e-3, 5e-3 and 1e-2, with two seeds each.
Decision: bits per byte of the held-out tenth, with intervals over seeds.
"""

from own_text import score, train, training

from marin import Experiment, Scale, executor_main
from marin_operators.compare import Compare

LEARNING_RATES = (2e-3, 5e-3, 1e-2)
SEEDS = (0, 1)


def build(scale: Scale) -> Experiment:
    arms = {
        f"lr {lr:g}": tuple(
            score(train(f"lr {lr:g}, seed {seed}", training, scale, lr=lr, seed=seed)) for seed in SEEDS
        )
        for lr in LEARNING_RATES
    }
    verdict = Compare(arms=arms, baseline="lr 0.005", label="learning rate")
    return Experiment(issue=2, question=__doc__, results={"comparison": verdict})


if __name__ == "__main__":
    executor_main(build)
