"""Judge the evidence about shuffling, in plain words."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from marin.training.health.batches import IN_WORDS
from marin.training.health.shuffle import FAR

FOUND, ABSENT, UNCLEAR = "found", "not found", "inconclusive"
NAMES = {"LINEAR": "linear", "FEISTEL": "Feistel", "SPLITMIX": "mixed Feistel"}
LEANING = 3.0  # |z| from which the sentence names the direction
BEYOND = 99.0  # stands for an infinite z

# +1: larger is more clumped; -1: larger is more even. Phase is neither: it compares batches, not draws within a batch.
CLUMPED: Mapping[str, int] = {
    "same_group": 1, "near": 1, "discrepancy": 1, "mean_position": 1, "parity": 1, "remainder": 1, "coverage": -1,
}  # fmt: skip


def shuffle_verdict(arms: Mapping[str, dict[str, Any]]) -> tuple[str, str]:
    """Return (found, not found or inconclusive; sentences on the arms and on other seeds) from run_evidence by arm.

    Found: by some measure, a linear walk is far from independent draws and no other walk is. Inconclusive: some walk is
    far, but no linear walk stands out; or no walk is far, but most other seeds of the linear walk lie outside every
    true shuffle.
    """
    linear = [arm for arm, each in arms.items() if each["shuffle"] == "LINEAR"]
    far_by = {
        arm: {name for name, held in each["measures"].items() if abs(_z(held)) > FAR} for arm, each in arms.items()
    }
    far = {arm for arm, names in far_by.items() if names}
    elsewhere = set[str]().union(*(names for arm, names in far_by.items() if arm not in linear))
    sentences = _told(arms, far)
    outside = 0.0
    for arm, each in arms.items():
        share, sentence = _seeds(arm, each)
        outside = max(outside, share if arm in linear else 0.0)
        sentences += [sentence] if sentence else []
    if any(far_by[arm] - elsewhere for arm in linear):
        return FOUND, " ".join(sentences)
    return (UNCLEAR if far or outside > 0.5 else ABSENT), " ".join(sentences)


def towards(name: str, z: float) -> str:
    """Name the direction in which a measure departs from independent draws."""
    if name not in CLUMPED:
        return "consecutive batches alike" if z > 0 else "consecutive batches opposed"
    return "too clumped" if z * CLUMPED[name] > 0 else "too even"


def _told(arms: Mapping[str, dict[str, Any]], far: Collection[str]) -> list[str]:
    """Return a sentence on each arm that is far from independent draws, and one on the other arms."""
    sentences = [
        f"{_who(arm, arms[arm])} departs from independent draws: {_ways(arms[arm], FAR)}." for arm in sorted(far)
    ]
    rest = [arm for arm in arms if arm not in far]
    if rest:
        leaning = [(arm, ways) for arm in rest if (ways := _ways(arms[arm], LEANING))]
        lean = "; ".join(f"{arm} leans towards {ways}" for arm, ways in leaning)
        named = " and ".join(_who(arm, arms[arm]) for arm in rest)
        sentences.append(f"{named} cannot be told from independent draws at this size{f'; {lean}' if lean else ''}.")
    return sentences


def _who(arm: str, each: dict[str, Any]) -> str:
    return f"{arm} ({NAMES.get(each['shuffle'], each['shuffle'])})"


def _ways(each: dict[str, Any], beyond: float) -> str:
    """Return "too even (neighbours in a batch 6.0 standard deviations below chance)"; "" if no measure is beyond."""
    z = {name: _z(held) for name, held in each["measures"].items() if abs(_z(held)) > beyond}
    most = sorted(z, key=lambda name: -abs(z[name]))
    ways = " and ".join(dict.fromkeys(towards(name, z[name]) for name in most))
    return f"{ways} ({', '.join(f'{IN_WORDS[name]} {_departure(z[name])}' for name in most[:2])})" if most else ""


def _seeds(arm: str, each: Mapping[str, Any]) -> tuple[float, str]:
    """Return the share of the permutation's walks outside all true shuffles, by the clearest measure, also in words."""
    kind = str(each["shuffle"]).lower()
    sides = {
        name: (over["above"][kind], over["below"][kind]) for name, over in each["over_seeds"].items() if name in CLUMPED
    }
    if not sides:
        return 0.0, ""
    most = max(sides, key=lambda name: sum(sides[name]))
    clumped, even = sides[most][:: CLUMPED[most]]
    return clumped + even, (
        f"Over {each['over_seeds'][most]['seeds']} seeds, {100 * (clumped + even):.0f} % of {NAMES[each['shuffle']]} "
        f"walks of {arm}'s data fall outside every true shuffle by their {IN_WORDS[most]} ({100 * even:.0f} % too "
        f"even, {100 * clumped:.0f} % too clumped)."
    )


def _z(held: dict[str, Any]) -> float:
    """Return a measure's z; BEYOND if z is infinite."""
    return float(held["z"]) if held["z"] is not None else BEYOND


def _departure(z: float) -> str:
    far = f"over {BEYOND:.0f}" if abs(z) >= BEYOND else f"{abs(z):.1f}"
    return f"{far} standard deviations {'above' if z > 0 else 'below'} chance"
