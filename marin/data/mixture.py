"""Mixtures of sources, the stages of a run, and the batch schedule: values, checked when built.

A source is anything hashable: in experiments a step that makes Tokens, in tests a string. Weights
are shares of sequences. Steps are optimizer steps; batches are counted in sequences.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, cast, overload

from marin.data.by_step import active_from, check_steps, scaled_steps
from marin.errors import BadField, StarvedSource
from marin.steps.value import value

MAX_BLOCK = 1 << 20  # sequences: a block is laid out whole, so it must stay small


def source_name(source: object) -> str:
    """What people call a source: its label, else its name, else its text."""
    return str(getattr(source, "label", "") or getattr(source, "name", "") or source)


@value("shuffle")
class Shuffle(Enum):
    """How each source is walked.

    SPLITMIX: a Feistel network that mixes all bits, new keys each epoch; take this one. FEISTEL: Levanter's network,
    whose lowest bits do not mix. LINEAR: an affine map of the index, the same in every epoch.
    """

    _value_: str
    LINEAR = "linear"
    FEISTEL = "feistel"
    SPLITMIX = "splitmix"


class Stage[S]:
    """What a stage of a run may be given as: a mixture, or an Interpolation to one."""


class Mix[S](Stage[S]):
    """A mixture whose shares are known, or will be when its sources are counted: Mixture, ByTokens, Blended."""

    @property
    @abstractmethod
    def sources(self) -> tuple[S, ...]: ...

    @abstractmethod
    def resolved(self, tokens: Mapping[S, int]) -> Mixture[S]:
        """With known shares. tokens: of each source that shares go by."""


@value("mixture")
class Mixture[S](Mix[S]):
    """Share of each source. Positive, sum to 1: use ``mixture`` to normalise, ``blend`` to combine."""

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
        """Shares by source name, largest first: what a table prints."""
        named = ((source_name(source), weight) for source, weight in self.weights.items())
        return dict(sorted(named, key=lambda pair: (-pair[1], pair[0])))

    def resolved(self, tokens: Mapping[S, int]) -> Mixture[S]:
        """Itself: its shares are known."""
        return self


@value("by_tokens")
class ByTokens[S](Mix[S]):
    """Shares in proportion to the tokens that each source holds, times a factor: ``ByTokens({wiki: 1, flan: 10})``.

    times: how often each source is read while one of factor 1 is read once. The choice is the identity, not the counts:
    they are those of the token stores, so the shares are known when these are.
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

    def resolved(self, tokens: Mapping[S, int]) -> Mixture[S]:
        """tokens: of each source. Raises BadField for one without a count, StarvedSource for an empty one."""
        for source in self.times:
            if source not in tokens:
                raise BadField(f"by tokens: nobody has counted the tokens of {source_name(source)}")
            if tokens[source] <= 0:
                raise StarvedSource(
                    f"{source_name(source)} holds no token, so its share by tokens is none; drop it, or give it text"
                )
        return mixture({source: factor * tokens[source] for source, factor in self.times.items()})


@value("blended")
class Blended[S](Mix[S]):
    """A mixture of mixtures of which at least one goes by tokens; ``blend`` and ``nested`` make it.

    shares: of each part; they sum to 1.
    """

    shares: Mapping[Mixture[S] | ByTokens[S], float]

    @property
    def sources(self) -> tuple[S, ...]:
        return tuple(dict.fromkeys(source for part in self.shares for source in part.sources))

    def resolved(self, tokens: Mapping[S, int]) -> Mixture[S]:
        """As ``ByTokens.resolved``."""
        return _flat((share, part.resolved(tokens)) for part, share in self.shares.items())


def mixture[S](weights: Mapping[S, float]) -> Mixture[S]:
    """A mixture with shares proportional to ``weights``, in any unit (tokens, percent). Raises BadField."""
    for source, weight in weights.items():
        _must_be_positive("mixture: the weight", source, weight)
    total = math.fsum(weights.values())
    return Mixture({source: weight / total for source, weight in weights.items()})


@overload
def nested[S](groups: Mapping[Mixture[S], float]) -> Mixture[S]: ...
@overload
def nested[S](groups: Mapping[Mix[S], float]) -> Mix[S]: ...
def nested(groups: Mapping[Any, float]) -> Mix[Any]:
    """A mixture of mixtures with weights in any unit: ``nested({nemotron: 10.7, code: 0.25})``.

    Each group's own shares divide what the group gets; a source in several of them gets the sum. Groups may be nested
    themselves. Raises BadField.
    """
    for group, weight in groups.items():
        if not isinstance(group, Mixture | ByTokens | Blended):
            raise BadField(
                f"nested: {source_name(group)} is no mixture; write mixture({{…: 1.0}}) around a single source"
            )
        _must_be_positive("nested: the weight", _named(group), weight)
    return _combined((weight, group) for group, weight in groups.items())


