"""The report of a mixture search: how well models predict held-out proxies, the optimum, and whether to believe it."""

# pyright: basic
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marin.errors import NothingScored
from marin.evaluation.families.mixture_models import (
    FAMILIES,
    Array,
    Checked,
    Model,
    checked,
    chosen,
    cross_validated,
)
from marin.evaluation.families.mixture_optimum import Goal, Optimum, optimum, refitted
from marin.evaluation.families.shares import LEAST, Shares, least_proxies, rounded
from marin.evaluation.metric_names import in_words, is_better_lower, measure_of

REFITS = 200
REFIT_CANDIDATES, REFIT_AVERAGED = 2_000, 32  # as CANDIDATES and AVERAGED, for models without gradient
LEVEL = 0.05
PREDICTS = 0.01  # largest p of the rank correlation on held-out proxies; low, because families are chosen by them
SURE = 1 - LEVEL / 2  # share of refits that must predict a gain
MOVED = 0.01  # least L1 distance from natural of a mixture that is called another one
ADVISED = 3  # proxies for each unknown, as Olmix advises

OPTIMUM, NATURAL, BEST_PROXY = "optimum", "natural", "best proxy"


@dataclass(frozen=True, kw_only=True)
class Proxy:
    """A small run. shares: of its mixture. metrics: of its evaluation."""

    shares: Shares
    metrics: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class Search:
    """A mixture search. natural, bounds: by source. objective: weights by metric. penalty: see ``Goal``. least: smaller
    shares are 0."""

    natural: Shares
    bounds: Shares
    objective: Mapping[str, float]
    penalty: float
    least: float = LEAST
    seed: int = 0
    refits: int = REFITS


def mixture_report(proxies: Sequence[Proxy], search: Search) -> tuple[dict[str, Any], list[str]]:
    """Return report.json and the headline. ``mixtures`` in report.json has the shares of OPTIMUM, NATURAL, BEST_PROXY.

    Where the proxies do not tell, the verdict is INCONCLUSIVE and the optimum is the natural mixture.
    Raises NothingScored for fewer than ``least_proxies``, and for a metric that is not finite.
    """
    names = list(search.natural)
    if len(proxies) < least_proxies(len(names)):
        raise NothingScored(
            f"{len(proxies)} proxies for {len(names)} sources; wanted at least {least_proxies(len(names))}: a model "
            f"has {len(names) + 1} unknowns, and a fifth of the proxies is held out"
        )
    fit = _Fit.of(proxies, search)
    goal = fit.goal(fit.models)
    found = optimum(goal, seed=search.seed)
    caps = [search.bounds[name] for name in names]
    shares = np.array(rounded(found.shares.tolist(), caps, search.least))
    optima, gains = fit.refit(shares)
    total = checked(fit.held_out(), fit.total)
    best = int(fit.total.argmin())
    predicted = goal.predict(np.array([shares, fit.natural, fit.shares[best]]))
    sure = float(np.mean(gains > 0))
    verdict, answer, more = _decision(fit, total, found, shares, predicted, sure)
    kept = shares if verdict == "FOUND" else fit.natural
    low, high = np.percentile(optima, [100 * LEVEL / 2, 100 * SURE], axis=0)
    mixtures = {
        OPTIMUM: dict(zip(names, kept.tolist(), strict=True)),
        NATURAL: dict(search.natural),
        BEST_PROXY: dict(zip(names, fit.shares[best].tolist(), strict=True)),
    }
    made: dict[str, Any] = {
        "verdict": verdict,
        "answer": answer,
        "more": more,
        "mixtures": mixtures,
        "paste": paste(mixtures[OPTIMUM]),
        "objective": dict(search.objective),
        "penalty": search.penalty,
        "reach": found.reach,
        "sure": sure,
        "refits": search.refits,
        "held_out": {"rank": total.rank, "p": total.p, "error": total.error, "of_spread": total.of_spread},
        "predicted": dict(zip((OPTIMUM, NATURAL, BEST_PROXY), predicted.tolist(), strict=True)),
        "sources": {
            name: {
                "natural": search.natural[name],
                "bound": search.bounds[name],
                "sampled": [float(fit.shares[:, at].min()), float(fit.shares[:, at].max())],
                "optimum": float(shares[at]),
                "low": float(min(low[at], shares[at])),
                "high": float(max(high[at], shares[at])),
            }
            for at, name in enumerate(names)
        },
        "models": {
            metric: {
                "chosen": fit.families[metric],
                "errors": {
                    name: {"rank": one.rank, "error": one.error, "of_spread": one.of_spread}
                    for name, one in fit.checks[metric].items()
                },
            }
            for metric in search.objective
        },
        "proxies": [
            {"shares": dict(each.shares), "actual": float(actual), "predicted": float(guess)}
            for each, actual, guess in zip(proxies, fit.total, fit.held_out(), strict=True)
        ],
    }
    return made, [answer, *more, made["paste"]]


def paste(shares: Shares) -> str:
    """Return the text that makes a mixture of these shares in an experiment."""
    named = sorted(((share, name) for name, share in shares.items() if share), key=lambda pair: (-pair[0], pair[1]))
    return f"mixture({{{', '.join(f'{name}: {share:g}' for share, name in named)}}})"


