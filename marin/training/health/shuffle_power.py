"""How often the detector of correlated batches sees each permutation, and how often a true shuffle, a false alarm.

The source's files hold sequences that resemble each other; a batch with too many of one file is clumped, one with too
few is too even. No training, only order.
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
FALSE_ALARMS = 0.01  # of true shuffles; with more, the detector is not to be believed


def seen_by_seed(
    length: int, drawn: int, file: int, *, seeds: int, batches: int, seed: int
) -> dict[str, dict[str, Any]]:
    """By permutation, and of true shuffles: {"clumped", "even": shares of seeds that are flagged, "z": quantiles}.

    A run is flagged if the pairs of one file in its first ``batches`` batches of ``drawn`` are more than FAR standard
    deviations of true shuffles from their mean; those are other shuffles than the ones that are judged.
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
    """(found or inconclusive; a sentence on each permutation and one on false alarms) of seen_by_seed by source."""
    seen = {
        shuffle.value: {name: _flagged(walks[shuffle.value]) for name, walks in sources.items()} for shuffle in Shuffle
    }
    told = ", ".join(f"{_ranged([*shares.values()])} of {NAMES[kind.upper()]} walks" for kind, shares in seen.items())
    alarms, of = round(sum(_flagged(walks[TRUE_SHUFFLE]) for walks in sources.values()) * seeds), seeds * len(sources)
    false = f"of {of:,} true shuffles {alarms or 'none'}, which would be false alarms"
    believable = alarms / of <= FALSE_ALARMS
    linear = seen[Shuffle.LINEAR.value]
    by_source = ", ".join(f"{share:.0%} in {name}" for name, share in linear.items())
    return (
        FOUND if believable and max(linear.values()) > 0.5 else UNCLEAR,
        f"The detector flags {told}; {false}. Linear walks: {by_source}.",
    )


def _ranged(shares: Sequence[float]) -> str:
    """ "10% to 97%" """
    return " to ".join(dict.fromkeys(f"{share:.0%}" for share in (min(shares), max(shares))))


def _flagged(walk: Mapping[str, Any]) -> float:
    return float(walk["clumped"]) + float(walk["even"])
