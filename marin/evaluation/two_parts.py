"""The significance of a difference that varies with the seeds of runs and with the texts that are scored.

Three seeds say little about the spread of seeds; many texts say much about the spread of texts. Satterthwaite's pooled
degrees of freedom would let lucky seeds pass too often: 11 % instead of 5 % with two seeds, 7 % with three. So each
part keeps its own degrees of freedom. The p-values are weighed by the parts' shares of the variance, as Cochran weighs
critical values (Biometrics 20, 1964, p. 191). This errs on the safe side.
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

FEWEST = 10  # texts, or groups of texts, that a conclusion needs
DECIDING = 6.0  # texts that must carry a difference: a sign test on fewer cannot reach 5 %
FAR = 1e5  # standard errors


@dataclass(frozen=True, kw_only=True)
class TwoParts:
    """The variance of a mean in two parts.

    of_seeds, of_texts: the variance that each adds. freedoms: the degrees of freedom of (seeds, texts). candidates: the
    number tried at once against one control.
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
        """Return the seeds' share of the variance."""
        return self.of_seeds / (self.of_seeds + self.of_texts)

    def p(self, distance: float) -> float:
        """Return Dunnett's p: the chance that any candidate is this far from the control if none differs."""
        return self._chance(abs(distance) / self.se) if self.se else 0.0 if distance else 1.0

    def critical(self, level: float) -> float:
        """Return the number of standard errors whose p is this level."""
        return root(lambda t: self._chance(t) - level, FAR, 1e-6) if self.se else 0.0

    def _chance(self, t: float) -> float:
        seeds, texts = (dunnett_p(t, self.candidates, freedom) for freedom in self.freedoms)
        return self.share * seeds + (1 - self.share) * texts


def root(of: Callable[[float], float], most: float, near: float) -> float:
    """Return the zero of a function between 0 and ``most``."""
    found: Any = brentq(of, 0.0, most, xtol=near)
    return float(found)


def deciding(parts: npt.NDArray[np.float64]) -> float:
    """Return the effective number of parts of a sum: 4 if 4 of 50 texts make all of a difference, equally."""
    squares = float((parts**2).sum())
    return float(np.abs(parts).sum()) ** 2 / squares if squares else 0.0


def too_few(texts: int, carry: float, what: str = "items") -> str:
    """Return why these texts cannot show a difference; "" if they can."""
    if texts < FEWEST:
        return f"{texts} {what} are too few to show anything, it takes {FEWEST}"
    return f"only about {carry:.0f} of {texts} {what} make the difference" if 0 < carry < DECIDING else ""
