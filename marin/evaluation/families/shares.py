"""Draw the shares of a swarm of proxies around the natural mixture, bounded by repetition.

Standard library only: experiments draw shares while they are built.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence

from marin.errors import BadField

STRENGTHS = tuple(round(0.1 * 50 ** (place / 14), 4) for place in range(15))  # 0.1 … 5, as RegMix and Olmix
LEAST = 0.002  # smaller shares are 0, as in Olmix
GRID = 10_000  # shares are multiples of 1 / GRID
APART = 0.01  # least L1 distance of two proxies
TRIES = 1_000  # draws for one proxy before the bounds are too tight
VARIED = 0.01  # least range of a source's shares over the proxies
FOLDS = 5  # of the cross-validation of models

type Shares = Mapping[str, float]


def least_proxies(sources: int) -> int:
    """Return the least number of proxies of which four fifths are as many as the unknowns of a model.

    The unknowns are an offset and a rate for each source.
    """
    unknowns = sources + 1
    return next(count for count in range(unknowns, 9 * unknowns) if count - -(-count // FOLDS) >= unknowns)


def repetition_bounds(held: Mapping[str, float], target_tokens: float, max_epochs: float) -> dict[str, float]:
    """Return the largest share of each source in a target run: max_epochs · tokens / target tokens, at most 1.

    Olmix (Chen et al. 2026, arXiv 2602.12237). held: tokens of each source.
    Raises BadField if all sources together hold too little for the target run.
    """
    bounds = {name: min(1.0, max_epochs * tokens / target_tokens) for name, tokens in held.items()}
    if sum(bounds.values()) < 1:
        raise BadField(
            f"the sources hold {sum(held.values()):,.0f} tokens; {max_epochs:g} epochs of them do not make a run of "
            f"{target_tokens:,.0f} tokens. Add a source, raise max_epochs, or lower target_tokens"
        )
    return bounds


def draw_shares(
    natural: Shares, bounds: Shares, count: int, *, seed: int, least: float = LEAST
) -> list[dict[str, float]]:
    """Return ``count`` mixtures over the sources of ``natural``, the first of them natural itself.

    natural: shares that sum to 1. bounds: the largest share of each source. A draw is Dirichlet(strength · prior).
    The prior is in proportion to the square root of the natural shares; the strengths take turns (Liu et al. 2024,
    RegMix, arXiv 2407.01492). A share beyond its bound is cut to the bound, and the other sources get the excess in
    proportion. Shares below ``least`` are 0. A larger count adds mixtures and keeps the earlier ones.
    Raises BadField for bounds that leave no room for different mixtures, and for a source whose share hardly varies.
    """
    names = sorted(natural)
    prior = _normalised([math.sqrt(natural[name]) for name in names])
    caps = [bounds[name] for name in names]
    found: list[list[float]] = [[natural[name] for name in names]]
    while len(found) < count:
        number = len(found)
        draw = random.Random(f"{seed}/{number}")
        strength = STRENGTHS[number * 4 % len(STRENGTHS)]  # all strengths early: 4 and 15 have no common divisor
        for _ in range(TRIES):
            drawn = rounded(_within(_dirichlet(draw, [strength * share for share in prior]), caps), caps, least)
            if all(sum(abs(a - b) for a, b in zip(drawn, other, strict=True)) >= APART for other in found):
                found.append(drawn)
                break
        else:
            raise BadField(
                f"no proxy {number + 1} of {count} was found that differs from the others: the bounds of repetition "
                "leave no room. Raise max_epochs, lower target_tokens or proxies, or add a source"
            )
    for place, name in enumerate(names):
        ranged = [shares[place] for shares in found]
        if max(ranged) - min(ranged) < VARIED:
            raise BadField(
                f"no proxy varies {name}: its shares are {min(ranged):.4g} to {max(ranged):.4g}, at most "
                f"{bounds[name]:.4g} by repetition. Leave it out of the sources, or raise its tokens or max_epochs"
            )
    return [dict(zip(names, shares, strict=True)) for shares in found]


def _dirichlet(draw: random.Random, concentration: Sequence[float]) -> list[float]:
    """By logarithms, so that tiny concentrations do not all become 0: Γ(a) = Γ(a + 1) · U^(1/a)."""
    logs = [math.log(draw.gammavariate(a + 1, 1.0)) + math.log(1 - draw.random()) / a for a in concentration]
    return _normalised([math.exp(one - max(logs)) for one in logs])


def _normalised(values: Sequence[float]) -> list[float]:
    total = math.fsum(values)
    return [value / total for value in values]


def _within(shares: list[float], caps: Sequence[float]) -> list[float]:
    """Cut shares at their caps. The sources below their caps get the excess, in proportion to their shares."""
    for _ in caps:
        capped = [min(share, cap) for share, cap in zip(shares, caps, strict=True)]
        excess = 1 - math.fsum(capped)
        if excess <= 1e-12:
            return capped
        free = [at for at, cap in enumerate(caps) if capped[at] < cap]
        weight = math.fsum(capped[at] for at in free)
        room = math.fsum(caps[at] - capped[at] for at in free)
        for at in free:
            part = capped[at] / weight if weight > 1e-12 else (caps[at] - capped[at]) / room
            capped[at] += excess * part
        shares = capped
    return [min(share, cap) for share, cap in zip(shares, caps, strict=True)]


def rounded(shares: Sequence[float], caps: Sequence[float], least: float) -> list[float]:
    """Return multiples of 1 / GRID that sum to 1, without shares below ``least``, within the caps."""
    units = [math.floor(share * GRID) if share >= least else 0 for share in shares]
    while missing := GRID - sum(units):
        room = [math.floor(cap * GRID) - unit if unit else -1 for unit, cap in zip(units, caps, strict=True)]
        at = max(range(len(units)), key=lambda place: (min(room[place], units[place]), -place))
        if room[at] <= 0:  # the dropped sources are needed
            at = max(range(len(units)), key=lambda place: (caps[place] * GRID - units[place], -place))
            units[at] += missing
            break
        units[at] += min(missing, room[at])
    return [unit / GRID for unit in units]
