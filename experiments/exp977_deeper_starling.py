"""Exp 977, Deeper Starling: does the cooled-down 8B improve further at its last rate? (steps 1,399,923 to 1,420,000)

Question: the decay has ended at a hundredth of the peak. Do 0.34 T more tokens at that rate help?
Arms: Starling's end, and Deeper Starling's end, which is Marin 8B.
Start: step 1,399,923 of Starling, optimizer state kept. End: 1,420,000, 12.751 T tokens.
Decision: bits per byte of every domain. At full scale also the tasks of the retrospective's table, beside the table's
numbers for this model and two others. The training text was decontaminated against GSM8K only, as the plan warns.
Issue: https://github.com/marin-community/marin/issues/977
"""

from experiments.marin_8b import Marin8B
from experiments.pipeline import Pipeline
from marin import Experiment, Scale, executor_main
from operators.compare import Compare
from operators.datasets import gsm8k

PUBLISHED = ("Marin 8B Base (Deeper Starling)", "Llama 3.1 8B Base", "OLMo 2 7B Base")


def build(scale: Scale) -> Experiment:
    items = gsm8k.test_items(scale)
    run = Marin8B(Pipeline(scale=scale, decontaminate_against=(items,)))
    arms = {"starling": run.starling(), "deeper": run.deeper_starling()}
    scores = {name: run.score(f"8b-{name}", checkpoint, items) for name, checkpoint in arms.items()}
    verdict = Compare(label="8b-deeper-starling", arms=scores, baseline="starling", primary=("bpb/",))
    results = {**scores, "comparison": verdict}
    if scale is Scale.FULL:
        suite = {name: run.score_suite(f"8b-{name}", checkpoint) for name, checkpoint in arms.items()}
        results["suite"] = Compare(label="8b-suite", arms=suite, baseline="starling", published=PUBLISHED)
    return Experiment(issue=977, question=__doc__, results=results)


if __name__ == "__main__":
    executor_main(build)
