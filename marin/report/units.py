"""Numbers on a page, beside those of marin.store.numbers: ticks, signs, facts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import cast

from marin.store.numbers import write_count

MINUS = "\N{MINUS SIGN}"


def tick(value: float) -> str:
    """A number on an axis, without zeros that say nothing."""
    text = f"{value:,.4g}" if abs(value) < 10_000 else write_count(value)
    return text.replace("-", MINUS)


def signed(value: float, digits: int) -> str:
    """+0.12 or −0.12, with a real minus; an exact or rounded zero has no sign."""
    text = f"{abs(value):.{digits}f}"
    if not text.strip("0."):
        return text
    return ("+" if value > 0 else MINUS) + text


def fixed(value: float, digits: int) -> str:
    """A number with this many digits and a real minus."""
    return f"{value:.{digits}f}".replace("-", MINUS)


def minus(text: str) -> str:
    """The text with a real minus before each negative number; hyphens in words and ranges stay."""
    return re.sub(r"(?<![\w.)\]-])-(?=\.?\d)", MINUS, text)


def fact(value: object) -> str:
    """A fact of an artifact on one line."""
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.5g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {fact(item)}" for key, item in cast(Mapping[object, object], value).items())
    if isinstance(value, list | tuple):
        return ", ".join(fact(item) for item in cast(list[object], value))
    return str(value)
