"""How sure a difference is that varies with the seeds of runs and with the texts that they were scored on.

Three seeds say little of how far seeds spread, many texts much of how far texts do. Adding up degrees of freedom as
Satterthwaite does would let three seeds with one luck pass too often (11 % for 5 % with two seeds, 7 % with three). So
each part keeps its own, and chances are weighed by the parts' shares of the variance, as Cochran does with critical
values (Biometrics 20, 1964, p. 191). That errs to the safe side.
"""

# pyright: basic
from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq

from marin.evaluation.dunnett import dunnett_p

FEWEST = 10  # texts, or groups of texts, that are looked at before anything is concluded
DECIDING = 6.0  # texts that must carry a difference: a sign test of fewer cannot reach 5 %
FAR = 1e5  # standard errors


@dataclass(frozen=True, kw_only=True)
class TwoParts:
    """of_seeds, of_texts: what each adds to the variance of a mean. freedoms: degrees of, of both.

    candidates: how many were tried at once against one control.
    """

    of_seeds: float
    of_texts: float
    freedoms: tuple[float, float]
    candidates: int = 1

    @property
    def se(self) -> float:
        return math.sqrt(self.of_seeds + self.of_texts)

    @property
    def share(self) -> float:
        """The seeds' of the variance."""
        return self.of_seeds / (self.of_seeds + self.of_texts)

    def p(self, distance: float) -> float:
        """Dunnett's: the chance that the luckiest of all candidates is so far from the control if none differs."""
        return self._chance(abs(distance) / self.se) if self.se else 0.0 if distance else 1.0

    def critical(self, level: float) -> float:
        """The standard errors that are passed with this chance."""
        return root(lambda t: self._chance(t) - level, FAR, 1e-6) if self.se else 0.0

    def _chance(self, t: float) -> float:
        seeds, texts = (dunnett_p(t, self.candidates, freedom) for freedom in self.freedoms)
        return self.share * seeds + (1 - self.share) * texts


def root(of: Callable[[float], float], most: float, near: float) -> float:
    """Where a function of 0 to ``most`` is zero."""
    found: Any = brentq(of, 0.0, most, xtol=near)
    return float(found)


def deciding(parts: npt.NDArray[np.float64]) -> float:
    """As how many equal ones these parts of a sum are: 4 where 4 of 50 texts make all of a difference."""
    squares = float((parts**2).sum())
    return float(np.abs(parts).sum()) ** 2 / squares if squares else 0.0


def too_few(texts: int, carry: float, what: str = "items") -> str:
    """Why so many texts show no difference, "" if they may."""
    if texts < FEWEST:
        return f"{texts} {what} show nothing, {FEWEST} may"
    return f"no more than {carry:.0f} of {texts} {what} make the difference" if 0 < carry < DECIDING else ""
