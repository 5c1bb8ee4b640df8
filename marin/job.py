"""What a worker is told, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from marin.lease import EXPIRY, LeaseDocument
from marin.record import Record
from marin.redaction import redacted
from marin.step import ExecutorStep
from marin.verify import EVERY_BYTE


@dataclass(frozen=True, kw_only=True)
class Job:
    """Everything a worker needs to make one step.

    code, packages, outside: what builds it, as fingerprinted by the driver. action: see marin.step.action_key; "" where
    it is not known. inputs: the dependencies' records, by identity. replaces: the attempt that the plan saw committed
    ("" if none); another one found at run time is newer and stands. because: why that is made again. restores: the
    record of a deleted output, whose bytes must come out again. milestones: what to commit at which optimizer step,
    while running. keep_state: go on with work in progress that other code began (accepted by a person); otherwise such
    work is thrown away. presumed_dead: (token, beat) of a foreign lease that the driver watched stand still. expiry:
    seconds after which a lease that stands still is dead. lifetime: see marin.lifetime; "" for good. check_inputs, run:
    see marin.input_check. scale: "" where no experiment makes it. state: see
    marin.drift.Today.
    """

    prefix: str
    step: ExecutorStep[Any]
    code: str
    packages: dict[str, str]
    outside: dict[str, str]
    action: str = ""
    inputs: dict[str, Record]
    replaces: str
    restores: Record | None = None
    milestones: dict[int, Job] = field(default_factory=dict["int", "Job"])
    keep_state: bool = False
    presumed_dead: tuple[int, int] | None = None
    expiry: float = EXPIRY
    lifetime: str = ""
    state: str = ""
    experiment: str = ""
    git: str = ""
    because: str = ""
    check_inputs: int = EVERY_BYTE
    run: str = ""
    scale: str = ""

    def may_take_over(self, lease: LeaseDocument) -> bool:
        return lease.holder.is_gone() or (lease.token, lease.beat) == self.presumed_dead


class Ending(StrEnum):
    DONE = "done"
    CACHED = "cached"
    HELD = "held"
    FAILED = "failed"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """error: one line; details: the traceback. log: where the attempt's log is."""

    ending: Ending
    record: Record | None = None
    error: str = ""
    details: str = ""
    log: str = ""
    held_by: str = ""
    seconds: float = 0.0

    def __post_init__(self) -> None:
        """Whatever failed: no credential of its message goes on from here."""
        for name in ("error", "details"):
            object.__setattr__(self, name, redacted(getattr(self, name)))
