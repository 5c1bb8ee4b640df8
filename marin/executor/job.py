"""Jobs for workers, and their outcomes."""

from __future__ import annotations

import uuid
from enum import StrEnum
from typing import Any

from msgspec import Struct, field
from msgspec.structs import force_setattr

from marin.steps.step import ExecutorStep
from marin.store.ends import Claim
from marin.store.files.verify import EVERY_BYTE
from marin.store.record import Record
from marin.store.redaction import redacted


class RunSettings(Struct, frozen=True, kw_only=True):
    """The settings of a run, which all its jobs share."""

    name: str = field(default_factory=lambda: uuid.uuid4().hex)  # of the run, see executor.input_check
    experiment: str = ""
    git: str = ""  # revision
    check_inputs: int = EVERY_BYTE  # bytes of each input to compare before a step starts, see executor.input_check
    tracker: str = ""  # tracker of trainings: "wandb", "trackio", or "" for none
    profile: tuple[int, int] | None = None  # first and last optimizer step of a trace of trainings


class Job(Struct, frozen=True, kw_only=True):
    """Everything that a worker needs to make one step."""

    prefix: str  # of the store
    step: ExecutorStep[Any]
    code: str  # digest of the code fingerprint that the driver took
    packages: dict[str, str]  # versions that the driver saw
    outside: dict[str, str]  # outside data that the driver saw
    action: str = ""  # see steps.step.action_key; "" if unknown
    inputs: dict[str, Record]  # records of the dependencies, by identity
    replaces: str = ""  # attempt whose committed output the plan saw and must not be used, "" if none
    after: int = 0  # number of the last end that the plan saw; an output with a later one is newer and stands
    occupied: frozenset[str] = frozenset()  # directories of attempts at the step that were there for the plan
    milestones: dict[int, Job] = field(default_factory=dict["int", "Job"])  # to publish on the way, by step number
    keep_state: bool = False  # continue work that other code began, because a person accepted it; else throw it away
    dead_claim: tuple[int, int] | None = None  # number and beat of a foreign claim that was seen to stand still
    lifetime: str = ""  # see steps.lifetime; "" for no limit
    because: str = ""  # why an existing output is rebuilt
    run: RunSettings = field(default_factory=RunSettings)
    scale: str = ""  # "" outside an experiment
    changes: tuple[str, ...] = ()  # fields that --set changed

    def is_dead(self, claim: Claim) -> bool:
        return claim.holder.is_gone() or (claim.number, claim.beat) == self.dead_claim


class Ending(StrEnum):
    DONE = "done"
    CACHED = "cached"
    HELD = "held"
    FAILED = "failed"
    PREEMPTED = "preempted"  # stopped from outside, not by its own error; it continues where a worker is free
    LOST = "lost"  # one of its processes died or stood still; it is tried again while it makes progress


class Outcome(Struct, frozen=True, kw_only=True):
    """The outcome of an attempt."""

    ending: Ending
    record: Record | None = None
    error: str = ""  # one line
    log: str = ""  # path of the attempt's log
    held_by: str = ""
    seconds: float = 0.0
    began_at: float = 0.0  # progress of the work that it continued, in the step's own unit

    def __post_init__(self) -> None:
        """Remove credentials from the message, whatever failed."""
        force_setattr(self, "error", redacted(self.error))