@dataclass(frozen=True, kw_only=True)
class _Fit:
    """Shapes: shares (K, M), metrics (K,) turned so that lower is better, total (K,) their weighted sum."""

    search: Search
    shares: Array
    natural: Array
    metrics: Mapping[str, Array]
    weights: Mapping[str, float]
    total: Array
    checks: Mapping[str, Mapping[str, Checked]]
    families: Mapping[str, str]
    models: Mapping[str, Model]

    @classmethod
    def of(cls, proxies: Sequence[Proxy], search: Search) -> _Fit:
        names = list(search.natural)
        shares = np.array([[each.shares.get(name, 0.0) for name in names] for each in proxies], np.float64)
        metrics: dict[str, Array] = {}
        for metric in search.objective:
            values = np.array([each.metrics[metric] for each in proxies], np.float64)
            if not np.isfinite(values).all():
                at = int((~np.isfinite(values)).argmax())
                raise NothingScored(f"{metric} of proxy {at} is {values[at]}; evaluate that proxy again")
            metrics[metric] = values if is_better_lower(metric) else -values
        whole = sum(search.objective.values())
        weights = {metric: weight / whole for metric, weight in search.objective.items()}
        checks = {metric: cross_validated(shares, values, seed=search.seed) for metric, values in metrics.items()}
        families = {metric: chosen(checks[metric], values) for metric, values in metrics.items()}
        return cls(
            search=search,
            shares=shares,
            natural=np.array([search.natural[name] for name in names], np.float64),
            metrics=metrics,
            weights=weights,
            total=np.sum([weights[metric] * values for metric, values in metrics.items()], axis=0),
            checks=checks,
            families=families,
            models={metric: FAMILIES[families[metric]](shares, values) for metric, values in metrics.items()},
        )

    def goal(self, models: Mapping[str, Model]) -> Goal:
        return Goal(
            models=[models[metric] for metric in self.metrics],
            weights=[self.weights[metric] for metric in self.metrics],
            natural=self.natural,
            bounds=np.array([self.search.bounds[name] for name in self.search.natural], np.float64),
            sampled=self.shares,
            penalty=self.search.penalty,
        )

    def held_out(self) -> Array:
        """Return the objective that models without the proxy predict of each (K,)."""
        return np.sum(
            [self.weights[metric] * self.checks[metric][self.families[metric]].predicted for metric in self.metrics],
            axis=0,
        )

    def refit(self, shares: Array) -> tuple[Array, Array]:
        """Return the optima of refits (R, M), and the gain over natural that each predicts of ``shares`` (R,)."""
        gains: list[float] = []

        def fit(drawn: NDArray[np.int64]) -> Optimum:
            models = {
                metric: FAMILIES[self.families[metric]](self.shares[drawn], values[drawn], self.models[metric])
                for metric, values in self.metrics.items()
            }
            goal = self.goal(models)
            natural, other = goal.predict(np.array([self.natural, shares]))
            gains.append(float(natural - other))
            return optimum(goal, seed=self.search.seed, candidates=REFIT_CANDIDATES, averaged=REFIT_AVERAGED)

        optima = refitted(fit, self.search.refits, len(self.shares), seed=self.search.seed)
        return optima, np.array(gains)


def _decision(
    fit: _Fit, total: Checked, found: Optimum, shares: Array, predicted: Array, sure: float
) -> tuple[str, str, list[str]]:
    """Return the verdict in a word, the answer in a sentence, and further sentences."""
    names, count = list(fit.search.natural), len(fit.shares)
    gain = float(predicted[1] - predicted[0])
    told = (
        f"On held-out proxies the models have a rank correlation of {total.rank:.2f} and an error of "
        f"{total.error:.2g}, {total.of_spread:.0%} of their spread."
    )
    if total.p > PREDICTS:
        answer = "INCONCLUSIVE: the models do not predict held-out proxies, so the natural mixture is kept."
        return "INCONCLUSIVE", answer, [_would_help(count, len(names)), told]
    if np.abs(shares - fit.natural).sum() < MOVED:
        return "NATURAL", "NATURAL: no mixture is predicted to be better than the natural one.", [told]
    if sure < SURE:
        answer = f"INCONCLUSIVE: {1 - sure:.0%} of the refits predict no gain over the natural mixture, which is kept."
        return "INCONCLUSIVE", answer, [_would_help(count, len(names)), told]
    written = ", ".join(
        f"{name} {share:.2f}"
        for share, name in sorted(zip(shares, names, strict=True), key=lambda one: (-one[0], one[1]))
    )
    answer = f"FOUND: {written}. Predicted gain over the natural mixture: {gain:.3g} {_unit(fit.search.objective)}."
    more = [told]
    if found.reach < 1:
        more.append(
            f"The models are lowest beyond the proxies, which cover {found.reach:.0%} of the way there from the "
            "natural mixture. The optimum is pulled back to the best mixture between proxies."
        )
    at_bound = [name for at, name in enumerate(names) if shares[at] >= fit.search.bounds[name] - 1e-3 < 1 - 1e-3]
    if at_bound:
        more.append(f"At the bound of repetition: {', '.join(at_bound)}.")
    if count < ADVISED * (len(names) + 1):
        more.append(f"Olmix advises {ADVISED * (len(names) + 1)} proxies for {len(names)} sources; these are {count}.")
    return "FOUND", answer, more


def _would_help(count: int, sources: int) -> str:
    if count < (advised := ADVISED * (sources + 1)):
        return f"Give proxies={advised} and run again; marin trains only the new proxies."
    return "Train each proxy longer, or score on more text: noise hides the effect of the shares."


def _unit(objective: Mapping[str, float]) -> str:
    measures = {measure_of(metric) for metric in objective}
    if len(objective) == 1:
        return f"{measures.pop()} on {in_words(next(iter(objective)))}"
    return f"{measures.pop()}, weighted over {len(objective)} metrics" if len(measures) == 1 else "by the weights"
