"""Exp 820: does FLAN repair what high-quality text does to tasks?

Question: Dolma's high-quality parts have no questions with answers, and no choices by letter; FLAN has both. Do 15 %
FLAN beside 15 % high quality beat the usual mixture? Do 30 % FLAN alone?
Arms: the usual mixture (the control; in a rehearsal experiment 784's runs); 70/30 FLAN; 70/15/15 FLAN and high quality.
Start: Kestrel before its last decay, optimizer state kept; the learning rate goes to zero over 8.4 B tokens.
Decision: the verdict, from GSM8K in both prompt formats; at full scale also from MMLU and HellaSwag. The retrospective
found the three together best, and FLAN alone worse than the control. A rehearsal does not show that: problems of the
task's kind replace FLAN, and the checkpoint has trained for 114 steps. README.md has the rehearsal's result.
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
