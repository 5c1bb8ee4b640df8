"""Measure how often each permutation's walks make batches more clumped or more even than nearly all true shuffles.

One seed can be lucky or unlucky, so the measurement covers many seeds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from marin.data.mixture import Shuffle
from marin.data.permutation import draw
from marin.errors import BadField
from marin.training.health.batches import LARGEST_SHUFFLED
from marin.training.health.shuffle import TRUE_SHUFFLE

TAIL = 0.001  # share of a true shuffle's batches beyond the threshold, on either side
I64 = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class ClumpedShares:
    """Shares over many walks: batches beyond the tails of true shuffles, and seeds with at least one clumped batch.

    most: pairs in the most clumped batch, relative to chance.
    """

    clumped_batches: float
    clumped_seeds: float
    even_batches: float
    most: float


@dataclass(frozen=True, kw_only=True)
class SpreadOverSeeds:
    """The spread, over many seeds, of a batch's pairs from one block, relative to independent draws (chance gives 1).

    clumped_above, even_below: the .999 and .001 quantiles of batches of true shuffles. walks: by permutation, and for
    other true shuffles (expected near .001 of batches).
    """

    length: int
    draws: int
    block: int
    seeds: int
    batches_per_seed: int
    clumped_above: float
    even_below: float
    walks: dict[str, ClumpedShares]


def spread_over_seeds(
    length: int, draws: int, block: int, *, seeds: int = 500, batches_per_seed: int = 4, seed: int = 0
) -> SpreadOverSeeds:
    """Compare the walks of one source with true shuffles over ``seeds`` seeds each.

    length: sequences in the source. Each block of ``block`` consecutive sequences holds similar ones. draws: sequences
    of the source in one batch. The batches are consecutive, from the start of an epoch. Raises BadField if no batch
    could show a pair, or if the batches exceed one epoch.
    """
    if draws < 2 or not 1 < block < length or draws * batches_per_seed > length:
        raise BadField(
            f"spread over seeds: {batches_per_seed} batches of {draws} from {length} sequences in blocks of {block}; a "
            "batch needs at least 2 draws, a block more than one sequence and less than all, and the batches must fit "
            "into one epoch"
        )
    first = np.arange(draws * batches_per_seed)

    def ratios(walk: Callable[[int], I64]) -> NDArray[np.float64]:
        """Return the pair ratio of each batch: (seeds, batches)."""
        return np.array(
            [pair_ratio(walk(each).reshape(batches_per_seed, draws), length, block) for each in range(seeds)]
        )

    reference = ratios(lambda each: shuffled(length, first.size, (seed, 0, each)))
    low, high = np.quantile(reference, (TAIL, 1 - TAIL))
    found = {
        shuffle.value: ratios(lambda each, shuffle=shuffle: draw(shuffle, length, seed, "a", each)(first))
        for shuffle in Shuffle
    }
    found[TRUE_SHUFFLE] = ratios(lambda each: shuffled(length, first.size, (seed, 1, each)))
    return SpreadOverSeeds(
        length=length,
        draws=draws,
        block=block,
        seeds=seeds,
        batches_per_seed=batches_per_seed,
        clumped_above=float(high),
        even_below=float(low),
        walks={
            kind: ClumpedShares(
                clumped_batches=float((walked > high).mean()),
                clumped_seeds=float((walked > high).any(axis=1).mean()),
                even_batches=float((walked < low).mean()),
                most=float(walked.max()),
            )
            for kind, walked in found.items()
        },
    )


def spread_sentence(spread: SpreadOverSeeds) -> str:
    """Return the finding as a sentence."""
    walks = "; ".join(
        f"{kind}: {beyond.clumped_batches:.1%} more clumped (in {beyond.clumped_seeds:.1%} of seeds), "
        f"{beyond.even_batches:.1%} more even"
        for kind, beyond in spread.walks.items()
    )
    return (
        f"walking {spread.length:,} sequences, {spread.draws:,} a batch, in blocks of {spread.block:,}: batches beyond "
        f"99.9 % of a true shuffle's: {walks}"
    )


def shuffled(length: int, drawn: int, seed: tuple[int, ...]) -> I64:
    """Return the first ``drawn`` of a uniformly random order. A long source may repeat, but repeats are rare."""
    rng = np.random.default_rng(seed)
    return rng.permutation(length)[:drawn] if length <= LARGEST_SHUFFLED else rng.integers(0, length, drawn)


def pair_ratio(walked: I64, length: int, block: int) -> NDArray[np.float64]:
    """Return each batch's pairs in one block over their expectation without repeats: (batches, draws) → (batches,)."""
    batches, draws = (int(size) for size in walked.shape)
    of_block = walked // block
    batch: I64 = np.repeat(np.arange(batches), draws)
    blocks = -(-length // block)
    codes, held = np.unique(batch * blocks + of_block.ravel(), return_counts=True)
    pairs = np.bincount(codes // blocks, weights=held * (held - 1) / 2, minlength=batches)
    sizes = np.full(blocks, block)
    sizes[-1] = length - (blocks - 1) * block
    chance = float((sizes * (sizes - 1.0)).sum()) / (length * (length - 1.0))
    return pairs / (draws * (draws - 1) / 2 * chance)