@overload
def blend[S](*parts: tuple[float, Mixture[S]]) -> Mixture[S]: ...
@overload
def blend[S](*parts: tuple[float, Mix[S]]) -> Mix[S]: ...
def blend(*parts: tuple[float, Mix[Any]]) -> Mix[Any]:
    """``blend((0.7, pretraining), (0.3, high_quality))``: a mixture of mixtures.

    A source in several parts gets the sum of its shares. Raises BadField if the shares do not sum to 1.
    """
    if any(isinstance(share, bool) or not math.isfinite(share) or share <= 0 for share, _ in parts):
        raise BadField(f"blend: the shares are {[share for share, _ in parts]}, wanted positive numbers")
    for _, part in parts:
        if not isinstance(part, Mixture | ByTokens | Blended):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise BadField(f"blend: {part!r} is no mixture; write mixture({{…: 1.0}}) around a single source")
    total = math.fsum(share for share, _ in parts)
    if abs(total - 1) > 1e-9:
        raise BadField(f"blend: the shares sum to {total!r}, wanted 1, e.g. blend((0.7, a), (0.3, b))")
    return _combined(parts)


def _named(mix: Any) -> str:
    return " + ".join(source_name(source) for source in mix.sources)


def _combined(parts: Iterable[tuple[float, Mix[Any]]]) -> Mix[Any]:
    """All parts with known shares as one, so that how groups are nested changes no identity."""
    known: list[tuple[float, Mixture[Any]]] = []
    counted: dict[ByTokens[Any], float] = {}
    for share, part in parts:
        for inner, of_it in part.shares.items() if isinstance(part, Blended) else ((part, 1.0),):
            if isinstance(inner, ByTokens):
                counted[inner] = counted.get(inner, 0.0) + share * of_it
            elif isinstance(inner, Mixture):
                known.append((share * of_it, inner))
    if not counted:
        return _flat(known)
    total = math.fsum([*(share for share, _ in known), *counted.values()])
    shares: dict[Mixture[Any] | ByTokens[Any], float] = {part: share / total for part, share in counted.items()}
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
    """From the mixture of the stage before to this one, evenly over so many optimizer steps; it holds from then on."""

    to: Mix[S]
    steps: int

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise BadField(f"interpolation: over {self.steps} optimizer steps; wanted at least 1")


