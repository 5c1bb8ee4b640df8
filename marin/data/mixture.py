"""Mixtures of sources, the stages of a run, and the batch schedule. All are values that are checked when built.

A source is any hashable value: in experiments a step that makes Tokens, in tests a string. Weights
are shares of sequences. Steps are optimizer steps. Batches are counted in sequences.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping
from enum import Enum
from typing import Any, cast, overload

from marin.data.batch_schedule import BatchSchedule as BatchSchedule
from marin.data.by_step import active_from, check_steps, scaled_steps
from marin.errors import BadField, StarvedSource
from marin.steps.value import value

MAX_BLOCK = 1 << 20  # sequences; memory holds a whole block, so it must stay small


def source_name(source: object) -> str:
    """Return a source's name for people: its label, else its name, else its text."""
    return str(getattr(source, "label", "") or getattr(source, "name", "") or source)


@value("shuffle")
class Shuffle(Enum):
    """The permutation in which a run reads each source.

    SPLITMIX: a Feistel network that mixes all bits, with new keys each epoch. Use this one.
    FEISTEL: Levanter's network, which does not mix the lowest bits.
    LINEAR: an affine map of the index, the same in every epoch.
    """

    _value_: str
    LINEAR = "linear"
    FEISTEL = "feistel"
    SPLITMIX = "splitmix"


type ReadShares = Callable[[Any, str], Mapping[str, float]]


class Stage[S]:
    """One stage of a run: a mixture, or an Interpolation to a mixture."""


class Mix[S](Stage[S]):
    """A mixture whose shares are known now or later: Mixture, ByTokens, Blended, Searched (marin.data.searched)."""

    @property
    @abstractmethod
    def sources(self) -> tuple[S, ...]: ...

    @property
    def counted(self) -> frozenset[S]:
        """Return the sources whose token counts decide shares."""
        return frozenset()

    @property
    def reports(self) -> frozenset[Hashable]:
        """Return the steps whose outputs hold shares."""
        return frozenset()

    def looked_up(self, read: ReadShares) -> Mix[S]:
        """Return the mixture with the shares that reports hold. read: (report, name) → shares."""
        return self

    @abstractmethod
    def resolved(self, tokens: Mapping[S, int]) -> Mixture[S]:
        """Return the mixture with known shares. tokens: of each source whose count decides shares.

        Raises BadField for a report whose shares were not looked up.
        """


@value("mixture")
class Mixture[S](Mix[S]):
    """The share of each source. Shares are positive and sum to 1: ``mixture`` normalises, ``blend`` combines."""

    weights: Mapping[S, float]

    def __post_init__(self) -> None:
        if not self.weights:
            raise BadField("a mixture has no sources; give at least one, e.g. mixture({web: 0.9, code: 0.1})")
        for source, weight in self.weights.items():
            _must_be_positive("mixture: the weight", source, weight)
        total = math.fsum(self.weights.values())
        if abs(total - 1) > 1e-9:
            raise BadField(f"mixture: the weights sum to {total!r}, wanted 1; mixture({{…}}) normalises them")
        object.__setattr__(self, "weights", {s: float(w) for s, w in self.weights.items()})

    @property
    def sources(self) -> tuple[S, ...]:
        return tuple(self.weights)

    def by_name(self) -> dict[str, float]:
        """Return the shares by source name, largest first, for tables."""
        named = ((source_name(source), weight) for source, weight in self.weights.items())
        return dict(sorted(named, key=lambda pair: (-pair[1], pair[0])))

    def resolved(self, tokens: Mapping[S, int]) -> Mixture[S]:
        """Return this mixture: its shares are known."""
        return self


@value("by_tokens")
class ByTokens[S](Mix[S]):
    """Shares in proportion to the tokens that each source holds, times a factor: ``ByTokens({wiki: 1, flan: 10})``.

    times: how often each source is read while a source of factor 1 is read once. The identity holds the factors, not
    the counts. The counts come from the token stores, so the shares are known once these exist.
    """

    times: Mapping[S, float]

    def __post_init__(self) -> None:
        if not self.times:
            raise BadField("by tokens: there are no sources; give at least one, e.g. ByTokens({wiki: 1, flan: 10})")
        for source, factor in self.times.items():
            _must_be_positive("by tokens: the factor", source, factor)
        object.__setattr__(self, "times", {s: float(f) for s, f in self.times.items()})

    @property
    def sources(self) -> tuple[S, ...]:
        return tuple(self.times)

    @property
    def counted(self) -> frozenset[S]:
        return frozenset(self.times)

    def resolved(self, tokens: Mapping[S, int]) -> Mixture[S]:
        """Return the mixture. tokens: of each source. Raises BadField for a missing count, StarvedSource for 0."""
        for source in self.times:
            if source not in tokens:
                raise BadField(f"by tokens: the tokens of {source_name(source)} are not counted yet")
            if tokens[source] <= 0:
                raise StarvedSource(
                    f"{source_name(source)} holds no token, so its share by tokens is 0; drop it, or give it text"
                )
        return mixture({source: factor * tokens[source] for source, factor in self.times.items()})


