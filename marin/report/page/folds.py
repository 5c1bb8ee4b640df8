"""The steps of a page: those that a reader must see stand apart, the rest fold by operator."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from marin.report import units
from marin.report.page.model import Status, StepRow, TrustNote
from marin.report.page.room import Room, cut
from marin.store.numbers import listed

MOST_FOLDS = 100  # operators; the steps of smaller ones share a fold
FEW = 2  # notes of one kind that a row repeats
MOST_INPUTS = 2  # by name in a line; a row names all
MOST_NAMED = 12
UNSETTLED = (Status.FAILED, Status.STOPPED, Status.RUNNING)


@dataclass(frozen=True, kw_only=True)
class Fold:
    """All steps of an operator but those that stand apart. op: "" where several share it, by their whole names."""

    op: str
    steps: tuple[StepRow, ...]
    as_lines: bool  # one line a step, as there are too many for a row each
    tally: tuple[tuple[Status, int], ...]
    reason: str  # that of most of them
    alike: tuple[str, ...]  # what the lines need not say: facts that are equal, inputs that are called alike
    facts: tuple[str, ...] | None  # names of those that differ; None where the steps have not the same ones
    reads: str | None  # what each step reads; None where that differs
    seconds: float  # all together, of the runs that made the outputs
    longest: float


@dataclass(frozen=True, kw_only=True)
class Names:
    """Of steps. whole: operators all of whose steps these are, with how many; rest: the others by name."""

    whole: tuple[tuple[str, int], ...]
    rest: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Shared:
    """What is said of several steps alike: a note on trust."""

    kind: str
    text: str
    names: Names


def shared(notes: Sequence[TrustNote], steps: Sequence[StepRow]) -> list[Shared]:
    """Equal notes together, in order of their first."""
    alike: dict[tuple[str, str], dict[str, None]] = defaultdict(dict)
    for note in notes:
        alike[note.kind, note.text][note.step] = None
    return [Shared(kind=kind, text=text, names=named(names, steps)) for (kind, text), names in alike.items()]


def named(names: Collection[str], steps: Sequence[StepRow]) -> Names:
    """Few by name; of many, operators whose steps are all among them."""
    if len(names) <= MOST_NAMED:
        return Names(whole=(), rest=tuple(names))
    total = Counter(step.op for step in steps)
    among = Counter(step.op for step in steps if step.name in names)
    whole = {op: count for op, count in among.items() if count == total[op] > 1}
    of = {step.name: step.op for step in steps}
    return Names(whole=tuple(whole.items()), rest=tuple(name for name in names if of.get(name) not in whole))


def by_step(notes: Sequence[TrustNote]) -> dict[str, list[str]]:
    """The notes on each step; of more than FEW of one kind, how many."""
    kinds: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for note in notes:
        kinds[note.step][note.kind].append(note.text)
    return {
        step: [
            line
            for kind, texts in found.items()
            for line in (
                [f"{kind}: {text}" for text in texts] if len(texts) <= FEW else [f"{len(texts)} × {kind}: see Trust"]
            )
        ]
        for step, found in kinds.items()
    }


def same_errors(steps: Sequence[StepRow]) -> list[list[StepRow]]:
    """Failed steps, those with equal errors together."""
    alike: dict[str, list[StepRow]] = defaultdict(list)
    for step in steps:
        if step.status is Status.FAILED:
            alike[step.error].append(step)
    return list(alike.values())


def apart(steps: Sequence[StepRow], notes: Sequence[TrustNote], most: int) -> list[StepRow]:
    """What failed, was stopped, still runs, drifted, was accepted or made again.

    Beyond so many the others are named with their error or note, and stand in their fold.
    """
    noted = {note.step for note in notes if not note.is_general}
    found = [step for step in steps if step.status in UNSETTLED or step.name in noted]
    return sorted(found, key=lambda step: step.status not in UNSETTLED)[:most]


def fold(steps: Sequence[StepRow], without: Sequence[StepRow], most_rows: int) -> list[Fold]:
    """By operator, in order of their first step."""
    left_out = {step.name for step in without}
    number = Counter(step.op for step in steps if step.name not in left_out)
    largest = {op for op, _ in number.most_common(MOST_FOLDS)}
    by_operator: dict[str, list[StepRow]] = {}
    for step in steps:
        if step.name not in left_out:
            by_operator.setdefault(step.op if step.op in largest else "", []).append(step)
    room, rows = most_rows - len(left_out), set[str]()
    for op, alike in sorted(by_operator.items(), key=lambda item: len(item[1])):
        room -= len(alike)
        rows |= {op} if room >= 0 else set()
    return [_fold(op, alike, as_lines=op not in rows) for op, alike in by_operator.items()]


def _fold(op: str, steps: list[StepRow], *, as_lines: bool) -> Fold:
    statuses, reasons = Counter(step.status for step in steps), Counter(step.reason for step in steps)
    taken = [step.seconds or 0.0 for step in steps]
    alike: list[str] = []
    facts = None
    if len({tuple(step.facts) for step in steps}) == 1:
        texts = {name: {units.fact(step.facts[name]) for step in steps} for name in steps[0].facts}
        facts = tuple(name for name, found in texts.items() if len(found) > 1)
        alike = [f"{name} {text}" for name, found in texts.items() if len(found) == 1 and (text := found.pop())]
    reads = {_reads(step) for step in steps}
    return Fold(
        op=op,
        steps=tuple(steps),
        as_lines=as_lines,
        tally=tuple((status, statuses[status]) for status in Status if statuses[status]),
        reason=max(reasons, key=reasons.__getitem__),
        alike=tuple(alike),
        facts=facts,
        reads=reads.pop() if len(reads) == 1 else None,
        seconds=sum(taken),
        longest=max(taken),
    )


def _reads(step: StepRow) -> str:
    """An input that is called like the step itself has "…" for that: its operator says which it is."""
    names = [name.removesuffix(step.label) + "…" if name.endswith(f"/{step.label}") else name for name in step.inputs]
    return f"reads {listed(names, MOST_INPUTS)}" if names else ""


def first_with_inputs(steps: Sequence[StepRow]) -> Mapping[str, str]:
    """Of each step whose long list of inputs an earlier one has too: that one's name."""
    seen: dict[tuple[str, ...], str] = {}
    found: dict[str, str] = {}
    for step in steps:
        if len(step.inputs) > 5 and (first := seen.setdefault(tuple(step.inputs), step.name)) != step.name:
            found[step.name] = first
    return found


