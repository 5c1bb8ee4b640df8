"""Exp 2345: which shares of Nemotron-CC, StarCoder and ProofPile 2 should a 32B read?

Question: the 32B read these sources by their size. Do small proxies find shares that are better on web text, code and
mathematics together, if no source is read more than four times?
Arms: the natural mixture; the optimum of a fit over 64 proxies (a rehearsal: 8, of three sources); the best proxy.
Start: from scratch: a Llama of 6 layers and 3 B tokens a proxy, as many as Olmix gives. New seeds for the validation.
Decision: the comparison, by bits per byte of Paloma's C4 and code and of GSM8K's answers. It ranks mixtures for
proxies: only a large run can test whether the 32B ranks them alike.
Issue: https://github.com/marin-community/marin/issues/2345
"""

from experiments.swarm import Swarm
from marin import Experiment, Scale, executor_main
from operators.datasets import gsm8k
from operators.mixture_search import MixtureSearch


def search(swarm: Swarm) -> MixtureSearch:
    """Return the proxies, their fit and the validation."""
    size, tokens = swarm.size, swarm.data.tokens
    return MixtureSearch(
        label="swarm",
        sources={tokens(name): held for name, held in size.held.items()},
        natural={tokens(name): weight for name, weight in size.natural.items()},
        recipe=swarm.proxy,
        score=swarm.score,
        objective=dict.fromkeys(size.objective, 1.0),
        target_tokens=size.target,
        proxies=size.proxies,
        seeds=size.seeds,
    )


def build(scale: Scale) -> Experiment:
    found = search(Swarm(scale=scale, items=gsm8k.test_items(scale)))
    return Experiment(issue=2345, question=__doc__, results={"search": found.report, "comparison": found.verdict})


if __name__ == "__main__":
    executor_main(build)
