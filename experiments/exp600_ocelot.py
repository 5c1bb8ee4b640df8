"""Exp 600, Ocelot: what does the moving average tell about a run at its peak rate? (8B, steps 660,000 to 738,376)

Question: Ocelot has three times the batch, √3 times the rate, and no more decays. How far is the moving average of the
weights ahead of the weights themselves? Does a cooldown close the gap?
Arms: Ocelot's weights, and their average over the last steps. Control: the gap while Jellyfish cools down.
Start: step 660,000 of Kestrel, optimizer state kept; rotary positions change from θ 10,000 to Llama 3's. End: 738,376,
3.754 T tokens.
Decision: bits per byte of every domain. If the gap stays constant, the run goes well.
The retrospective's overview has a batch half as large again. Its section and the code have three times, as here.
Issue: https://github.com/marin-community/marin/issues/600
"""

from experiments.marin_8b import OCELOT_END, PHOENIX_FROM, Marin8B
from experiments.pipeline import Pipeline
from marin import Experiment, Scale, executor_main
from marin.training.readings import Reading
from operators.compare import Compare
from operators.compare_trainings import CompareTrainings
from operators.datasets import gsm8k
from operators.evaluate import Weights
from operators.train import Train

WEIGHTS, AVERAGED = "held_out/micro_loss", "held_out_ema/micro_loss"


def build(scale: Scale) -> Experiment:
    items = gsm8k.test_items(scale)
    run = Marin8B(Pipeline(scale=scale, decontaminate_against=(items,)))
    ocelot = run.ocelot()
    checkpoint = run.at(ocelot, OCELOT_END)
    scores = {
        "weights": run.score("8b-ocelot", checkpoint, items, Weights.LAST),
        "average": run.score("8b-ocelot-average", checkpoint, items, Weights.AVERAGED),
    }
    verdict = Compare(label="8b-ocelot", arms=scores, baseline="weights", primary=("bpb/",))

    def gap(name: str, training: Train, first: int, end: int) -> CompareTrainings:
        reading = Reading(metric=WEIGHTS, minus=AVERAGED, first=run.step(first), end=run.step(end))
        readings = {"held-out loss of the weights − of the average": reading}
        return CompareTrainings(label=f"gap-{name}", arms={name: training}, baseline=name, readings=readings)

    gaps = {
        "gap at the peak": gap("ocelot", ocelot, 700_000, OCELOT_END),
        "gap after the cooldown": gap("jellyfish", run.jellyfish(), PHOENIX_FROM - 15_000, PHOENIX_FROM),
    }
    return Experiment(issue=600, question=__doc__, results={**scores, "comparison": verdict, **gaps})


if __name__ == "__main__":
    executor_main(build)