@value("stages")
class Stages[S]:
    """Which mixture from which optimizer step on: ``Stages({0: pretraining, 160: cooldown})``.

    ``Stages({0: dclm, 820: Interpolation(nemotron, steps=2)})`` goes over from the one to the other, evenly.
    """

    at: Mapping[int, Stage[S]]

    def __post_init__(self) -> None:
        check_steps("stages", self.at)
        for (step, entry), after in zip(self.at.items(), (*self.starts[1:], None), strict=True):
            if isinstance(entry, Interpolation):
                if step == 0:
                    raise BadField("stages: there is no mixture before step 0 to interpolate from; begin with one")
                if after is not None and step + entry.steps > after:
                    raise BadField(
                        f"stages: the interpolation from step {step} takes {entry.steps} steps, but the next stage "
                        f"begins at step {after}; begin that one later or take fewer steps"
                    )

    @property
    def starts(self) -> tuple[int, ...]:
        """First optimizer step of each stage, ascending."""
        return tuple(self.at)

    @property
    def mixtures(self) -> dict[int, Mix[S]]:
        """What each stage comes to, by its first step."""
        return {
            step: entry.to if isinstance(entry, Interpolation) else cast(Mix[S], entry)
            for step, entry in self.at.items()
        }

    @property
    def sources(self) -> tuple[S, ...]:
        """Every source of every stage, once, in order of first appearance."""
        return tuple(dict.fromkeys(source for mix in self.mixtures.values() for source in mix.sources))

    @property
    def interpolations(self) -> dict[int, int]:
        """Optimizer steps that a stage is gone over to in, by its first step."""
        return {step: entry.steps for step, entry in self.at.items() if isinstance(entry, Interpolation)}

    @property
    def counted(self) -> frozenset[S]:
        """The sources whose tokens decide about shares."""
        parts = (
            part for mix in self.mixtures.values() for part in (mix.shares if isinstance(mix, Blended) else (mix,))
        )
        return frozenset(source for part in parts if isinstance(part, ByTokens) for source in part.sources)

    def active(self, step: int) -> Mix[S]:
        """The mixture that batch ``step`` is drawn from; within an interpolation the one of its middle."""
        start = active_from("stages", self.starts, step)
        entry, mixtures = self.at[start], self.mixtures
        if not isinstance(entry, Interpolation) or step >= start + entry.steps:
            return mixtures[start]
        done = (step - start + 0.5) / entry.steps
        return blend((1 - done, mixtures[active_from("stages", self.starts, start - 1)]), (done, entry.to))

    def resolved(self, tokens: Mapping[S, int]) -> Stages[S]:
        """With known shares only. tokens: of each source. Raises what ``ByTokens.resolved`` raises."""
        known = {step: mix.resolved(tokens) for step, mix in self.mixtures.items()}
        return Stages(
            {
                step: Interpolation(known[step], entry.steps) if isinstance(entry, Interpolation) else known[step]
                for step, entry in self.at.items()
            }
        )

    def known(self) -> dict[int, Mixture[S]]:
        """``mixtures`` where all shares are known. Raises BadField if one goes by tokens."""
        found = {step: mix for step, mix in self.mixtures.items() if isinstance(mix, Mixture)}
        if missing := self.mixtures.keys() - found.keys():
            raise BadField(f"stages: the shares from step {min(missing)} go by tokens; Stages.resolved(tokens) first")
        return found

    def scaled(self, *, steps: int) -> Stages[S]:
        """The same stages with every first step divided by ``steps`` and rounded down; interpolations likewise."""
        shorter = {
            step: Interpolation(entry.to, max(1, entry.steps // max(steps, 1)))
            if isinstance(entry, Interpolation)
            else entry
            for step, entry in self.at.items()
        }
        return Stages(scaled_steps("stages", shorter, steps))


@value("batch_schedule")
class BatchSchedule:
    """Global batch from which optimizer step on: ``BatchSchedule({0: 8192, 18_500: 7680, 21_010: 8192})``."""

    at: Mapping[int, int]

    def __post_init__(self) -> None:
        check_steps("batch schedule", self.at)
        for step, size in self.at.items():
            if type(size) is not int or size <= 0:
                raise BadField(f"batch schedule: the batch from step {step} is {size!r}, wanted a positive integer")

    @property
    def starts(self) -> tuple[int, ...]:
        """Optimizer steps at which the batch size is set, ascending."""
        return tuple(self.at)

    def batch(self, step: int) -> int:
        """Sequences in the batch of one optimizer step."""
        return self.at[active_from("batch schedule", self.starts, step)]

    def sequences_before(self, step: int) -> int:
        """Sequences consumed when ``step`` optimizer steps are done: where batch ``step`` begins."""
        if step < 0:
            raise BadField(f"batch schedule: step {step} was asked for; steps start at 0")
        ends = (*self.starts[1:], step)
        return sum(
            max(0, min(end, step) - start) * self.at[start] for start, end in zip(self.starts, ends, strict=True)
        )

    def step_of(self, sequence: int) -> int:
        """The optimizer step whose batch holds global sequence number ``sequence``."""
        if sequence < 0:
            raise BadField(f"batch schedule: sequence {sequence} was asked for; sequences start at 0")
        start = max(start for start in self.starts if self.sequences_before(start) <= sequence)
        return start + (sequence - self.sequences_before(start)) // self.at[start]

    def tokens(self, seq_len: int | Mapping[int, int], first: int, end: int) -> int:
        """Tokens in the batches of optimizer steps first … end - 1.

        seq_len: of every sequence, or by the step from which on; the first of them is 0.
        """
        if end < first:
            raise BadField(f"batch schedule: tokens from step {first} to {end}: the end must not come first")
        lengths = seq_len if isinstance(seq_len, Mapping) else {0: seq_len}
        return sum(
            (self.sequences_before(min(stop, end)) - self.sequences_before(max(start, first))) * length
            for (start, length), stop in zip(lengths.items(), [*[*lengths][1:], end], strict=True)
            if max(start, first) < min(stop, end)
        )

    def scaled(self, *, steps: int, batch: int) -> BatchSchedule:
        """A schedule for a smaller run: first steps divided by ``steps``, batches by ``batch``.

        First steps are rounded down. Batches are rounded to the nearest integer, halves up. Raises
        BadField if two entries fall on one step or a batch becomes 0.
        """
        if batch < 1:
            raise BadField(f"batch schedule: the batch divisor is {batch}, wanted at least 1")
        rounded = {step: (2 * size + batch) // (2 * batch) for step, size in self.at.items()}
        return BatchSchedule(scaled_steps("batch schedule", rounded, steps))