@value("blended")
class Blended[S](Mix[S]):
    """A mixture of mixtures, at least one with unknown shares, made by ``blend`` and ``nested``.

    shares: of each part. They sum to 1.
    """

    shares: Mapping[Mix[S], float]

    @property
    def sources(self) -> tuple[S, ...]:
        return tuple(dict.fromkeys(source for part in self.shares for source in part.sources))

    @property
    def counted(self) -> frozenset[S]:
        return frozenset(source for part in self.shares for source in part.counted)

    @property
    def reports(self) -> frozenset[Hashable]:
        return frozenset(report for part in self.shares for report in part.reports)

    def looked_up(self, read: ReadShares) -> Mix[S]:
        return _combined((share, part.looked_up(read)) for part, share in self.shares.items())

    def resolved(self, tokens: Mapping[S, int]) -> Mixture[S]:
        """Return the mixture with known shares. Raises the same errors as ``ByTokens.resolved``."""
        return _flat((share, part.resolved(tokens)) for part, share in self.shares.items())


def mixture[S](weights: Mapping[S, float]) -> Mixture[S]:
    """Return a mixture with shares proportional to ``weights``, in any unit (tokens, percent). Raises BadField."""
    for source, weight in weights.items():
        _must_be_positive("mixture: the weight", source, weight)
    total = math.fsum(weights.values())
    return Mixture({source: weight / total for source, weight in weights.items()})


@overload
def nested[S](groups: Mapping[Mixture[S], float]) -> Mixture[S]: ...
@overload
def nested[S](groups: Mapping[Mix[S], float]) -> Mix[S]: ...
def nested(groups: Mapping[Any, float]) -> Mix[Any]:
    """Return a mixture of mixtures with weights in any unit: ``nested({nemotron: 10.7, code: 0.25})``.

    Each group's shares divide the weight of the group. A source in several groups gets the sum. Groups may be nested
    themselves. Raises BadField.
    """
    for group, weight in groups.items():
        if not isinstance(group, Mix):
            raise BadField(
                f"nested: {source_name(group)} is not a mixture; write mixture({{…: 1.0}}) around a single source"
            )
        _must_be_positive("nested: the weight", _named(group), weight)
    return _combined((weight, group) for group, weight in groups.items())


@overload
def blend[S](*parts: tuple[float, Mixture[S]]) -> Mixture[S]: ...
@overload
def blend[S](*parts: tuple[float, Mix[S]]) -> Mix[S]: ...
def blend(*parts: tuple[float, Mix[Any]]) -> Mix[Any]:
    """Return a mixture of mixtures: ``blend((0.7, pretraining), (0.3, high_quality))``.

    A source in several parts gets the sum of its shares. Raises BadField if the shares do not sum to 1.
    """
    if any(isinstance(share, bool) or not math.isfinite(share) or share <= 0 for share, _ in parts):
        raise BadField(f"blend: the shares are {[share for share, _ in parts]}, wanted positive numbers")
    for _, part in parts:
        if not isinstance(part, Mix):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise BadField(f"blend: {part!r} is not a mixture; write mixture({{…: 1.0}}) around a single source")
    total = math.fsum(share for share, _ in parts)
    if abs(total - 1) > 1e-9:
        raise BadField(f"blend: the shares sum to {total!r}, wanted 1, e.g. blend((0.7, a), (0.3, b))")
    return _combined(parts)


def _named(mix: Any) -> str:
    return " + ".join(source_name(source) for source in mix.sources)


def _combined(parts: Iterable[tuple[float, Mix[Any]]]) -> Mix[Any]:
    """Merge all parts with known shares into one, so that the nesting of groups does not change the identity."""
    known: list[tuple[float, Mixture[Any]]] = []
    late: dict[Mix[Any], float] = {}
    for share, part in parts:
        for inner, of_it in part.shares.items() if isinstance(part, Blended) else ((part, 1.0),):
            if isinstance(inner, Mixture):
                known.append((share * of_it, inner))
            else:
                late[inner] = late.get(inner, 0.0) + share * of_it
    if not late:
        return _flat(known)
    total = math.fsum([*(share for share, _ in known), *late.values()])
    shares: dict[Mix[Any], float] = {part: share / total for part, share in late.items()}
    if known:
        shares[_flat(known)] = math.fsum(share for share, _ in known) / total
    return Blended(shares)


def _flat[S](parts: Iterable[tuple[float, Mixture[S]]]) -> Mixture[S]:
    terms: dict[S, list[float]] = {}
    for share, part in parts:
        for source, weight in part.weights.items():
            terms.setdefault(source, []).append(share * weight)
    sums = {source: math.fsum(shares) for source, shares in terms.items()}
    total = math.fsum(sums.values())
    return Mixture({source: weight / total for source, weight in sums.items()})


