"""FLOPs in words."""

from __future__ import annotations


def in_flops(value: float) -> str:
    """Return "1e19", "2.5e19"."""
    mantissa, _, exponent = f"{value:.1e}".partition("e")
    return f"{mantissa.removesuffix('.0')}e{int(exponent)}"
