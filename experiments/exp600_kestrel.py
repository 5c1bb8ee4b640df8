"""Exp 600, Kestrel: do short decays on the way tell what a cooldown would give? (8B, steps 0 to 660,000)

Question: WSD-S holds the peak rate and decays for a tenth of every 10,000 steps. How much better is the model after a
decay than a thousand steps before?
Arms: Kestrel before its last decay (step 659,000), and after the decay (660,000).
Start: scratch. End: 660,000, 2.768 T tokens.
Decision: bits per byte of every domain. Compare a finished model with a checkpoint after a decay.
The retrospective has cycles of 20,000 steps from step 200,000 on; the code has 10,000 throughout, as here.
Issue: https://github.com/marin-community/marin/issues/600
"""

from experiments.marin_8b import BEFORE_LAST_DECAY, KESTREL_END, Marin8B
from experiments.pipeline import Pipeline
from marin import Experiment, Scale, executor_main
from marin.training.readings import Reading
from operators.compare import Compare
from operators.compare_trainings import CompareTrainings
from operators.datasets import gsm8k


def build(scale: Scale) -> Experiment:
    items = gsm8k.test_items(scale)
    run = Marin8B(Pipeline(scale=scale, decontaminate_against=(items,)))
    kestrel = run.kestrel()
    arms = {"before": run.at(kestrel, BEFORE_LAST_DECAY), "decayed": run.at(kestrel, KESTREL_END)}
    scores = {name: run.score(f"8b-kestrel-{name}", checkpoint, items) for name, checkpoint in arms.items()}
    verdict = Compare(label="8b-kestrel", arms=scores, baseline="before", primary=("bpb/",))
    end, size = kestrel.end_step, run.size
    won = Reading(
        metric="loss",
        first=end - size.cycle_decay // 2,
        end=end,
        since=(end - size.cycle // 2, end - size.cycle_decay),
    )
    training = CompareTrainings(
        label="8b-kestrel", arms={"kestrel": kestrel}, baseline="kestrel", readings={"loss, late in the decay": won}
    )
    return Experiment(issue=600, question=__doc__, results={**scores, "comparison": verdict, "training": training})


if __name__ == "__main__":
    executor_main(build)
