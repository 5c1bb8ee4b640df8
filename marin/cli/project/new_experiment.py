"""Exp 2: learning rate.

Question: which peak learning rate predicts held-out text best? (An example: write what you ask.)
Arms: 2e-3, 5e-3 and 1e-2, with two seeds each.
Decision: bits per byte of the held-out tenth, over seeds.
"""

from marin import Experiment, Scale, executor_main
from operators.sweep import Sweep
from operators.train import Train

from my_project.own_text import OwnText

LEARNING_RATES = (2e-3, 5e-3, 1e-2)


def build(scale: Scale) -> Experiment:
    own = OwnText(scale)

    def train(lr: float, seed: int) -> Train:
        return own.train("sweep", own.training, lr=lr, seed=seed)

    sweep = Sweep(
        over={"lr": LEARNING_RATES}, seeds=2, run=train, score=own.score, primary="bpb/own", label="learning rate"
    )
    return Experiment(issue=2, question=__doc__, results={"sweep": sweep.report})


if __name__ == "__main__":
    executor_main(build)
