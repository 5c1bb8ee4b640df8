"""How often a random linear permutation clumps a batch more than Feistel nearly ever does.

One seed can be lucky or unlucky; this answers over many.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from marin.data.permutation import Permutation, draw_feistel, draw_linear
from marin.errors import BadField

TAIL = 0.001  # of Feistel batches are beyond the threshold on either side


@dataclass(frozen=True, kw_only=True)
class SpreadOverSeeds:
    """Pairs of a batch from one block, relative to independent draws: 1 is what chance gives.

    clumped_above, even_below: the .999 and .001 quantiles of Feistel batches. clumped_batches,
    even_batches: share of linear batches beyond them; clumped_seeds: share of linear seeds with at
    least one clumped batch. *_of_feistel: the same shares for other Feistel seeds (expected near .001
    of batches). linear_quantiles: of the ratio over linear batches, at .01 .5 .9 .99 1.
    """

    length: int
    draws: int
    block: int
    seeds: int
    batches_per_seed: int
    clumped_above: float
    even_below: float
    clumped_batches: float
    clumped_seeds: float
    even_batches: float
    clumped_batches_of_feistel: float
    clumped_seeds_of_feistel: float
    linear_quantiles: list[float]


def spread_over_seeds(
    length: int, draws: int, block: int, *, seeds: int = 500, batches_per_seed: int = 4, seed: int = 0
) -> SpreadOverSeeds:
    """Compare linear with Feistel walks of one source over ``seeds`` seeds each.

    length: sequences in the source, in blocks of ``block`` consecutive ones that resemble each other.
    draws: sequences of the source in one batch. The batches are consecutive, from the start of an
    epoch. Raises BadField where no batch could show a pair.
    """
    if draws < 2 or not 1 < block < length or draws * batches_per_seed > length:
        raise BadField(
            f"spread over seeds: {batches_per_seed} batches of {draws} from {length} sequences in blocks of {block}: "
            "a batch needs 2 draws or more, a block more than one sequence and less than all, and the batches one epoch"
        )

    def ratios(draw: Callable[..., Permutation], role: str) -> NDArray[np.float64]:
        return np.array(
            [
                _pair_ratio(draw(length, seed, role, each), length, draws, block, batches_per_seed)
                for each in range(seeds)
            ]
        )

    reference, others, linear = ratios(draw_feistel, "a"), ratios(draw_feistel, "b"), ratios(draw_linear, "a")
    low, high = np.quantile(reference, (TAIL, 1 - TAIL))
    return SpreadOverSeeds(
        length=length,
        draws=draws,
        block=block,
        seeds=seeds,
        batches_per_seed=batches_per_seed,
        clumped_above=float(high),
        even_below=float(low),
        clumped_batches=float((linear > high).mean()),
        clumped_seeds=float((linear > high).any(axis=1).mean()),
        even_batches=float((linear < low).mean()),
        clumped_batches_of_feistel=float((others > high).mean()),
        clumped_seeds_of_feistel=float((others > high).any(axis=1).mean()),
        linear_quantiles=np.quantile(linear, (0.01, 0.5, 0.9, 0.99, 1)).tolist(),
    )


def spread_sentence(spread: SpreadOverSeeds) -> str:
    """The finding, for people."""
    return (
        f"walking {spread.length:,} sequences, {spread.draws:,} a batch, in blocks of {spread.block:,}: a random "
        f"linear permutation clumps {spread.clumped_batches:.1%} of batches (in {spread.clumped_seeds:.1%} of seeds) "
        f"more than 99.9 % of Feistel's are, and makes {spread.even_batches:.1%} more even than 99.9 % of Feistel's"
    )


def _pair_ratio(walk: Permutation, length: int, draws: int, block: int, batches: int) -> NDArray[np.float64]:
    """(batches,) pairs of a batch in one block over their expectation for draws without repeats."""
    of_block = walk(np.arange(draws * batches)).reshape(batches, draws) // block
    batch = np.repeat(np.arange(batches), draws)
    blocks = -(-length // block)
    codes, held = np.unique(batch * blocks + of_block.ravel(), return_counts=True)
    pairs = np.bincount(codes // blocks, weights=held * (held - 1) / 2, minlength=batches)
    sizes = np.full(blocks, block)
    sizes[-1] = length - (blocks - 1) * block
    chance = float((sizes * (sizes - 1.0)).sum()) / (length * (length - 1.0))
    return pairs / (draws * (draws - 1) / 2 * chance)