def _must_be_positive(what: str, source: object, weight: float) -> None:
    if isinstance(weight, bool) or not math.isfinite(weight) or weight <= 0:
        raise BadField(f"{what} of {source_name(source)} is {weight!r}, wanted a positive number")


@value("interpolation")
class Interpolation[S](Stage[S]):
    """An even change from the previous stage's mixture to this one, over ``steps`` optimizer steps.

    The mixture ``to`` holds from then on.
    """

    to: Mix[S]
    steps: int

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise BadField(f"interpolation: it takes {self.steps} optimizer steps; wanted at least 1")


@value("stages")
class Stages[S]:
    """The mixtures of a run, each from an optimizer step on: ``Stages({0: pretraining, 160: cooldown})``.

    ``Stages({0: dclm, 820: Interpolation(nemotron, steps=2)})`` changes evenly from one to the other.
    """

    at: Mapping[int, Stage[S]]

    def __post_init__(self) -> None:
        check_steps("stages", self.at)
        for (step, entry), after in zip(self.at.items(), (*self.starts[1:], None), strict=True):
            if isinstance(entry, Interpolation):
                if step == 0:
                    raise BadField(
                        "stages: step 0 is an interpolation, with no mixture before it; begin with a mixture"
                    )
                if after is not None and step + entry.steps > after:
                    raise BadField(
                        f"stages: the interpolation from step {step} takes {entry.steps} steps, but the next stage "
                        f"begins at step {after}; start the next stage later or take fewer steps"
                    )

    @property
    def starts(self) -> tuple[int, ...]:
        """Return the first optimizer step of each stage, ascending."""
        return tuple(self.at)

    @property
    def mixtures(self) -> dict[int, Mix[S]]:
        """Return each stage's final mixture, by the stage's first step."""
        return {
            step: entry.to if isinstance(entry, Interpolation) else cast(Mix[S], entry)
            for step, entry in self.at.items()
        }

    @property
    def sources(self) -> tuple[S, ...]:
        """Return every source of every stage, once, in order of first appearance."""
        return tuple(dict.fromkeys(source for mix in self.mixtures.values() for source in mix.sources))

    @property
    def interpolations(self) -> dict[int, int]:
        """Return the length of each interpolation in optimizer steps, by the stage's first step."""
        return {step: entry.steps for step, entry in self.at.items() if isinstance(entry, Interpolation)}

    @property
    def counted(self) -> frozenset[S]:
        """Return the sources whose token counts decide shares."""
        return frozenset(source for mix in self.mixtures.values() for source in mix.counted)

    @property
    def reports(self) -> frozenset[Hashable]:
        """Return the steps whose outputs hold shares."""
        return frozenset(report for mix in self.mixtures.values() for report in mix.reports)

    def active(self, step: int) -> Mix[S]:
        """Return the mixture for batch ``step``. Within an interpolation: the mixture at the middle of the batch."""
        start = active_from("stages", self.starts, step)
        entry, mixtures = self.at[start], self.mixtures
        if not isinstance(entry, Interpolation) or step >= start + entry.steps:
            return mixtures[start]
        done = (step - start + 0.5) / entry.steps
        return blend((1 - done, mixtures[active_from("stages", self.starts, start - 1)]), (done, entry.to))

    def resolved(self, tokens: Mapping[S, int]) -> Stages[S]:
        """Return the stages with known shares. tokens: of each source. Raises the errors of ``Mix.resolved``."""
        return self._each(lambda mix: mix.resolved(tokens))

    def looked_up(self, read: ReadShares) -> Stages[S]:
        """Return the stages with the shares that reports hold; see ``Mix.looked_up``."""
        return self._each(lambda mix: mix.looked_up(read))

    def _each(self, made: Callable[[Mix[S]], Mix[S]]) -> Stages[S]:
        mixes = {step: made(mix) for step, mix in self.mixtures.items()}
        return Stages(
            {
                step: Interpolation(mixes[step], entry.steps) if isinstance(entry, Interpolation) else mixes[step]
                for step, entry in self.at.items()
            }
        )

    def known(self) -> dict[int, Mixture[S]]:
        """Return ``mixtures`` if all shares are known. Raises BadField if a share is not."""
        found = {step: mix for step, mix in self.mixtures.items() if isinstance(mix, Mixture)}
        if missing := self.mixtures.keys() - found.keys():
            raise BadField(f"stages: the shares from step {min(missing)} are not known; Stages.resolved(tokens) first")
        return found

    def scaled(self, *, steps: int) -> Stages[S]:
        """Return the stages with first steps and interpolations divided by ``steps`` and rounded down."""
        shorter = {
            step: Interpolation(entry.to, max(1, entry.steps // max(steps, 1)))
            if isinstance(entry, Interpolation)
            else entry
            for step, entry in self.at.items()
        }
        return Stages(scaled_steps("stages", shorter, steps))