def label(step: StepRow, of: Fold, room: Room) -> str:
    return cut(step.label if of.op else step.name, room.label)


def line(step: StepRow, of: Fold, same: Mapping[str, str], room: Room) -> str:
    """What a line says of a step after its label, code and time, but for what it reads. same: first_with_inputs."""
    said = " · ".join(filter(None, _parts(step, of)))
    if of.reads is None and step.name in same:
        said += f" · reads what {same[step.name]} reads"
    return cut(said, room.line)


def numbered_inputs(
    step: StepRow, of: Fold, same: Mapping[str, str], number: Mapping[str, int], room: Room
) -> tuple[str, int]:
    """What it reads, by number, where neither its fold nor another step says it: names would be most of a page.

    And how many of its inputs there was no room for.
    """
    if of.reads is not None or step.name in same:
        return "", 0
    found = [str(number[name]) for name in step.inputs if name in number]
    return " ".join(found[: room.inputs]), max(len(found) - room.inputs, 0)


def _parts(step: StepRow, of: Fold) -> Iterator[str]:
    if len(of.tally) > 1:
        yield step.status.value
    if step.reason != of.reason:
        yield step.reason
    if of.facts is not None:
        yield from (units.fact(step.facts[name]) for name in of.facts)
    else:
        yield ", ".join(f"{name} {units.fact(value)}" for name, value in step.facts.items() if value != {})
