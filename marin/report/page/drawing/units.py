"""Numbers as people read them: 2 m 05 s, 1.3 M, 4.2 GiB."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import cast

MINUS = "\N{MINUS SIGN}"
NARROW = "\N{NARROW NO-BREAK SPACE}"


def seconds(value: float | None) -> str:
    """0.4 s, 12 s, 2 m 05 s, 3 h 07 m; empty for None."""
    if value is None:
        return ""
    if value < 0.05:
        return f"0{NARROW}s" if value == 0 else f"<{NARROW}0.1{NARROW}s"
    if value < 9.95:
        return f"{value:.1f}{NARROW}s"
    whole = round(value)
    if whole < 60:
        return f"{whole}{NARROW}s"
    if whole < 3600:
        return f"{whole // 60}{NARROW}m {whole % 60:02d}{NARROW}s"
    return f"{whole // 3600}{NARROW}h {whole % 3600 // 60:02d}{NARROW}m"


def count(value: float | None) -> str:
    """1,234 below ten thousand, then three digits with k, M, B (10⁹), T (10¹²); powers of ten beyond."""
    if value is None:
        return ""
    size = abs(value)
    if size < 10_000:
        return f"{value:,.0f}"
    for scale, suffix in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if size >= 1e15:
            break
        if size >= scale:
            short = value / scale
            return f"{short:.{2 if abs(short) < 10 else 1 if abs(short) < 100 else 0}f}{NARROW}{suffix}"
    return f"{value:.2e}"


def tick(value: float) -> str:
    """A number on an axis: like count, without zeros that say nothing."""
    if abs(value) < 10_000:
        return f"{value:,.4g}".replace("-", MINUS)
    head, _, suffix = count(value).partition(NARROW)
    return f"{float(head):g}{NARROW}{suffix}".replace("-", MINUS) if suffix else head


def storage(value: float | None) -> str:
    """Bytes in binary units."""
    if value is None:
        return ""
    for scale, suffix in ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if value >= scale:
            return f"{value / scale:.1f}{NARROW}{suffix}"
    return f"{value:.0f}{NARROW}B"


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
