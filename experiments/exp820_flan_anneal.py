"""Exp 820: does FLAN repair what high-quality text does to tasks?

Question: Dolma's high-quality parts have no questions with answers, and no choices by letter; FLAN has both. Does 15 %
of it beside 15 % of high quality beat the usual mixture, and does 30 % of it alone?
Arms: the usual mixture (the control; in a rehearsal experiment 784's runs); 70/30 FLAN; 70/15/15 FLAN and high quality.
Start: Kestrel before its last decay, optimizer state kept; the learning rate goes to zero over 8.4 B tokens.
Decision: the verdict, from GSM8K in both prompt formats. The retrospective found the three together best, FLAN
alone worse than the control. A rehearsal does not show that: what stands for FLAN in it are problems of the kind that
the task asks, and its checkpoint has seen 114 steps. An earlier rehearsal: ADOPT for both; bits per byte
of the answers in LM-Eval's and OLMES' format fall by 0.50 ± 0.17 and 1.15 ± 0.13 with FLAN alone, by 0.67 ± 0.17 and
1.16 ± 0.13 with both, while loss on code, prose and reference text rises: loss and tasks disagree.
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
