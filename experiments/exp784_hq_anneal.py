"""Exp 784: is high-quality text worth including in the 8B's cooldown, by itself?

Question: does 30 % of Dolma's high-quality parts (papers, mathematics, encyclopedia) beat the usual mixture in a short
cooldown, on tasks and not on loss?
Arms: the usual mixture (the control); 70 % of it and 30 % of all parts together; at full scale of each part alone, too.
Start: Kestrel before its last decay, optimizer state kept; the learning rate goes to zero over 50 B tokens.
Decision: the verdict, from GSM8K in both prompt formats, at full scale MMLU and HellaSwag, too. The retrospective
found loss on such text better, tasks worse. What stands for most of these parts in a rehearsal are problems like the
task's, in other forms, so it tries the machinery and cannot show that. What came of it: README.md.
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
