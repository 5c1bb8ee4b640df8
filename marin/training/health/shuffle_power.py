"""Measure how often the detector of correlated batches flags each permutation, and true shuffles (false alarms).

A source's files hold similar sequences. A batch with too many sequences of one file is clumped; a batch with too few is
too even. The measurement needs the order only, no training.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marin.data.mixture import Shuffle
from marin.data.permutation import draw
from marin.training.health.permutation_spread import pair_ratio, shuffled
from marin.training.health.shuffle import FAR, TRUE_SHUFFLE, rounded
from marin.training.health.shuffle_verdict import FOUND, NAMES, UNCLEAR

I64 = NDArray[np.int64]
FALSE_ALARMS = 0.01  # of true shuffles; above this share, the detector is not credible


def seen_by_seed(
    length: int, drawn: int, file: int, *, seeds: int, batches: int, seed: int
) -> dict[str, dict[str, Any]]:
    """Return {"clumped", "even": shares of flagged seeds, "z": quantiles} of each permutation and of true shuffles.

    The detector counts pairs from one file in a run's first ``batches`` batches of ``drawn`` sequences. It flags the
    run if the count is more than FAR standard deviations from the mean of reference shuffles. The reference shuffles
    and the judged true shuffles are different ones.
    """
    first = np.arange(drawn * batches)

    def pairs(walk: Callable[[int], I64]) -> NDArray[np.float64]:
        return np.array([pair_ratio(walk(at).reshape(batches, drawn), length, file).mean() for at in range(seeds)])

    reference = pairs(lambda at: shuffled(length, first.size, (seed, 0, at)))
    spread = float(reference.std(ddof=1)) or 1.0
    walks = {
        shuffle.value: pairs(lambda at, shuffle=shuffle: draw(shuffle, length, seed, "a", at)(first))
        for shuffle in Shuffle
    }
    walks[TRUE_SHUFFLE] = pairs(lambda at: shuffled(length, first.size, (seed, 1, at)))
    z = {kind: (found - reference.mean()) / spread for kind, found in walks.items()}
    return rounded(
        {
            kind: {
                "clumped": float((each > FAR).mean()),
                "even": float((each < -FAR).mean()),
                "z": np.quantile(each, (0, 0.25, 0.5, 0.75, 1)).tolist(),
            }
            for kind, each in z.items()
        }
    )


def power_verdict(sources: Mapping[str, Mapping[str, Mapping[str, Any]]], seeds: int) -> tuple[str, str]:
    """Return (found or inconclusive; sentences on the permutations and on false alarms) from seen_by_seed by source."""
    seen = {
        shuffle.value: {name: _flagged(walks[shuffle.value]) for name, walks in sources.items()} for shuffle in Shuffle
    }
    ranges = ", ".join(f"{_ranged([*shares.values()])} of {NAMES[kind.upper()]} walks" for kind, shares in seen.items())
    alarms, of = round(sum(_flagged(walks[TRUE_SHUFFLE]) for walks in sources.values()) * seeds), seeds * len(sources)
    false = f"of {of:,} true shuffles {alarms or 'none'}, which would be false alarms"
    believable = alarms / of <= FALSE_ALARMS
    linear = seen[Shuffle.LINEAR.value]
    by_source = ", ".join(f"{share:.0%} in {name}" for name, share in linear.items())
    return (
        FOUND if believable and max(linear.values()) > 0.5 else UNCLEAR,
        f"The detector flags {ranges}; {false}. Linear walks: {by_source}.",
    )


def _ranged(shares: Sequence[float]) -> str:
    """Return a range such as "10% to 97%"."""
    return " to ".join(dict.fromkeys(f"{share:.0%}" for share in (min(shares), max(shares))))


def _flagged(walk: Mapping[str, Any]) -> float:
    return float(walk["clumped"]) + float(walk["even"])
