"""The draws of each stage of a run from each source: whole numbers for any number of sequences, without the order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from marin.data.apportion import Apportionment, Shift
from marin.data.mixture import BatchSchedule, Interpolation, Stages


@dataclass(frozen=True, kw_only=True)
class StageDraws[S]:
    """The draws of one stage. before: the previous stage's shares if this one interpolates from them, else empty."""

    step: int  # the first optimizer step
    sequence: int  # the first global sequence number
    sources: tuple[S, ...]  # with draws in this stage
    shares: Mapping[S, float]  # final ones, after an interpolation
    before: Mapping[S, float]
    length: int  # sequences of the interpolation
    apportionment: Apportionment | Shift  # in the order of the sources

    def meant(self, sequences: int) -> dict[S, float]:
        """Return each source's part of the first ``sequences`` sequences, before ``counts`` rounds it."""
        within = min(sequences, self.length)
        late = within * within / (2 * self.length) if within else 0.0
        early, late = within - late, late + sequences - within
        return {
            source: early * self.before.get(source, 0.0) + late * self.shares.get(source, 0.0)
            for source in self.sources
        }

    def counts(self, sequences: int) -> dict[S, int]:
        """Return the draws from each source in the first ``sequences`` sequences, exact at the end of every block."""
        return dict(zip(self.sources, self.apportionment.counts(sequences), strict=True))


def stage_draws[S](stages: Stages[S], batch: BatchSchedule, sources: Sequence[S]) -> list[StageDraws[S]]:
    """Return the draws of each stage. sources: of all stages, in the order that decides ties.

    Raises BadField for unknown shares.
    """
    found: list[StageDraws[S]] = []
    for step, mixture in stages.known().items():
        entry = stages.at[step]
        before: Mapping[S, float] = found[-1].shares if isinstance(entry, Interpolation) else {}
        drawn = tuple(source for source in sources if source in mixture.weights or source in before)
        start = batch.sequences_before(step)
        length = batch.sequences_before(step + entry.steps) - start if isinstance(entry, Interpolation) else 0
        shares = _apportion(mixture.weights, drawn)
        found.append(
            StageDraws(
                step=step,
                sequence=start,
                sources=drawn,
                shares=mixture.weights,
                before=before,
                length=length,
                apportionment=Shift(_apportion(before, drawn), shares, length=length) if before else shares[0],
            )
        )
    return found


def _apportion[S](weights: Mapping[S, float], sources: Sequence[S]) -> tuple[Apportionment, list[int]]:
    """Return an apportionment, and the place of each weight among the sources."""
    places = [place for place, source in enumerate(sources) if source in weights]
    return Apportionment([weights[sources[place]] for place in places]), places
