"""Exp 1: does a quality filter help on my own text?

Question: does a model predict held-out text better if its training text was filtered?
Arms: the whole text; the text that the rules for prose keep.
Decision: bits per byte of the held-out tenth.
"""

from marin import Experiment, Scale, executor_main
from marin.text.presets import PROSE
from operators.compare import Compare
from operators.filter import Filter

from my_project.own_text import OwnText


def build(scale: Scale) -> Experiment:
    own = OwnText(scale)
    filtered = Filter(documents=own.training, quality=PROSE, max_removed=0.9, label="filtered")
    arms = {
        "all": own.score(own.train("all", own.training)),
        "filtered": own.score(own.train("filtered", filtered)),
    }
    verdict = Compare(arms=arms, baseline="all", label="filter")
    return Experiment(issue=1, question=__doc__, results={**arms, "comparison": verdict})


if __name__ == "__main__":
    executor_main(build)
