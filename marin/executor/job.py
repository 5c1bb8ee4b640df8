"""What a worker is asked to do, and how that ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from marin.steps.step import ExecutorStep
from marin.store.files.verify import EVERY_BYTE
from marin.store.lease import EXPIRY, LeaseDocument
from marin.store.record import Record
from marin.store.redaction import redacted


@dataclass(frozen=True, kw_only=True)
class Job:
    """Everything a worker needs to make one step."""

    prefix: str  # of the store
    step: ExecutorStep[Any]
    code: str  # digest of the code fingerprint, as the driver took it
    packages: dict[str, str]  # versions, likewise
    outside: dict[str, str]  # outside data, likewise
    action: str = ""  # see steps.step.action_key; "" where it is not known
    inputs: dict[str, Record]  # records of the dependencies, by identity
    replaces: str  # attempt that the plan saw committed, "" if none; another one found at run time is newer and stands
    restores: Record | None = None  # record of a deleted output, whose bytes must come out again
    milestones: dict[int, Job] = field(default_factory=dict["int", "Job"])  # what to commit on the way, by step number
    keep_state: bool = False  # go on with work that other code began (a person accepted it); else it is thrown away
    dead_lease: tuple[int, int] | None = None  # token and beat of a foreign lease that was seen to stand still
    expiry: float = EXPIRY  # seconds after which a lease that stands still is dead
    lifetime: str = ""  # see steps.lifetime; "" for good
    experiment: str = ""
    git: str = ""
    because: str = ""  # why an output that there was is made again
    check_inputs: int = EVERY_BYTE  # bytes of each input to compare before the step starts, see executor.input_check
    run: str = ""  # name of the run, likewise
    profile: tuple[int, int] | None = None  # first and last optimizer step of a trace of trainings
    tracker: str = ""  # what shows trainings: "wandb", "trackio", or "" for nothing
    scale: str = ""  # "" where no experiment makes it
    changes: tuple[str, ...] = ()  # what --set changed

    def may_take_over(self, lease: LeaseDocument) -> bool:
        return lease.holder.is_gone() or (lease.token, lease.beat) == self.dead_lease


class Ending(StrEnum):
    DONE = "done"
    CACHED = "cached"
    HELD = "held"
    FAILED = "failed"
    PREEMPTED = "preempted"  # stopped from outside, not by what it does: it goes on where a worker is
    LOST = "lost"  # a process of it died or stood still: it goes on while that makes progress


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How an attempt ended."""

    ending: Ending
    record: Record | None = None
    error: str = ""  # one line
    details: str = ""  # the traceback
    log: str = ""  # where the attempt's log is
    held_by: str = ""
    seconds: float = 0.0
    began_at: float = 0.0  # how far the work was that it went on with, in the step's own unit

    def __post_init__(self) -> None:
        """Whatever failed: no credential of its message goes on from here."""
        for name in ("error", "details"):
            object.__setattr__(self, name, redacted(getattr(self, name)))
