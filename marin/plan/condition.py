"""Each step's own condition in the store: plain facts, and what follows from them before anybody decides what to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from marin.steps.step import ExecutorStep
from marin.store.record import Acceptance, Record

type Conditions = dict[ExecutorStep[Any], Condition]


@dataclass(frozen=True, kw_only=True)
class FilesState:
    """Of a committed output."""

    wrong: str = ""  # what is wrong with its files, "" if nothing is
    deleted: bool = False  # there is no file of it any more, and none of the store's own beside them
    notes: tuple[str, ...] = ()  # what is worth saying


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What differs between what made something and what would make it today."""

    changes: tuple[str, ...] = ()  # one line each
    excuse: str = ""  # why they do not matter, as somebody said; "" if nobody did
    acceptance: Acceptance | None = None  # where that was recorded
    notes: tuple[str, ...] = ()  # what could not be compared

    @property
    def drift(self) -> tuple[str, ...]:
        """The changes that somebody must decide about."""
        return () if self.excuse else self.changes


UNCHANGED = Comparison()


@dataclass(frozen=True, kw_only=True)
class Missing:
    """Why a step is not in the store."""

    reason: str
    only_inputs_changed: bool = False  # an earlier output differs from it only in what it reads: equal bytes spare it


@dataclass(frozen=True, kw_only=True)
class Condition:
    """What was read of one step, once."""

    record: Record | None = None  # what is committed
    damage: str = ""  # why the record cannot be read, or what is wrong with the output's files
    deleted: bool = False  # the files are all gone, and that is all that is wrong with them
    untrusted: str = ""  # why these bytes, or those that an unused pin names, are not to be used
    revoked: bool = False  # they are revoked themselves, not made from what is
    output: Comparison = UNCHANGED  # the committed output with today
    work: Comparison = UNCHANGED  # work in progress that an unfinished attempt left, with today
    pinned: Comparison = UNCHANGED  # what a pin's output was made by, with today
    pinned_output: Record | None = None  # what a pin names that was not used before
    pin_fault: str = ""  # why there is none
    missing: Missing | None = None  # why nothing is committed
    remarks: tuple[str, ...] = ()  # what warns and never stops

    @property
    def drift(self) -> tuple[str, ...]:
        return (*self.output.drift, *self.pinned.drift)

    @property
    def work_drift(self) -> tuple[str, ...]:
        """Why work in progress must not simply be continued."""
        return self.work.drift

    @property
    def continue_accepted(self) -> bool:
        """Somebody accepted that work in progress is continued."""
        return bool(self.work.excuse)

    @property
    def is_missing(self) -> bool:
        return self.record is None and not self.damage and not self.work_drift

    @property
    def notes(self) -> tuple[str, ...]:
        """For people, in this order."""
        about_work = f"goes on with work in progress: {self.work.excuse}" if self.work.excuse else ""
        lines = (*self.remarks, self.output.excuse, about_work, *self.pinned.notes, self.pinned.excuse)
        return tuple(filter(None, lines))
