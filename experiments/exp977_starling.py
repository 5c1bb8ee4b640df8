"""Exp 977, Starling: the second cooldown of the 8B, ten times as deep. (steps 1,320,000 to 1,400,000)

Question: Starling reads 70 % Nemotron-CC and 30 % high quality: FLAN and mathematics ten times over, with Markdown. It
has z-loss, and the rate decays to a hundredth. What does it give, and what does it do to text that ends in a space?
Arms: Phoenix's end, and Starling's end. For the endings also Jellyfish's end, whose mixture made Paloma's c4_en worse.
Control: each paragraph of held-out web text is scored without and with a space at its end; nothing else differs.
Start: step 1,320,000 of Phoenix, optimizer state kept; batch 4096 from the next step on. End: 1,400,000,
12.415 T tokens.
Decision: bits per byte of every domain.
The retrospective's table has ProofPile 2 once. The code weighs ProofPile 2 as StarCoder, about 4.5 times, as here.
all_math holds GSM8K's test items, as in Bison (1529): the scores on GSM8K are no evidence.
Issue: https://github.com/marin-community/marin/issues/977
"""

from experiments.marin_8b import Marin8B
from experiments.pipeline import Pipeline
from marin import Experiment, Scale, executor_main
from operators.compare import Compare
from operators.datasets import gsm8k
from operators.datasets.mixtures import STARLING_FROM


def build(scale: Scale) -> Experiment:
    items = gsm8k.test_items(scale)
    run = Marin8B(Pipeline(scale=scale, decontaminate_against=(items,)))
    arms = {"phoenix": run.at(run.phoenix(), STARLING_FROM), "starling": run.starling()}
    scores = {name: run.score(f"8b-{name}", checkpoint, items) for name, checkpoint in arms.items()}
    ends = {**arms, "jellyfish": run.jellyfish()}
    endings = {name: run.score_endings(f"8b-{name}", checkpoint) for name, checkpoint in ends.items()}
    results = {
        "comparison": Compare(label="8b-starling", arms=scores, baseline="phoenix", primary=("bpb/",)),
        "a space at the end": Compare(label="8b-starling-endings", arms=endings, baseline="jellyfish"),
    }
    return Experiment(issue=977, question=__doc__, results={**scores, **results})


if __name__ == "__main__":
    executor_main(build)
