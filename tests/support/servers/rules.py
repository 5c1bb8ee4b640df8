"""The rules by which a test tells the server how to treat the calls of a store's clients."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from tests.support.servers.calls import Call, Operation


class Act(StrEnum):
    """DELAY: answer after ``seconds``. ANSWER: with ``status``, doing nothing. CUT: close the connection, doing
    nothing. LOSE: do it, then close the connection without an answer. HANG: never answer. HIDE: leave objects whose
    name matches ``hidden`` out of a listing. IGNORE_CONDITIONS: as some stores do. PAGES: of ``size`` names."""

    DELAY = "delay"
    ANSWER = "answer"
    CUT = "cut"
    LOSE = "lose"
    HANG = "hang"
    HIDE = "hide"
    IGNORE_CONDITIONS = "ignore conditions"
    PAGES = "pages"


@dataclass
class Rule:
    """Applies to calls of these operations (none given: all) whose object matches ``name``.

    skip: so many matching calls pass first. times: applies to so many; None for all that follow.
    """

    act: Act
    name: str = ""
    operations: list[Operation] = field(default_factory=list[Operation])
    skip: int = 0
    times: int | None = None
    status: int = 503
    seconds: float = 0.0
    hidden: str = ""
    size: int = 1000

    def applies(self, call: Call) -> bool:
        """Counts the call, if it matches."""
        if (self.operations and call.operation not in self.operations) or not re.search(self.name, call.name):
            return False
        if self.skip:
            self.skip -= 1
            return False
        if self.times is not None:
            if not self.times:
                return False
            self.times -= 1
        return True

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def rule_from_json(data: dict[str, Any]) -> Rule:
    operations = [Operation(name) for name in data.pop("operations")]
    return Rule(act=Act(data.pop("act")), operations=operations, **data)
