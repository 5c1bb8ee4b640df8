"""Microannealings whose truth is known: arms that differ in luck alone, or by a known gain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from marin.evaluation.adoption import Verdict, decide
from marin.evaluation.gains import Measured, Values

MARGIN = 0.1


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """luck, of_items, both: each arm's deviations by seed, by item, and by both.

    loud: the arm with six times the luck. group: number of items that share ``of_items``, or their mean if ``uneven``.
    correlated: correlation of the luck of one arm's seeds. gain: the first candidate's gain. deciding: number of items
    that differ, if not all do. of_guard: the gain on a guard of the same kind.
    """

    arms: int = 2
    seeds: int = 3
    items: int = 100
    luck: float = 0.017
    of_items: float = 0.1
    both: float = 0.1
    loud: int | None = None
    group: int = 1
    uneven: bool = False
    correlated: float = 0.0
    gain: float = 0.0
    deciding: int | None = None
    of_guard: float | None = None


LUCKY = Experiment(luck=0.1, of_items=0.02, both=0.02)  # seeds spread by more than items do
TENS = Experiment(items=250, group=10)
NULLS: Mapping[str, Experiment] = {
    "equal luck, one candidate": Experiment(),
    "equal luck, three candidates": Experiment(arms=4),
    "equal luck, seven candidates, seeds spread most": replace(LUCKY, arms=8),
    "one arm of four with six times the luck of seeds": replace(LUCKY, arms=4, loud=1),
    "one arm of eight": replace(LUCKY, arms=8, loud=1),
    "the control, of four arms": replace(LUCKY, arms=4, loud=0),
    "the control, of eight arms": replace(LUCKY, arms=8, loud=0),
    "250 items in groups of 5": replace(TENS, group=5),
    "250 items in groups of 10": TENS,
    "250 items in groups of 25": replace(TENS, group=25),
    "250 items in groups of 1 to 60, 10 in the mean": replace(TENS, uneven=True),
    "a guard lost its margin, items in tens": replace(TENS, gain=1.0, of_guard=-MARGIN),
    "two seeds": Experiment(seeds=2),
    "two seeds, two items": Experiment(seeds=2, items=2),
    "4 of 50 items differ": Experiment(items=50, deciding=4, gain=0.2, luck=0, of_items=0.0, both=0.0),
    "not promised: seeds of one arm correlated .7": replace(LUCKY, correlated=0.7),
}
FOUND: Mapping[str, Experiment] = {
    "gain .1, one candidate": Experiment(gain=0.1),
    "gain .1, one of three candidates": Experiment(gain=0.1, arms=4),
    "gain .1, one of seven candidates": Experiment(gain=0.1, arms=8),
    "gain .1, 250 items in groups of 5": replace(TENS, gain=0.1, group=5),
    "gain .3, one of three, seeds spread most": replace(LUCKY, gain=0.3, arms=4),
}


def adopted(made: Experiment, repetitions: int, seed: int = 0) -> float:
    """The share of so many experiments in which a candidate is adopted."""
    count = 0
    for repetition in range(repetitions):
        draw = np.random.default_rng((seed, repetition))
        primary, guards = measured(draw, made), list[tuple[Measured, float]]()
        if made.of_guard is not None:
            guards.append((replace(measured(draw, replace(made, gain=made.of_guard)), metric="guard/acc"), MARGIN))
        decisions = decide([primary], "arm0", margin=MARGIN, flags={}, family={}, guards=guards)
        count += any(one.verdict is Verdict.ADOPT for one in decisions.values())
    return count / repetitions


def measured(draw: np.random.Generator, made: Experiment) -> Measured:
    """The order of data of a seed and the items move all arms, by more than any difference does."""
    groups = _groups(draw, made)
    shared = draw.normal(0, 0.3, (made.seeds, 1)) + draw.normal(0, 1.0, made.items)
    amounts: dict[str, Values] = {}
    for arm in range(made.arms):
        luck = made.luck * (6 if arm == made.loud else 1)
        seeds = draw.normal(0, luck * np.sqrt(made.correlated)) + draw.normal(
            0, luck * np.sqrt(1 - made.correlated), (made.seeds, 1)
        )
        items = draw.normal(0, made.of_items, int(groups.max()) + 1)[groups]
        better = np.zeros(made.items) + (made.gain if arm == 1 else 0.0)
        if made.deciding is not None:
            better[made.deciding :] = 0
        amounts[f"arm{arm}"] = shared + seeds + items + better + draw.normal(0, made.both, (made.seeds, made.items))
    return Measured(
        metric="gsm/olmes/choice_probability",
        unit="share",
        higher_is_better=True,
        amounts=amounts,
        sizes=np.ones(made.items),
        groups=[str(group) for group in groups.tolist()] if made.group > 1 else (),
        by="passage" if made.group > 1 else "",
    )


def _groups(draw: np.random.Generator, made: Experiment) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """(items,) the group of each."""
    if not made.uneven:
        return np.arange(made.items) // made.group
    sizes = np.clip(draw.lognormal(np.log(made.group) - 0.5, 1, made.items), 1, 6 * made.group).astype(np.int64)
    return np.repeat(np.arange(made.items), sizes)[: made.items]
