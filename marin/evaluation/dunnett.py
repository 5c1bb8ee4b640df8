"""Dunnett's test: several candidates against one control, two-sided, at one family-wise level.

P(max |T_k| < t) for T of correlation 1/2 (equally many runs in each arm). scipy.stats.dunnett takes raw samples with
one variance, but our errors cover items, too. SciPy also integrates at random points, and reports must come out equal
every time.
Source: Dunnett 1955, J. Am. Stat. Assoc. 50, p. 1096.
"""

# pyright: basic
from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.special import gammaincinv, ndtr, stdtr  # not scipy.stats: as exact, and a second sooner imported

OUTER, INNER = 64, 24  # points of the integrals: p to 1e-5


def dunnett_p(t: float, candidates: int, freedom: float) -> float:
    """Return the chance that the largest |T| of these candidates is at least |t| if none differs from the control."""
    if candidates == 1:
        return float(2 * stdtr(freedom, -abs(t)))
    scale, weight, z, mass = _points(freedom)
    reach = np.sqrt(2) * abs(t) * scale[:, None]
    within = ndtr(reach - z) - ndtr(-reach - z)
    return float(min(1.0, max(0.0, 1 - weight @ (within**candidates @ mass))))


@lru_cache(maxsize=128)
def _points(freedom: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return (scale, weight) over the error's estimate, and (z, mass) over the control's luck."""
    x, weight = np.polynomial.legendre.leggauss(OUTER)
    # t³ crowds points at small estimates, because the tail of few degrees of freedom lies there.
    share = ((x + 1) / 2) ** 3
    z, mass = np.polynomial.hermite_e.hermegauss(INNER)
    scale = np.sqrt(2 * gammaincinv(freedom / 2, share) / freedom)
    return scale, weight / 2 * 3 * ((x + 1) / 2) ** 2, z, mass / np.sqrt(2 * np.pi)
