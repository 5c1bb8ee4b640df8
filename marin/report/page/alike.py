"""What a page says once of several steps: errors, and claims."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from marin.executor.run_results import Status
from marin.report.claims import Claim
from marin.report.page.model import StepRow

FEW = 2  # claims of one subject that a step repeats
GENERAL = ("other package version", "not wholly observed", "note")  # said of any number of steps: none stands apart
MOST_NAMED = 12
ROOM = {"kinds": 50, "error": 2000}  # of errors and of claims; letters of an error. Logs have all.


def cut(text: str, letters: int) -> str:
    return text if len(text) <= letters else text[: letters - 1] + "…"


@dataclass(frozen=True, kw_only=True)
class Names:
    """Of steps. whole: operators all of whose steps these are, with how many; rest: the others by name."""

    whole: tuple[tuple[str, int], ...]
    rest: tuple[str, ...]


def shared(claims: Mapping[str, Sequence[Claim]], steps: Sequence[StepRow]) -> list[tuple[Claim, Names]]:
    """Each claim once, with the steps that it is of, in order of their first."""
    alike: dict[Claim, dict[str, None]] = defaultdict(dict)
    for step, of_step in claims.items():
        for claim in of_step:
            alike[claim][step] = None
    return [(claim, named(names, steps)) for claim, names in alike.items()]


def subjects_apart(claims: Mapping[str, Sequence[Claim]]) -> dict[str, str]:
    """Of each step that stands apart for a claim, its subject; of several the last."""
    return {step: each.subject for step, of_step in claims.items() for each in of_step if each.subject not in GENERAL}


def named(names: Collection[str], steps: Sequence[StepRow]) -> Names:
    """Few by name; of many, operators whose steps are all among them."""
    if len(names) <= MOST_NAMED:
        return Names(whole=(), rest=tuple(names))
    total = Counter(step.op for step in steps)
    among = Counter(step.op for step in steps if step.name in names)
    whole = {op: count for op, count in among.items() if count == total[op] > 1}
    of = {step.name: step.op for step in steps}
    return Names(whole=tuple(whole.items()), rest=tuple(name for name in names if of.get(name) not in whole))


def lines(claims: Sequence[Claim]) -> list[str]:
    """Of one step; of more than FEW claims of one subject, how many."""
    subjects: dict[str, list[str]] = defaultdict(list)
    for claim in claims:
        subjects[claim.subject].append(claim.text)
    return [
        line
        for subject, texts in subjects.items()
        for line in (
            [f"{subject}: {text}" for text in texts] if len(texts) <= FEW else [f"{len(texts)} × {subject}: see Trust"]
        )
    ]


def same_errors(steps: Sequence[StepRow]) -> list[list[StepRow]]:
    """Failed steps, those with equal errors together."""
    alike: dict[str, list[StepRow]] = defaultdict(list)
    for step in steps:
        if step.status is Status.FAILED:
            alike[step.error].append(step)
    return list(alike.values())
