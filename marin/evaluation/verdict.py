"""The verdict of a contamination report, in plain words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from marin.evaluation.answer import signed
from marin.evaluation.statistics import BEYOND, errors_from_zero

FOUND, ABSENT, UNCLEAR = "found", "not found", "inconclusive"


def contamination_verdict(made: dict[str, Any]) -> tuple[str, str]:
    """Return (found, not found or inconclusive; two or three sentences) for a marin.evaluation.contamination report.

    Counted reads prove contamination, even if scores do not show it. Without counts, scores that show nothing are
    inconclusive: a test of this size does not see a small exposure. Fragility that the clean arm shows as well is no
    sign of contamination.
    """
    arms, clean = made["arms"], made["clean"]
    suspects = [arm for arm in arms if arm != clean]
    exposure: dict[str, Any] = made.get("exposure", {})
    marked = [arm for arm in arms if _flagged(arms[arm], "contamination")]
    fragile = [arm for arm in arms if _flagged(arms[arm], "format fragility")]
    read = [arm for arm, held in exposure.items() if held["items"]]
    sentences = [*_reads(exposure), _marks(arms, suspects, marked, made["threshold"])]
    if fragile:
        sentences.append(_fragility(fragile, clean))
    if any(arm in marked or arm in read for arm in suspects):
        finding = FOUND
    elif clean in marked or clean in read or not set(suspects) <= exposure.keys():
        finding = UNCLEAR
    else:
        finding = ABSENT
    return finding, " ".join(sentences)


def _flagged(arm: dict[str, Any], sign: str) -> list[dict[str, Any]]:
    """Return the signs beyond the threshold, in the direction of contamination."""
    return [one for one in _signs(arm, sign) if one["flagged"] and one["value"] > 0]


def _signs(arm: dict[str, Any], sign: str) -> list[dict[str, Any]]:
    return [one for one in (*arm["findings"], *arm["contrast"]) if one["sign"] == sign]


def _reads(exposure: dict[str, Any]) -> list[str]:
    if not exposure:
        return []
    parts = [
        f"{arm} read {held['items']} of {held['of']} test items, {held['copies']} times in all"
        if held["items"]
        else f"{arm} read none of {held['of']}"
        for arm, held in exposure.items()
    ]
    return [f"By count, {'; '.join(parts)}."]


def _marks(arms: dict[str, Any], suspects: Sequence[str], marked: Sequence[str], threshold: float) -> str:
    if marked:
        parts: list[str] = []
        for arm in marked:
            flagged, signs = _flagged(arms[arm], "contamination"), _signs(arms[arm], "contamination")
            most = max(flagged, key=_z)
            parts.append(
                f"{arm} by {len(flagged)} of {len(signs)} signs, most by the {most['name']} "
                f"({signed(most['value'])} {most['unit']}, {errors_from_zero(_z(most))})"
            )
        return f"Scores show training on test items: {'; '.join(parts)}."
    largest = [(_z(one), arm) for arm in suspects for one in _signs(arms[arm], "contamination")]
    if not largest:
        return "No sign of training on test items was measured."
    z, arm = max(largest)
    return (
        f"Scores show no sign of training on test items at this size (the clearest sign, in {arm}, is "
        f"{errors_from_zero(z)}; a flag takes {threshold:g})."
    )


def _fragility(fragile: Sequence[str], clean: str) -> str:
    others = [arm for arm in fragile if arm != clean]
    if not others:
        return f"One prompt form became strange to {clean}, the clean arm, only: format fragility, not contamination."
    said = f"One prompt form became strange to {' and '.join(others)}"
    if clean in fragile:
        return f"{said}, and to {clean}, the clean arm, too: format fragility, not contamination."
    return f"{said} and not to {clean}: format fragility, which fits training on another format but proves nothing."


def _z(one: dict[str, Any]) -> float:
    """Return z; BEYOND in place of infinity."""
    return float(one["z"]) if one["z"] is not None else BEYOND if one["value"] > 0 else -BEYOND
