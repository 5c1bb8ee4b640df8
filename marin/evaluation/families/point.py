"""A point of a sweep's grid: the value of each parameter."""

from __future__ import annotations

from collections.abc import Sequence

type Point = tuple[float, ...]


def in_words(names: Sequence[str], point: Sequence[float]) -> str:
    """Return "lr 0.003, weight_decay 0.1"."""
    return ", ".join(f"{name} {value:g}" for name, value in zip(names, point, strict=True))
