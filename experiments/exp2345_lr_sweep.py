"""Exp 2345, a sweep: at which learning rate should the proxies of the swarm train?

Question: Marin's ladder gives the proxies of experiment 2345 a peak rate of 0.33 · √batch / hidden. Is the minimum of
their loss near that rate?
Arms: five peak rates, a factor of two apart, around the ladder's; three seeds each (a rehearsal: two).
Start: from scratch, on the natural mixture. End: as a proxy of experiment 2345.
Decision: bits per byte of web text over seeds. A best rate at the edge of the grid is INCONCLUSIVE.
Issue: https://github.com/marin-community/marin/issues/2345
"""

from dataclasses import replace

from experiments.swarm import Swarm
from marin import Experiment, Scale, executor_main, mixture
from operators.datasets import gsm8k
from operators.sweep import Sweep
from operators.train import Train

FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)


def build(scale: Scale) -> Experiment:
    swarm = Swarm(scale=scale, items=gsm8k.test_items(scale))
    size = swarm.size
    natural = mixture({swarm.data.tokens(name): weight for name, weight in size.natural.items()})

    def train(lr: float, seed: int) -> Train:
        run = swarm.proxy(natural, seed)
        return replace(run, optimizer=replace(run.optimizer, peak_lr=lr))

    sweep = Sweep(
        label="swarm-lr",
        over={"lr": tuple(factor * size.peak_lr for factor in FACTORS)},
        seeds=size.seeds,
        run=train,
        score=swarm.score,
        primary=size.objective[0],
    )
    return Experiment(issue=2345, question=__doc__, results={"sweep": sweep.report})


if __name__ == "__main__":
    executor_main(build)
