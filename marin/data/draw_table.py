"""The plan's table of a run's data: per source its share, the tokens drawn and available, and the epochs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from marin.data.mixture import BatchSchedule, Stages, source_name
from marin.data.stage_draws import StageDraws, stage_draws
from marin.errors import StarvedSource, TooManyEpochs


@dataclass(frozen=True, kw_only=True)
class DrawRow:
    """One source, in one stage or over all steps of the run. Amounts in tokens."""

    name: str
    share: float  # share of the draws that the mixture asks for
    available: int | None  # None if the tokens are not counted yet
    drawn: int
    epochs: float | None  # drawn over available, in whole windows
    epochs_by_end: float | None  # including all earlier draws
    per_block: float  # sequences in a block that the mixture asks for


@dataclass(frozen=True, kw_only=True)
class DrawTable[S]:
    """The rows of a run. stages: (first step, end step, rows by share, largest first). total: over all steps."""

    stages: tuple[tuple[int, int, tuple[DrawRow, ...]], ...]
    total: tuple[DrawRow, ...]
    starved: tuple[tuple[str, int, float, int], ...]  # surely get nothing: (name, stage, share, stage's sequences)
    least_epochs: Mapping[str, tuple[float, int]]  # of counted sources: the least number of epochs, and the tokens


def draw_table[S](
    stages: Stages[S],
    batch: BatchSchedule,
    *,
    block: int,
    seq_len: int,
    first: int,
    end: int,
    tokens: Mapping[S, int],
    lengths: Mapping[int, int] | None = None,
) -> DrawTable[S]:
    """Return the table of the optimizer steps first … end - 1.

    tokens: of the counted sources, which must include every source of a ByTokens. lengths: see OrderSpec.
    Draws are exact at the end of each block. Within a block they may be off, because the order there depends on the
    content of the stores. Raises BadField, and StarvedSource for a source without a whole window.
    """
    stages = stages.resolved(tokens)
    for source, count in tokens.items():
        if count < seq_len:
            raise StarvedSource(
                f"{source_name(source)} holds {count:,} tokens, less than one sequence of {seq_len:,}; "
                "give the source more text or use a shorter seq_len"
            )
    planned = stage_draws(stages, batch, stages.sources)
    drawn_before: dict[S, float] = dict.fromkeys(stages.sources, 0.0)
    least: dict[S, float] = dict.fromkeys(stages.sources, 0.0)
    meant_in_all: dict[S, float] = dict.fromkeys(stages.sources, 0.0)
    drawn_in_all: dict[S, int] = dict.fromkeys(stages.sources, 0)
    tables: list[tuple[int, int, tuple[DrawRow, ...]]] = []
    starved: list[tuple[str, int, float, int]] = []

    def windows_of(stage: StageDraws[S], stop: int) -> dict[S, float]:
        """Return the draws of the stage's first ``stop`` sequences, in windows of seq_len tokens."""
        found: dict[S, float] = dict.fromkeys(stage.sources, 0.0)
        starts = [min(max(batch.sequences_before(at) - stage.sequence, 0), stop) for at in lengths or {0: seq_len}]
        for held, start, end in zip((lengths or {0: seq_len}).values(), starts, [*starts[1:], stop], strict=True):
            for source, count in _between(stage, start, end)[1].items():
                found[source] += count * held / seq_len
        return found

    def row(source: S, meant: float, drawn: int, so_far: float, sequences: int) -> DrawRow:
        windows = tokens[source] // seq_len if source in tokens else 0
        return DrawRow(
            name=source_name(source),
            share=meant / sequences,
            available=tokens.get(source),
            drawn=drawn * seq_len,
            epochs=drawn / windows if windows else None,
            epochs_by_end=so_far / windows if windows else None,
            per_block=meant / sequences * block,
        )

    for stage, stage_end in zip(planned, [*stages.starts[1:], end], strict=True):
        begins, ends = (min(max(stage.step, at), max(stage_end, stage.step), end) for at in (first, end))
        last = batch.sequences_before(max(min(stage_end, end), stage.step)) - stage.sequence
        for source, count in windows_of(stage, last // block * block).items():
            least[source] += count
        by_end = {source: drawn_before[source] + count for source, count in windows_of(stage, last).items()}
        if begins < ends:
            start = batch.sequences_before(begins) - stage.sequence
            meant, drawn = _between(stage, start, last)
            sure = _most(stage, start, last, block)
            rows = [row(source, meant[source], drawn[source], by_end[source], last - start) for source in stage.sources]
            tables.append((begins, ends, _largest_first(rows)))
            starved += [
                (source_name(source), stage.step, share, last - start)
                for source, share in stage.shares.items()
                if not sure[source]
            ]
            for source in stage.sources:
                meant_in_all[source] += meant[source]
                drawn_in_all[source] += drawn[source]
        drawn_before |= by_end
    sequences = batch.sequences_before(end) - batch.sequences_before(first)
    total = [
        row(source, meant_in_all[source], drawn_in_all[source], drawn_before[source], sequences)
        for source in stages.sources
        if meant_in_all[source]
    ]
    sure_epochs = {source_name(s): (least[s] / (count // seq_len), count) for s, count in tokens.items() if s in least}
    return DrawTable(
        stages=tuple(tables), total=_largest_first(total), starved=tuple(starved), least_epochs=sure_epochs
    )


def must_be_drawable[S](
    table: DrawTable[S], *, end: int, max_epochs: float, allow_starved: tuple[str, ...] = ()
) -> None:
    """Raise StarvedSource or TooManyEpochs, naming every source, if the run's own gates would surely refuse."""
    refused = [each for each in table.starved if each[0] not in allow_starved]
    if refused:
        names = tuple(dict.fromkeys(name for name, *_ in refused))
        raise StarvedSource(
            "; ".join(
                f"{name} (share {share:.4%}) gets none of the {sequences:,} sequences of the stage at step {stage:,}: "
                f"the source needs a share of about {1 / sequences:.2%} or a longer stage"
                for name, stage, share, sequences in refused
            )
            + f"; drop it from the mixture, or allow it: allow_starved={names}"
        )
    worn = {name: each for name, each in table.least_epochs.items() if each[0] > max_epochs}
    if worn:
        lines = [
            f"{name} is read {epochs:.2f} times by step {end:,}: it holds {count:,} tokens"
            for name, (epochs, count) in sorted(worn.items(), key=lambda each: -each[1][0])
        ]
        worst = max(epochs for epochs, _ in worn.values())
        raise TooManyEpochs(
            f"{'; '.join(lines)}. At most {max_epochs:g} times is allowed: multiply its share by "
            f"{max_epochs / worst:.2g}, give it more text, or raise max_epochs to {worst:.1f}"
        )


def _between[S](stage: StageDraws[S], start: int, stop: int) -> tuple[dict[S, float], dict[S, int]]:
    meant = [stage.meant(at) for at in (start, stop)]
    drawn = [stage.counts(at) for at in (start, stop)]
    return (
        {source: meant[1][source] - meant[0][source] for source in stage.sources},
        {source: drawn[1][source] - drawn[0][source] for source in stage.sources},
    )


def _most[S](stage: StageDraws[S], start: int, stop: int, block: int) -> dict[S, int]:
    """Return the draws from each source in all blocks that these sequences touch."""
    return _between(stage, start // block * block, -(-stop // block) * block)[1]


def _largest_first(rows: list[DrawRow]) -> tuple[DrawRow, ...]:
    return tuple(sorted(rows, key=lambda row: (-row.share, row.name)))
