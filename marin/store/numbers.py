"""Write amounts for people: counts, floating-point operations, chip-hours, bytes, durations, times, lists of names."""

from __future__ import annotations

import time
from collections.abc import Sequence

_SCALES = ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "K"), (1.0, ""))


def counted(count: int, one: str, many: str = "") -> str:
    """Return ``1 output`` or ``1,200 outputs``. many: a plural other than the singular with an s."""
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"


def listed(names: Sequence[str], most: int) -> str:
    """Return ``a, b and 3 more``, with at most ``most`` names."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def write_count(amount: float) -> str:
    """Return ``12.35K`` or ``1.074T``, with four significant digits."""
    for scale, letter in _SCALES:
        # Round first: 999,960 is 1M, not 1000K.
        scaled = float(f"{amount / scale:.4g}")
        if scaled >= 1 or scale == 1.0:
            return f"{scaled:,.10g}{letter}"
    raise AssertionError("the last scale takes every amount")


def write_tokens(tokens: float) -> str:
    """Return ``1.074T tokens``, with four significant digits."""
    return f"{write_count(tokens)} token{'' if tokens == 1 else 's'}"


def write_flops(flops: float) -> str:
    """Return ``2.064e23 FLOPs``, with four significant digits, as papers write budgets."""
    mantissa, exponent = f"{flops:.3e}".split("e")
    return f"{mantissa}e{int(exponent)} FLOPs"


def write_chip_hours(hours: float) -> str:
    """Return ``526,154 chip-hours``, with one decimal below 100."""
    return f"{hours:,.0f} chip-hours" if hours >= 99.95 else f"{hours:.1f} chip-hours"


def write_bytes(count: float) -> str:
    """Return ``1.2 GiB`` or ``512 B``."""
    if count < 1024:
        return f"{count:,.0f} B"
    for letter in "KMGTPE":
        count /= 1024
        # Round first: 1,048,570 B is 1.0 MiB, not 1,024.0 KiB.
        if round(count, 1) < 1024 or letter == "E":
            return f"{count:,.1f} {letter}iB"
    raise AssertionError("exbibytes take every amount")


def write_duration(seconds: float) -> str:
    """Return ``0.42 s``, ``3.1 s``, ``12 s``, ``3 min 5 s`` or ``2 h 14 min``."""
    if seconds < 10:
        return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds:.2f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600:,} h {whole % 3600 // 60} min"


def write_time(seconds: float | None = None) -> str:
    """Return a local time such as ``2026-11-21 13:21:12``: now, or some seconds since 1970."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))
