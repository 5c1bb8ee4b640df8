"""MixtureSearch: which shares of these sources? A small training on each of many mixtures, a fit, and a validation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

from marin import Context, ExecutorStep, Mix, Report, Scores, Tokens, mixture, value
from marin.data.mixture import source_name
from marin.data.searched import MIXTURES, Searched
from marin.errors import BadField
from marin.evaluation.families.shares import LEAST, draw_shares, least_proxies, repetition_bounds
from operators.compare import Compare
from operators.measured import measured_by
from operators.train import Train

PROXY_SEED = 0  # of all proxies; validations have the seeds after it
FOLDS_AND_UNKNOWNS = "a model has an unknown for each source and one more, and a fifth of the proxies is held out"
MAY_DIFFER = frozenset({"data", "label", "allow_starved"})  # between two proxies
NATURAL, OPTIMUM, BEST_PROXY = "natural", "optimum", "best proxy"

type Source = ExecutorStep[Tokens]
type TokenMix = Mix[Any]  # of token stores; any, because a mixture of Tokenize alone is another type


@value("mixture_proxy", kw_only=True)
class MixtureProxy:
    """A small run of a search. shares: of its mixture, by source name."""

    shares: Mapping[str, float]
    scores: ExecutorStep[Scores]


class FindMixture(ExecutorStep[Report], op="find-mixture"):
    """The shares that are predicted to be best, how far refits move them, and how well models predict held-out proxies.

    natural, bounds: shares by source name. objective: weights by metric. penalty: for the distance from the natural
    mixture, KL(shares ‖ natural), in the unit of the metrics. least: smaller shares are 0. refits: how many, each to
    proxies drawn with replacement. seed: of folds and refits. Output: report.json, and mixtures.json
    with the shares by source name of ``optimum``, ``natural`` and ``best proxy``. Where the proxies do not tell, the
    optimum is the natural mixture.
    """

    proxies: tuple[MixtureProxy, ...]
    natural: Mapping[str, float]
    bounds: Mapping[str, float]
    objective: Mapping[str, float]
    penalty: float = 0.05
    least: float = LEAST
    refits: int = 200
    seed: int = 0

    def run(self, ctx: Context) -> Report:
        import json

        from marin.evaluation.families.mixture_search import Proxy, Search, mixture_report
        from marin.evaluation.metric_names import measured_as

        found: list[Proxy] = []
        for each in self.proxies:
            metrics = ctx[each.scores].metrics
            for metric in self.objective:
                measured_as(metric, list(metrics), "MixtureSearch.objective")
            found.append(Proxy(shares=each.shares, metrics=metrics))
        search = Search(
            natural=self.natural,
            bounds=self.bounds,
            objective=self.objective,
            penalty=self.penalty,
            least=self.least,
            seed=self.seed,
            refits=self.refits,
        )
        made, headline = mixture_report(found, search)
        ctx.out.write_text("report.json", json.dumps(made, indent=1, sort_keys=True, allow_nan=False) + "\n")
        ctx.out.write_text(MIXTURES, json.dumps(made["mixtures"], indent=1, sort_keys=True) + "\n")
        return Report(headline=headline)


@dataclass(frozen=True, kw_only=True)
class MixtureSearch:
    """A training and an evaluation for each of many mixtures; ``report`` finds the shares predicted to be best.

    ::

        search = MixtureSearch(sources={web: 6e12, code: 3e11}, recipe=proxy, score=score, target_tokens=5e12,
                               objective={"bpb/web": 1, "bpb/code": 1})
        Experiment(…, results={"search": search.report, "verdict": search.verdict})
        Train(data=Stages({0: search.mixture}), …)

    All proxies have one seed, so they read the same text in the same order where their sources coincide. A proxy that
    is added later trains alone. ``verdict`` compares the optimum and the best proxy with the natural mixture, each
    trained with seeds that no proxy had. ``mixture`` is the optimum: its shares are known when the report is made.

    sources: the tokens that each token store holds. recipe: makes a training of a mixture and a seed; trainings must
    differ in these alone. score: makes the evaluation of a training. objective: weights of metrics, as the evaluation
    names them. target_tokens, max_epochs: tokens of the run that the mixture is for, and how often that run may read a
    source; they bound the shares. natural: weights of the mixture to depart from, None for the tokens of each source.
    penalty: see FindMixture. seeds: how many the validation has. validation: makes its trainings, None for ``recipe``.
    seed: of the draws.
    Raises BadField for fewer proxies than a model has unknowns, for a source that no proxy varies, and for natural
    shares that a target run may not read. Method: RegMix (Liu et al. 2024, arXiv 2407.01492) and Olmix (Chen et al.
    2026, arXiv 2602.12237).
    """

    sources: Mapping[Source, float]
    recipe: Callable[[TokenMix, int], Train]
    score: Callable[[Train], ExecutorStep[Scores]]
    objective: Mapping[str, float]
    target_tokens: float
    proxies: int = 64
    max_epochs: float = 4.0
    natural: Mapping[Source, float] | None = None
    penalty: float = 0.05
    seeds: int = 3
    validation: Callable[[TokenMix, int], Train] | None = None
    seed: int = 0
    label: str = "mixture"

    def __post_init__(self) -> None:
        self._check_amounts()
        self._check_natural()
        self._check_proxies()
        measured = measured_by([self.scores[0]])
        for metric in self.objective:
            if metric.endswith("/"):
                raise BadField(f"{self.label}: objective has {metric!r}; name each metric, with its weight")
            if measured is not None:
                measured.must_hold(f"{self.label}: objective", metric)

    @property
    def report(self) -> FindMixture:
        return FindMixture(
            label=self.label,
            proxies=tuple(
                MixtureProxy(shares=shares, scores=scores)
                for shares, scores in zip(self.shares, self.scores, strict=True)
            ),
            natural=self._natural,
            bounds=self._bounds,
            objective=self.objective,
            penalty=self.penalty,
            least=self._least,
        )

    @property
    def mixture(self) -> Searched[Source]:
        """The optimum of ``report``, or the natural mixture where the report finds none."""
        return self._found(OPTIMUM)

    @property
    def verdict(self) -> Compare:
        arms: dict[str, TokenMix] = {
            NATURAL: self._mixture(self._natural),
            OPTIMUM: self.mixture,
            BEST_PROXY: self._found(BEST_PROXY),
        }
        return Compare(
            label=f"{self.label}, validated",
            arms={name: tuple(self.score(each) for each in self._validated(name, mix)) for name, mix in arms.items()},
            baseline=NATURAL,
            primary=tuple(self.objective),
        )

    @cached_property
    def shares(self) -> tuple[Mapping[str, float], ...]:
        """Shares of each proxy by source name; the first proxy has the natural mixture."""
        return tuple(draw_shares(self._natural, self._bounds, self.proxies, seed=self.seed, least=self._least))

    @cached_property
    def trainings(self) -> tuple[Train, ...]:
        return tuple(
            replace(self.recipe(self._mixture(shares), PROXY_SEED), label=f"{self.label}, proxy {number}")
            for number, shares in enumerate(self.shares)
        )

    @cached_property
    def scores(self) -> tuple[ExecutorStep[Scores], ...]:
        return tuple(map(self.score, self.trainings))

    @cached_property
    def _by_name(self) -> dict[str, Source]:
        return {source_name(source): source for source in self.sources}

    @cached_property
    def _natural(self) -> dict[str, float]:
        weights = self.sources if self.natural is None else self.natural
        return {source_name(source): share for source, share in mixture(weights).weights.items()}

    @cached_property
    def _bounds(self) -> dict[str, float]:
        held = {source_name(source): tokens for source, tokens in self.sources.items()}
        return repetition_bounds(held, self.target_tokens, self.max_epochs)

    @cached_property
    def _least(self) -> float:
        """Smaller shares are 0: they might get no sequence of a proxy."""
        run = self.recipe(self._mixture(self._natural), PROXY_SEED)
        sequences = run.batch.sequences_before(run.end_step) - run.batch.sequences_before(run.first_step)
        return max(LEAST, 2 / sequences)

    def _mixture(self, shares: Mapping[str, float]) -> TokenMix:
        return mixture({self._by_name[name]: share for name, share in shares.items() if share})

    def _found(self, chosen: str) -> Searched[Source]:
        return Searched(of=tuple(self.sources), report=self.report, chosen=chosen)

    def _validated(self, name: str, mix: TokenMix) -> list[Train]:
        recipe = self.validation or self.recipe
        seeds = range(PROXY_SEED + 1, PROXY_SEED + 1 + self.seeds)
        return [replace(recipe(mix, seed), label=f"{self.label}, {name}, seed {seed}") for seed in seeds]

    def _check_amounts(self) -> None:
        if len(self.sources) < 2:
            raise BadField(f"{self.label}: {len(self.sources)} sources; wanted at least two")
        if len(self._by_name) < len(self.sources):
            raise BadField(f"{self.label}: two sources have one name; give each its own label")
        for source, tokens in self.sources.items():
            if not tokens > 0:
                raise BadField(f"{self.label}: {source_name(source)} holds {tokens} tokens; wanted more than 0")
        amounts = ("target_tokens", self.target_tokens), ("max_epochs", self.max_epochs), ("seeds", self.seeds)
        for name, amount in amounts:
            if not amount > 0:
                raise BadField(f"{self.label}: {name} is {amount}; wanted more than 0")
        if not self.penalty >= 0:
            raise BadField(f"{self.label}: penalty is {self.penalty}; wanted at least 0")
        if not self.objective:
            raise BadField(f"{self.label}: there is no objective; give metrics with weights, e.g. {{'bpb/web': 1}}")
        for metric, weight in self.objective.items():
            if not weight > 0:
                raise BadField(f"{self.label}: the weight of {metric} is {weight}; wanted more than 0")
        if self.proxies < (least := least_proxies(len(self.sources))):
            raise BadField(
                f"{self.label}: {self.proxies} proxies for {len(self.sources)} sources; wanted at least {least}, "
                f"better {3 * (len(self.sources) + 1)}: {FOLDS_AND_UNKNOWNS}"
            )

    def _check_natural(self) -> None:
        if self._natural.keys() != self._by_name.keys():
            odd = sorted(self._natural.keys() ^ self._by_name.keys())
            raise BadField(
                f"{self.label}: natural and sources differ in {', '.join(odd)}; give a weight of each source"
            )
        for name, share in self._natural.items():
            if share > self._bounds[name] + 1e-9:
                raise BadField(
                    f"{self.label}: the natural share of {name} is {share:.4g}; {self.max_epochs:g} epochs of its "
                    f"tokens allow {self._bounds[name]:.4g}. Lower it, raise max_epochs, or lower target_tokens"
                )
            if share < self._least:
                raise BadField(
                    f"{self.label}: the natural share of {name} is {share:.2g}; below {self._least:.2g} a proxy may "
                    "read none of it. Train proxies longer, or merge it with another source"
                )

    def _check_proxies(self) -> None:
        first = self.trainings[0]
        for number, each in enumerate(self.trainings[1:], start=1):
            for spec in fields(each):
                if spec.name not in MAY_DIFFER and getattr(each, spec.name) != getattr(first, spec.name):
                    raise BadField(
                        f"{self.label}: proxies 0 and {number} differ in {spec.name}; recipe(mixture, seed) may use "
                        "the mixture for data alone"
                    )
        if len({each.data for each in self.trainings}) < len(self.trainings):
            raise BadField(f"{self.label}: two proxies read the same data; recipe(mixture, seed) must use the mixture")
        if self.recipe(self._mixture(self._natural), PROXY_SEED + 1).seed == first.seed:
            raise BadField(
                f"{self.label}: seeds 0 and 1 give the same training; recipe(mixture, seed) must use the seed"
            )
