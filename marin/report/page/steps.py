"""The steps of a page as columns, which its script lists; texts that steps share stand once."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from marin.report import units
from marin.report.claims import Claim
from marin.report.page import alike
from marin.report.page.graph import ORDER
from marin.report.page.model import StepRow

SHORT = 12  # digits of an identity
INLINE = 5  # inputs; longer lists stand once for all steps that read the same
MOST_INPUTS = 2_000  # of a step
ERROR = 2_000  # letters, of at most
MOST_ERRORS = 100  # different errors; of more, the rest is in the logs
FACTS = 300  # letters of a fact
UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


def columns(steps: Sequence[StepRow], claims: Mapping[str, Sequence[Claim]], prefix: str) -> dict[str, Any]:
    """Paths are below the prefix; 1 stands for the one that operator, label and identity give."""
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
        "output": [_output(step, prefix) for step in steps],
        "log": [_log(step, prefix) for step in steps],
        "facts": [[names[tuple(step.facts)], *(_fact(each) for each in step.facts.values())] for step in steps],
        "error": {
            at: texts[alike.cut(step.error, ERROR) if step.error in errors else "its log says how"]
            for at, step in enumerate(steps)
            if step.error
        },
        "notes": {
            number[name]: [texts[line] for line in alike.lines(of_step)]
            for name, of_step in claims.items()
            if of_step and name in number
        },
        "apart": sorted(number[name] for name in alike.subjects_apart(claims) if name in number),
        "ops": list(ops),
        "texts": list(texts),
        "fact_names": [[name.replace("_", " ") for name in each] for each in names],
        "lists": list(lists),
        "statuses": [status.value for status in ORDER],
        "prefix": prefix,
    }


class _Table(dict[Any, int]):
    """Numbers what it is asked for, in the order of the first time."""

    def __missing__(self, key: Any) -> int:
        self[key] = len(self)
        return self[key]


def _inputs(step: StepRow, at: int, number: dict[str, int], lists: _Table) -> list[int | str] | int:
    """How many steps before it each stands, or the name of what is not on the page; a long list's number."""
    if len(step.inputs) > INLINE:
        return lists[tuple(number.get(name, name) for name in step.inputs[:MOST_INPUTS])]
    return [at - number[name] if name in number else name for name in step.inputs]


def _expected(step: StepRow) -> str:
    return f"{step.op}/{UNSAFE.sub('-', step.label)}-{step.identity[:SHORT]}.0001"


def _output(step: StepRow, prefix: str) -> str | int:
    path = step.output.removeprefix(prefix.rstrip("/") + "/")
    return 1 if path == _expected(step) else path


def _log(step: StepRow, prefix: str) -> str | int:
    path = step.log.removeprefix(prefix.rstrip("/") + "/")
    return 1 if path == f"{_expected(step)}/.marin/log.txt" else path


def _fact(value: object) -> str:
    return "" if value == {} else alike.cut(units.fact(value), FACTS)
