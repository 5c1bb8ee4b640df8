"""The steps of a page as columns for its script, and texts that the page gives once for several steps."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from marin.report import words
from marin.report.claims import Claim
from marin.report.page.graph import ORDER
from marin.report.page.model import StepRow
from marin.report.words import grouped

FEW = 2  # claims of one subject that a step repeats
GENERAL = ("other package version", "partly observed", "note")  # often true of many steps: none stands apart
MOST_NAMED = 12
SHORT = 12  # digits of an identity
INLINE = 5  # inputs; a longer list is stored once for all steps that have it
MOST_INPUTS = 2_000  # of a step
ERROR = 2_000  # characters of an error
MOST_ERRORS = 100  # different errors; logs have the rest
FACTS = 300  # characters of a fact
UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
ROOM = {"kinds": 50, "error": 2000}  # number of errors and of claims; characters of an error. Logs have all.


def cut(text: str, letters: int) -> str:
    return text if len(text) <= letters else text[: letters - 1] + "…"


class Names(NamedTuple):
    """Names of steps. whole: operators with all their steps, and how many; rest: the other steps by name."""

    whole: Sequence[tuple[str, int]]
    rest: Sequence[str]


def shared(steps: Sequence[StepRow]) -> list[tuple[Claim, Names]]:
    """Return each claim once with the steps that it concerns, in order of first appearance."""
    alike = grouped((claim, step.name) for step in steps for claim in dict.fromkeys(step.claims))
    return [(claim, named(names, steps)) for claim, names in alike.items()]


def subject_apart(step: StepRow) -> str:
    """Return the subject of the last claim that sets this step apart; "" if none does."""
    return next((each.subject for each in reversed(step.claims) if each.subject not in GENERAL), "")


def named(names: Collection[str], steps: Sequence[StepRow]) -> Names:
    """Return a few steps by name. Among many, an operator stands for its steps if the names include all its steps."""
    if len(names) <= MOST_NAMED:
        return Names((), tuple(names))
    total, of = Counter(step.op for step in steps), {step.name: step.op for step in steps}
    among = Counter(of[name] for name in names if name in of)
    whole = {op: count for op, count in among.items() if count == total[op] > 1}
    return Names(list(whole.items()), [name for name in names if of.get(name) not in whole])


def lines(claims: Sequence[Claim]) -> list[str]:
    """Return the claims of one step, in lines. More than FEW claims of one subject become a count."""
    found: list[str] = []
    for subject, texts in grouped((claim.subject, claim.text) for claim in claims).items():
        many = f"{len(texts)} × {subject}: see Notes on outputs"
        found += [f"{subject}: {text}" for text in texts] if len(texts) <= FEW else [many]
    return found


def columns(steps: Sequence[StepRow], prefix: str) -> dict[str, Any]:
    """Return the columns. Paths are below the prefix; 1 stands for the path from operator, label and identity."""
    number = {step.name: at for at, step in enumerate(steps)}
    texts, ops, names, lists = _Table(), _Table(), _Table(), _Table()
    errors = list(dict.fromkeys(step.error for step in steps if step.error))[:MOST_ERRORS]
    return {
        "op": [ops[step.op] for step in steps],
        "labels": [step.label for step in steps],
        "status": [ORDER.index(step.status) for step in steps],
        "reason": [texts[step.reason] for step in steps],
        "seconds": [step.seconds for step in steps],
        "identity": [step.identity[:SHORT] for step in steps],
        "inputs": [_inputs(step, at, number, lists) for at, step in enumerate(steps)],
        "output": [_path(step, step.output, "", prefix) for step in steps],
        "log": [_path(step, step.log, "/.marin/log.txt", prefix) for step in steps],
        "facts": [
            [names[tuple(step.facts)], *(cut(words.fact(each), FACTS) for each in step.facts.values())]
            for step in steps
        ],
        "error": {
            at: texts[cut(step.error, ERROR) if step.error in errors else "see the log"]
            for at, step in enumerate(steps)
            if step.error
        },
        "notes": {at: [texts[line] for line in lines(step.claims)] for at, step in enumerate(steps) if step.claims},
        "apart": [at for at, step in enumerate(steps) if subject_apart(step)],
        "ops": list(ops),
        "texts": list(texts),
        "fact_names": [[name.replace("_", " ") for name in each] for each in names],
        "lists": list(lists),
        "statuses": [status.value for status in ORDER],
        "prefix": prefix,
    }


class _Table(dict[Any, int]):
    """A dictionary that numbers its keys in the order of their first use."""

    def __missing__(self, key: Any) -> int:
        self[key] = len(self)
        return self[key]


def _inputs(step: StepRow, at: int, number: dict[str, int], lists: _Table) -> list[int | str] | int:
    """Return how many steps before this one each input stands, or its name if it is not on the page.

    A long list is given by its number in ``lists``.
    """
    if len(step.inputs) > INLINE:
        return lists[tuple(number.get(name, name) for name in step.inputs[:MOST_INPUTS])]
    return [at - number[name] if name in number else name for name in step.inputs]


def _path(step: StepRow, path: str, ending: str, prefix: str) -> str | int:
    expected = f"{step.op}/{UNSAFE.sub('-', step.label)}-{step.identity[:SHORT]}.0001{ending}"
    below = path.removeprefix(prefix.rstrip("/") + "/")
    return 1 if below == expected else below
