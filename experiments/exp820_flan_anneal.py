"""Exp 820: does FLAN repair what high-quality text does to tasks?

Question: Dolma's high-quality parts have no questions with answers, and no choices by letter; FLAN has both. Does 15 %
of it beside 15 % of high quality beat the usual mixture, and does 30 % of it alone?
Arms: the usual mixture (the control; in a rehearsal experiment 784's runs); 70/30 FLAN; 70/15/15 FLAN and high quality.
Start: Kestrel before its last decay, optimizer state kept; the learning rate goes to zero over 8.4 B tokens.
Decision: the verdict, from GSM8K in both prompt formats, at full scale MMLU and HellaSwag, too. The retrospective
found the three together best, FLAN alone worse than the control. A rehearsal does not show that: what stands for FLAN
in it are problems of the kind that the task asks, and its checkpoint has seen 114 steps. What came of it: README.md.
Issue: https://github.com/marin-community/marin/issues/820
"""

from experiments.microanneal_8b import HQ, microannealed
from marin import Experiment, Scale, executor_main
from operators.datasets.mixtures import microannealing

TOKENS = 8.4e9


def build(scale: Scale) -> Experiment:
    mixes = {"flan": microannealing(HQ, flan=0.3), "flan-hq": microannealing(HQ)}
    annealed = microannealed("flan", scale, mixes, tokens=TOKENS)
    return Experiment(issue=820, question=__doc__, results={"verdict": annealed.verdict})


if __name__ == "__main__":
    executor_main(build)
