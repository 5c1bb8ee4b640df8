"""Exp 600, Jellyfish: what does the first cooldown give, and what does it cost? (8B, steps 738,376 to 820,000)

Question: Jellyfish reads a trillion tokens, 70 % of the best of DCLM and 30 % of high quality, while the rate decays to
a tenth. Which text becomes better? Does text that ends in a space become worse, as Paloma's c4_en did?
Arms: Ocelot's end, and Jellyfish's end.
Control: each paragraph of held-out web text is scored without and with a space at its end; nothing else differs.
Paloma: every source in bits per byte, and the differences in form between the source and Jellyfish's text.
Start: step 738,376 of Ocelot, optimizer state kept; the decay begins at 740,500. End: 820,000, 4.781 T tokens.
Decision: bits per byte of every domain.
Issue: https://github.com/marin-community/marin/issues/600
"""

from experiments.marin_8b import OCELOT_END, Marin8B
from experiments.pipeline import Pipeline
from marin import Experiment, Scale, executor_main
from operators.compare import Compare
from operators.datasets import gsm8k, mixtures


def build(scale: Scale) -> Experiment:
    items = gsm8k.test_items(scale)
    run = Marin8B(Pipeline(scale=scale, decontaminate_against=(items,)))
    arms = {"ocelot": run.at(run.ocelot(), OCELOT_END), "jellyfish": run.jellyfish()}
    scores = {name: run.score(f"8b-{name}", checkpoint, items) for name, checkpoint in arms.items()}
    endings = {name: run.score_endings(f"8b-{name}", checkpoint) for name, checkpoint in arms.items()}
    paloma = {name: run.score_paloma(f"8b-{name}", checkpoint) for name, checkpoint in arms.items()}
    results = {
        "comparison": Compare(label="8b-jellyfish", arms=scores, baseline="ocelot", primary=("bpb/",)),
        "a space at the end": Compare(label="8b-jellyfish-endings", arms=endings, baseline="ocelot"),
        "paloma": Compare(label="8b-jellyfish-paloma", arms=paloma, baseline="ocelot"),
        "paloma's form": run.paloma_gaps("8b-jellyfish", mixtures.JELLYFISH),
    }
    return Experiment(issue=600, question=__doc__, results={**scores, **results})


if __name__ == "__main__":
    executor_main(build)
