"""The order of a run: map any global sequence number to a source and a sequence in it, by random access.

Within every block of ``block`` sequences each source of the stage's mixture gets a whole number of
places (marin.data.apportion), shuffled by the seed. The k-th draw from a source, counted over all
stages, is the k-th element of its permutation, so a fork continues where its parent stopped.
The batch of optimizer step s is the sequences [sequences_before(s), sequences_before(s + 1)).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marin.data.apportion import draws_until
from marin.data.mixture import MAX_BLOCK, BatchSchedule, Shuffle, Stages, source_name
from marin.data.permutation import ROUND, Linear, affine, draw_feistel, draw_linear, feistel, raw_stream, right_bits
from marin.data.stage_draws import StageDraws, stage_draws
from marin.errors import BadField, LabelClash, StarvedSource, TooManyEpochs
from marin.steps.value import digest, encode

I64 = NDArray[np.int64]
CACHED_BLOCKS = 64


@dataclass(frozen=True)
class _Stage:
    """One stage. sources: (k,) numbers into DataOrder.sources, in the order of the draws.

    before: (sources,) draws of every source in earlier stages.
    """

    draws: StageDraws[Any]
    sources: NDArray[np.int64]
    before: I64


@dataclass(frozen=True, kw_only=True)
class Starved:
    """A source of a mixture that gets no sequence in a stage of a run.

    stage: first optimizer step of the stage. sequences: all draws of the stage. steps_needed: steps of
    this stage after which the source surely has its first sequence.
    """

    name: str
    stage: int
    weight: float
    sequences: int
    steps_needed: int


class DataOrder[S]:
    """Random access to the order of a run. The cost does not grow with the number of earlier steps.

    sequences_per_source: windows in each store. block: number of sequences in which a mixture is exact.
    keys: seed material of each source's permutation, by default the source itself. Give digests of the content to
    make the order depend on content alone.
    lengths: sequence length as a fraction of a store's window, by the optimizer step from which it holds. The fraction
    differs from 1 only if a run that this run continues had another length.
    Raises BadField for sources without length or shares not known yet, StarvedSource for an empty source.
    """

    def __init__(
        self,
        stages: Stages[S],
        sequences_per_source: Mapping[S, int],
        batch: BatchSchedule,
        shuffle: Shuffle,
        seed: int,
        block: int,
        keys: Mapping[S, str] | None = None,
        lengths: Mapping[int, float] | None = None,
    ) -> None:
        if not 1 <= block <= MAX_BLOCK:
            raise BadField(f"data order: the block is {block} sequences, wanted 1 … {MAX_BLOCK}")
        self._arguments = (stages, sequences_per_source, batch, shuffle, seed, block, keys, lengths)
        self._parts = {0: 1.0} if lengths is None else dict(lengths)
        self.stages, self.batch, self.shuffle, self.seed, self.block = stages, batch, shuffle, seed, block
        for source in stages.sources:
            length = sequences_per_source.get(source)
            if length is None:
                raise BadField(f"data order: the source {source_name(source)} has no length; give one for each source")
            if length < 1:
                raise StarvedSource(
                    f"{source_name(source)} holds {length} whole sequences, wanted at least one; "
                    "give the source more text or use a shorter seq_len"
                )
        self.sources, self._keys = _in_key_order(stages.sources, keys)
        self.names = tuple(source_name(source) for source in self.sources)
        if len(set(self.names)) < len(self.names):
            twice = sorted({name for name in self.names if self.names.count(name) > 1})
            raise LabelClash(f"data order: several sources are called {', '.join(twice)}; give each its own label")
        self.lengths: I64 = np.array([sequences_per_source[source] for source in self.sources], dtype=np.int64)
        self._bits = np.array([right_bits(int(n)) for n in self.lengths], np.uint64)
        self._linear = lru_cache(maxsize=None)(self._draw_linear)
        self._feistel_keys = lru_cache(maxsize=65536)(self._draw_feistel_keys)
        self._block = lru_cache(maxsize=CACHED_BLOCKS)(self._make_block)
        self._stages = self._lay_out()
        self._starts = np.array([stage.draws.sequence for stage in self._stages], np.int64)

    def __reduce__(self) -> tuple[Any, ...]:
        return (DataOrder, self._arguments)

    def redrawn(self, shuffle: Shuffle, seed: int) -> DataOrder[S]:
        """Return the order of the same run with another permutation and seed."""
        stages, windows, batch, _, _, block, keys, lengths = self._arguments
        return DataOrder(stages, windows, batch, shuffle, seed, block, keys, lengths)

    def at(self, indices: NDArray[np.integer[Any]] | range) -> tuple[I64, I64]:
        """Return the sources and the sequences in their stores, (n,) each, for global sequence numbers (n,).

        A source is given by its number in ``sources``.
        """
        wanted = np.asarray(indices, dtype=np.int64)
        if wanted.size and int(wanted.min()) < 0:
            raise IndexError(f"data order: sequence {int(wanted.min())} was requested; sequences start at 0")
        source, drawn = self._draws(wanted)
        return source, self._sequences(source, drawn)

    def batch_at(self, step: int) -> tuple[I64, I64]:
        """Return the batch of one optimizer step, in the form of ``at``."""
        return self.at(range(self.batch.sequences_before(step), self.batch.sequences_before(step + 1)))

    def draws_before(self, sequence: int) -> I64:
        """Return (sources,) the draws from each source before this global sequence number."""
        stage = int(np.searchsorted(self._starts, sequence, side="right")) - 1
        return self._stages[stage].before + self._draws_in(self._stages[stage], stage, sequence)

    def effective_counts(self, first_step: int, end_step: int) -> dict[S, int]:
        """Return the exact number of sequences that optimizer steps first … end - 1 draw from each source."""
        before, after = (self.draws_before(self.batch.sequences_before(step)) for step in (first_step, end_step))
        return {source: int(n) for source, n in zip(self.sources, after - before, strict=True)}

    def meant_counts(self, first_step: int, end_step: int) -> dict[S, float]:
        """Return the draws that the shares ask for in optimizer steps first … end - 1, before rounding."""
        meant: dict[S, float] = dict.fromkeys(self.sources, 0.0)
        for stage, stage_end in zip(self._stages, [*self.stages.starts[1:], end_step], strict=True):
            first, end = max(first_step, stage.draws.step), min(end_step, stage_end)
            if first >= end:
                continue
            start, stop = (self.batch.sequences_before(step) - stage.draws.sequence for step in (first, end))
            before, after = stage.draws.meant(start), stage.draws.meant(stop)
            for source in stage.draws.sources:
                meant[source] += after[source] - before[source]
        return meant

    def epochs(self, end_step: int) -> dict[S, float]:
        """Return the passes over each store in the first ``end_step`` steps, earlier stages included."""
        drawn = np.zeros(len(self.sources))
        for (start, part), stop in zip(self._parts.items(), [*[*self._parts][1:], end_step], strict=True):
            if start < end_step:
                first, end = (self.batch.sequences_before(step) for step in (start, min(stop, end_step)))
                drawn += part * (self.draws_before(end) - self.draws_before(first))
        return {source: float(n / length) for source, n, length in zip(self.sources, drawn, self.lengths, strict=True)}

    def starved(self, first_step: int, end_step: int) -> tuple[Starved, ...]:
        """Return the sources that get nothing in a stage within steps first … end - 1, by stage and weight."""
        found: list[Starved] = []
        ends = [*self.stages.starts[1:], end_step]
        for stage, stage_end in zip(self._stages, ends, strict=True):
            first, end = max(first_step, stage.draws.step), min(end_step, stage_end)
            if first >= end:
                continue
            start = self.batch.sequences_before(first)
            drawn = self.effective_counts(first, end)
            before = self.draws_before(start) - stage.before
            for place, number in enumerate(stage.sources):
                source: S = self.sources[int(number)]
                if drawn[source] == 0 and source in stage.draws.shares:  # otherwise an interpolation phases it out
                    needed = draws_until(stage.draws.apportionment, place, int(before[number]) + 1)
                    last = stage.draws.sequence - (-needed // self.block) * self.block - 1
                    found.append(
                        Starved(
                            name=self.names[int(number)],
                            stage=stage.draws.step,
                            weight=stage.draws.shares[source],
                            sequences=self.batch.sequences_before(end) - start,
                            steps_needed=self.batch.step_of(last) + 1 - first,
                        )
                    )
        return tuple(sorted(found, key=lambda starved: (starved.stage, -starved.weight, starved.name)))

    def check(
        self, first_step: int, end_step: int, *, max_epochs: float, allow_starved: tuple[str, ...] = ()
    ) -> tuple[Starved, ...]:
        """Refuse a run that would silently depart from its mixture. Returns the starved sources that are allowed.

        allow_starved: names of sources that may get nothing.
        Raises StarvedSource, TooManyEpochs, or BadField if allow_starved names an unknown source.
        """
        for name in allow_starved:
            if name not in self.names:
                raise BadField(
                    f"allow_starved names {name!r}, which is no source; wanted one of {', '.join(self.names)}"
                )
        starved = self.starved(first_step, end_step)
        refused = [each for each in starved if each.name not in allow_starved]
        if refused:
            raise StarvedSource(
                "; ".join(
                    f"{each.name} (weight {each.weight:.4%}) gets none of the {each.sequences} sequences of the stage "
                    f"at step {each.stage}: the source needs {each.steps_needed} steps of this stage, or a weight of "
                    f"about {1 / each.sequences:.2%}"
                    for each in refused
                )
                + f"; drop it from the mixture, or allow it: allow_starved={tuple(each.name for each in refused)}"
            )
        passes, source = max((passes, source_name(source)) for source, passes in self.epochs(end_step).items())
        if passes > max_epochs:
            raise TooManyEpochs(
                f"{source} is read {passes:.2f} times by step {end_step}; at most {max_epochs:g} times is "
                "allowed. Lower its weight, give it more text, or raise max_epochs"
            )
        return starved

    def _lay_out(self) -> list[_Stage]:
        laid: list[_Stage] = []
        before = np.zeros(len(self.sources), np.int64)
        number = {source: place for place, source in enumerate(self.sources)}
        for draws in stage_draws(self.stages, self.batch, self.sources):
            if laid:
                before = laid[-1].before + self._draws_in(laid[-1], len(laid) - 1, draws.sequence)
            laid.append(_Stage(draws, np.array([number[source] for source in draws.sources]), before))
            self._stages = laid
        return laid

    def _draws_in(self, stage: _Stage, number: int, sequence: int) -> I64:
        """Return (sources,) the draws within a stage before a global sequence number."""
        whole, rest = divmod(sequence - stage.draws.sequence, self.block)
        drawn = np.zeros(len(self.sources), np.int64)
        drawn[stage.sources] = stage.draws.apportionment.counts(whole * self.block)
        if rest:
            drawn += np.bincount(self._block(number, whole)[0][:rest], minlength=len(self.sources))
        return drawn

    def _make_block(self, stage_number: int, block: int) -> tuple[I64, I64]:
        """Return the source (block,) and its draw number within the stage (block,) at each place of a block."""
        stage = self._stages[stage_number]
        before = np.array(stage.draws.apportionment.counts(block * self.block))
        after = np.array(stage.draws.apportionment.counts((block + 1) * self.block))
        random = raw_stream("block", self.seed, stage.draws.step, block).random_raw(self.block)
        shuffled = np.argsort(random, kind="stable")
        label = np.repeat(np.arange(len(before), dtype=np.uint16), after - before)[shuffled]
        by_label = np.argsort(label, kind="stable")
        drawn = np.empty(self.block, np.int64)
        drawn[by_label] = np.arange(self.block) + np.repeat(
            before - np.cumsum(after - before) + (after - before), after - before
        )
        return stage.sources[label], drawn

    def _draws(self, wanted: I64) -> tuple[I64, I64]:
        source, drawn = np.empty_like(wanted), np.empty_like(wanted)
        stage_of = np.searchsorted(self._starts, wanted, side="right") - 1
        block_of, place = np.divmod(wanted - self._starts[stage_of], self.block)
        # Work in runs of equal (stage, block): a batch has only a few.
        changes = np.flatnonzero((np.diff(stage_of) != 0) | (np.diff(block_of) != 0)) + 1
        for start, end in zip([0, *changes], [*changes, len(wanted)], strict=True):
            if start == end:
                continue
            number = int(stage_of[start])
            sources, draws = self._block(number, int(block_of[start]))
            chosen = sources[place[start:end]]
            source[start:end] = chosen
            drawn[start:end] = self._stages[number].before[chosen] + draws[place[start:end]]
        return source, drawn

    def _sequences(self, source: I64, drawn: I64) -> I64:
        lengths = self.lengths[source]
        epoch, x = np.divmod(drawn, lengths)
        if self.shuffle is Shuffle.LINEAR:
            made = [self._linear(number) for number in range(len(self.sources))]
            a, b = (np.array([getattr(p, name) for p in made], np.uint64)[source] for name in "ab")
            return affine(x.astype(np.uint64), a, b, lengths.astype(np.uint64)).astype(np.int64)
        pairs, which = np.unique(source + len(self.sources) * epoch, return_inverse=True)
        keys = [self._feistel_keys(int(pair % len(self.sources)), int(pair // len(self.sources))) for pair in pairs]
        table = np.array(keys, np.uint64).reshape(len(pairs), -1).T
        bits, function = self._bits[source], ROUND[self.shuffle]
        out = feistel(x.astype(np.uint64), lengths.astype(np.uint64), bits, table[:, which], function)
        return out.astype(np.int64)

    def _draw_linear(self, number: int) -> Linear:
        return draw_linear(int(self.lengths[number]), self.seed, self._keys[number])

    def _draw_feistel_keys(self, number: int, epoch: int) -> tuple[int, ...]:
        return draw_feistel(int(self.lengths[number]), self.seed, self._keys[number], epoch, shuffle=self.shuffle).keys


def _in_key_order[S](sources: tuple[S, ...], keys: Mapping[S, str] | None) -> tuple[tuple[S, ...], tuple[str, ...]]:
    """Return sources and keys sorted by key, so that the order in which a mixture is written changes nothing.

    A rank distinguishes equal keys (two stores of equal bytes).
    """
    own = {source: digest(encode(source, "source", [])) for source in sources}
    ranked = sorted(sources, key=lambda source: (keys[source] if keys else own[source], own[source]))
    chosen = [keys[source] if keys else own[source] for source in ranked]
    return tuple(ranked), tuple(f"{key}#{chosen[:place].count(key)}" for place, key in enumerate(chosen))
