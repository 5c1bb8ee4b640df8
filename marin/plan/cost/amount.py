"""Amounts of bytes of which some are estimated, and some nobody can know yet."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from marin.errors import BadField

_UNITS = {"": 1, "B": 1} | {
    f"{letter}{ending}": base**power
    for power, letter in enumerate("KMGTP", start=1)
    for ending, base in (("B", 1000), ("iB", 1024))
}
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]*)?)\s*([A-Za-z]*)")


@dataclass(frozen=True)
class Amount:
    """Of bytes."""

    bytes: int = 0
    estimated: int = 0  # the part of them that is a guess: see marin.plan.cost.plan_cost
    unknown: tuple[str, ...] = ()  # names of outputs whose size nobody can know before they are made

    def __add__(self, other: Amount) -> Amount:
        return total((self, other))

    def __bool__(self) -> bool:
        return bool(self.bytes or self.unknown)


def total(amounts: Iterable[Amount]) -> Amount:
    """In one pass: of a plan of many steps each may have an output of unknown size."""
    every = list(amounts)
    unknown = dict.fromkeys(name for amount in every for name in amount.unknown)
    return Amount(sum(each.bytes for each in every), sum(each.estimated for each in every), tuple(unknown))


def parse_size(text: str) -> int:
    """Bytes: ``500GiB``, ``1.5 TB``, ``0``, ``4096``. Raises BadField."""
    found = _SIZE.fullmatch(text.strip())
    units = {unit.lower(): size for unit, size in _UNITS.items()}
    if found is None or found[2].lower() not in units:
        raise BadField(f"{text!r} is no size; wanted a number and a unit, such as 500GiB, 1.5TiB or 0")
    return round(float(found[1]) * units[found[2].lower()])
