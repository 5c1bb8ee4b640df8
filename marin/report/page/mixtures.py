"""Mixtures of trainings: shares by source and stage, how far arms differ in them, and the epochs of each source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from marin.report.page.model import Strip
from marin.report.page.trainings import Training
from marin.report.section import Bold, Cell, Column, Difference, Share, Table
from marin.report.words import fixed, grouped
from marin.store.numbers import counted, write_count

LEAST = 0.2  # points; a source with a smaller difference between two arms has no row above the fold
FAMILIES = 6  # of sources, with a segment of their own in a strip


@dataclass(frozen=True)
class Stage:
    """One mixture of a training, from its first step on. arm: "" for a mixture that all arms share."""

    arm: str
    first: int  # optimizer step
    shares: Mapping[str, float]

    @property
    def name(self) -> str:
        return f"{self.arm or 'all arms'}, from step {self.first:,}"


def stages(trainings: Iterable[Training]) -> list[Stage]:
    """Return the stages of the first shared run and of the arms. A stage that all arms have is listed once."""
    found: list[Stage] = []
    of_arms: dict[str, dict[int, Mapping[str, float]]] = {}
    for each in trainings:
        if each.arm:
            of_arms[each.arm] = dict(each.stages)
        elif each.span[0] == 0:  # a later shared phase reads the mixture of the first one
            found += [Stage("", first, of_stage) for first, of_stage in each.stages]
    for arm, by_step in of_arms.items():
        for first, of_stage in by_step.items():
            common = len(of_arms) > 1 and all(other.get(first) == of_stage for other in of_arms.values())
            if (stage := Stage("" if common else arm, first, of_stage)) not in found:
                found.append(stage)
    return found


def strips(found: Sequence[Stage]) -> list[Strip]:
    """Return each stage as a bar of source families. A family is the part of a source's name before the first slash."""
    every = [(source.partition("/")[0], share) for stage in found for source, share in stage.shares.items()]
    totals = {family: sum(shares) for family, shares in grouped(every).items()}
    named = sorted(totals, key=lambda family: -totals[family])[:FAMILIES]
    made: list[Strip] = []
    for stage in found:
        families = ((source.partition("/")[0], share) for source, share in stage.shares.items())
        parts = grouped((family if family in named else "others", share) for family, share in families)
        made.append(Strip(stage.name, [(name, sum(parts[name])) for name in (*named, "others") if name in parts]))
    return made


def tables(found: Sequence[Stage], trainings: Iterable[Training]) -> Iterator[Table]:
    """Yield shares by source, largest differences between the last two arms first; then the sequences read."""
    yield from shares_of(found)
    if used := {each.step.label: use for each in trainings if (use := _use(each))}:
        yield _read(used)


def shares_of(found: Sequence[Stage]) -> Iterator[Table]:
    """Yield shares by source. Sources that differ between the last stages of two arms come first, unfolded."""
    last = {stage.arm: stage for stage in found if stage.arm}  # the last stage of each arm
    pair = list(last.values()) if len(last) == 2 else []
    shares = (sorted(stage.shares.items(), key=lambda each: (-each[1], each[0])) for stage in found)
    sources = dict.fromkeys((source for of_stage in shares for source, _ in of_stage), 0.0)
    if pair:
        sources = {name: 100 * (pair[1].shares.get(name, 0.0) - pair[0].shares.get(name, 0.0)) for name in sources}
    apart = sorted((name for name in sources if abs(sources[name]) >= LEAST), key=lambda name: -abs(sources[name]))
    alike = [name for name in sources if name not in apart]
    columns = [
        Column("source"),
        *(Column(stage.name, arm=stage.arm, digits=2) for stage in found),
        *([Column(f"{pair[1].arm} − {pair[0].arm}, points", digits=2)] if pair else []),
    ]

    def row(name: str) -> list[Cell]:
        shares = [Share(value=stage.shares[name], arm=stage.arm) if name in stage.shares else "" for stage in found]
        ahead = pair[1 if sources[name] > 0 else 0].arm if pair else ""
        return [name, *shares, *([Difference(value=sources[name], arm=ahead)] if pair else [])]

    if apart:
        title = "Sources whose shares differ between arms, in percent of sequences"
        yield Table(title=title, columns=columns, rows=[row(name) for name in apart])
    if alike:
        less = f"{counted(len(alike), 'source')} that differ by less than {LEAST} points"
        title = less if apart else "Shares, in percent of sequences"
        yield Table(title=title, columns=columns, rows=[row(name) for name in alike], folded=bool(apart))


def _use(of: Training) -> dict[str, tuple[int, float]]:
    """Return (sequences, epochs) that a training read of each source, by its metrics."""
    sequences = Counter[str]()
    for row in of.rows:
        sequences.update(row.get("sources", {}))
    length = of.phase.seq_len if of.phase is not None else 0
    return {
        name: (count, count * length / tokens if (tokens := of.tokens.get(name)) else 0.0)
        for name, count in sequences.items()
    }


def _read(used: Mapping[str, Mapping[str, tuple[int, float]]]) -> Table:
    reads = (sorted(use.items(), key=lambda each: -each[1][0]) for use in used.values())
    names = dict.fromkeys(name for of_one in reads for name, _ in of_one)

    def cells(use: Mapping[str, tuple[int, float]], name: str) -> list[Cell]:
        if name not in use:
            return ["", ""]
        sequences, epochs = use[name]
        return [write_count(sequences), Bold(fixed(epochs, 2)) if epochs > 1 else fixed(epochs, 2)]

    return Table(
        title="Data read: sequences and epochs of each source",
        columns=[Column("source"), *(Column(text) for name in used for text in (f"{name}, sequences", "epochs"))],
        rows=[[name, *(cell for use in used.values() for cell in cells(use, name))] for name in names],
        note="Bold: more than one epoch.",
        folded=True,
    )
