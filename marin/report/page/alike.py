"""What a page says once of several steps: errors, and notes on trust."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from marin.report.page.model import Status, StepRow, TrustNote

FEW = 2  # notes of one kind that a step repeats
MOST_NAMED = 12
ROOM = {"kinds": 50, "error": 2000}  # of errors and of notes on trust; letters of an error. Logs have all.


def cut(text: str, letters: int) -> str:
    return text if len(text) <= letters else text[: letters - 1] + "…"


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
