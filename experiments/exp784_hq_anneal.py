"""Exp 784: is high-quality text worth including in the 8B's cooldown, by itself?

Question: do 30 % of Dolma's high-quality parts (papers, mathematics, encyclopedia) beat the usual mixture in a short
cooldown, on tasks and not on loss?
Arms: the usual mixture (the control); 70 % usual mixture with 30 % of all parts together; at full scale also with 30 %
of each part alone.
Start: Kestrel before its last decay, optimizer state kept; the learning rate goes to zero over 50 B tokens.
Decision: the verdict, from GSM8K in both prompt formats; at full scale also from MMLU and HellaSwag. The retrospective
found better loss on high-quality text, and worse tasks. A rehearsal cannot show that: problems like the task's, in
other forms, replace most of these parts. A rehearsal only tries the machinery. README.md has its result.
Issue: https://github.com/marin-community/marin/issues/784
"""

from experiments.microanneal_8b import HQ, SETS, microannealed
from marin import Experiment, Scale, executor_main, mixture
from operators.datasets.mixtures import microannealing

TOKENS = 50e9


def build(scale: Scale) -> Experiment:
    parts = SETS if scale is Scale.FULL else ()
    candidates = {"hq": HQ} | {name: mixture({f"dolma/{name}": 1.0}) for name in parts}
    mixes = {name: microannealing(shares, flan=0) for name, shares in candidates.items()}
    annealed = microannealed("hq", scale, mixes, tokens=TOKENS)
    return Experiment(issue=784, question=__doc__, results={"verdict": annealed.verdict})


if __name__ == "__main__":
    executor_main(build)
