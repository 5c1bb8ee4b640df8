"""What the evidence about shuffling says, in plain words."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from marin.training.health.shuffle import FAR

FOUND, ABSENT, UNCLEAR = "found", "not found", "inconclusive"
NAMES = {"LINEAR": "linear", "FEISTEL": "Feistel"}
LEANING = 3.0  # |z| from which the direction is worth a word

# +1: larger is more clumped; -1: larger is more even. Phase is neither: it compares batches, not draws in one.
CLUMPED: Mapping[str, int] = {"same_group": 1, "near": 1, "discrepancy": 1, "mean_position": 1, "coverage": -1}


def shuffle_verdict(arms: Mapping[str, dict[str, Any]]) -> tuple[str, str]:
    """(found, not found or inconclusive; one sentence an arm and one on other seeds) of run_evidence by arm.

    Found: a linear walk is far from independent draws and no Feistel walk is. Inconclusive: neither is, but most
    other seeds of the linear walk would lie outside every Feistel walk; or both are.
    """
    linear = [arm for arm, each in arms.items() if each["shuffle"] == "LINEAR"]
    far = {arm for arm, each in arms.items() if any(abs(_z(held)) > FAR for held in each["measures"].values())}
    told = _told(arms, far)
    outside = 0.0
    for arm in linear:
        share, sentence = _seeds(arm, arms[arm]["over_seeds"])
        outside = max(outside, share)
        told += [sentence] if sentence else []
    if far:
        return (FOUND if far <= set(linear) else UNCLEAR), " ".join(told)
    return (UNCLEAR if outside > 0.5 else ABSENT), " ".join(told)


def towards(name: str, z: float) -> str:
    """In which direction a measure departs from independent draws."""
    if name not in CLUMPED:
        return "consecutive batches alike" if z > 0 else "consecutive batches opposed"
    return "too clumped" if z * CLUMPED[name] > 0 else "too even"


def _told(arms: Mapping[str, dict[str, Any]], far: Collection[str]) -> list[str]:
    """A sentence on each arm that is far, and one on all that are not."""
    told = [f"{_who(arm, arms[arm])} departs from independent draws: {_ways(arms[arm], FAR)}." for arm in sorted(far)]
    rest = [arm for arm in arms if arm not in far]
    if rest:
        leaning = [(arm, ways) for arm in rest if (ways := _ways(arms[arm], LEANING))]
        lean = "; ".join(f"{arm} leans towards {ways}" for arm, ways in leaning)
        named = " and ".join(_who(arm, arms[arm]) for arm in rest)
        told.append(f"{named} cannot be told from independent draws at this size{f'; {lean}' if lean else ''}.")
    return told


def _who(arm: str, each: dict[str, Any]) -> str:
    return f"{arm} ({NAMES.get(each['shuffle'], each['shuffle'])})"


def _ways(each: dict[str, Any], beyond: float) -> str:
    """ "too even (coverage z +7.1, near z −6.0)"; "" if no measure is beyond."""
    z = {name: _z(held) for name, held in each["measures"].items() if abs(_z(held)) > beyond}
    most = sorted(z, key=lambda name: -abs(z[name]))
    ways = " and ".join(dict.fromkeys(towards(name, z[name]) for name in most))
    return f"{ways} ({', '.join(f'{name} z {_signed(z[name])}' for name in most[:2])})" if most else ""


def _seeds(arm: str, over: Mapping[str, dict[str, Any]]) -> tuple[float, str]:
    """Share of linear walks outside all Feistel walks on the measure that tells most, and the sentence."""
    held = {name: one for name, one in over.items() if name in CLUMPED}
    if not held:
        return 0.0, ""
    most = max(held, key=lambda name: _outside(held[name]))
    above, below = held[most]["linear_above_all_feistel"], held[most]["linear_below_all_feistel"]
    clumped, even = (above, below) if CLUMPED[most] > 0 else (below, above)
    return above + below, (
        f"Over {held[most]['seeds']} seeds, {100 * (above + below):.0f} % of linear walks of {arm}'s data fall "
        f"outside every Feistel walk in {most} ({100 * even:.0f} % too even, {100 * clumped:.0f} % too clumped)."
    )


def _outside(held: dict[str, Any]) -> float:
    return held["linear_above_all_feistel"] + held["linear_below_all_feistel"]


def _z(held: dict[str, Any]) -> float:
    """Beyond measure counts as 99."""
    return float(held["z"]) if held["z"] is not None else 99.0


def _signed(value: float) -> str:
    return f"{value:+.1f}".replace("-", "\N{MINUS SIGN}")
