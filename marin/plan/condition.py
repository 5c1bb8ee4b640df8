"""The condition of each step in the store: plain facts and their consequences, before any decision."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from marin.steps.step import ExecutorStep
from marin.store.record import Acceptance, Record

type Conditions = dict[ExecutorStep[Any], Condition]


class FilesState(Struct, frozen=True, kw_only=True):
    """The state of a committed output's files."""

    wrong: str = ""  # the fault of the files, "" if they have none
    deleted: bool = False  # all files of the output are gone, and the store's own files beside them
    notes: tuple[str, ...] = ()  # remarks for people


class Comparison(Struct, frozen=True, kw_only=True):
    """The differences between the code, data and inputs that an output was built from and today's."""

    changes: tuple[str, ...] = ()  # one line each
    excuse: str = ""  # the reason that somebody gave why the changes do not matter, "" without one
    acceptance: Acceptance | None = None  # the record of this reason
    notes: tuple[str, ...] = ()  # parts that could not be compared

    @property
    def drift(self) -> tuple[str, ...]:
        """The changes that somebody must decide about."""
        return () if self.excuse else self.changes


UNCHANGED = Comparison()


class Missing(Struct, frozen=True, kw_only=True):
    """Why a step is not in the store."""

    reason: str
    only_inputs_changed: bool = False  # an earlier output differs only in its inputs: with equal bytes nothing runs


class Condition(Struct, frozen=True, kw_only=True):
    """The facts about one step, read once."""

    record: Record | None = None  # the committed record
    damage: str = ""  # why the record cannot be read, or the fault of the output's files
    deleted: bool = False  # the files are all gone, and have no other fault
    untrusted: str = ""  # why the output, or the output that an unused pin names, must not be used
    revoked: bool = False  # the output is revoked itself, not only built from a revoked one
    output: Comparison = UNCHANGED  # the committed output compared with today
    work: Comparison = UNCHANGED  # work in progress that an unfinished attempt left, compared with today
    pinned: Comparison = UNCHANGED  # the code and files behind a pinned output, compared with today
    pinned_output: Record | None = None  # the output that a pin names and that was not used before
    pin_fault: str = ""  # why there is no pinned output
    missing: Missing | None = None  # why nothing is committed
    remarks: tuple[str, ...] = ()  # warnings that never stop a run

    @property
    def drift(self) -> tuple[str, ...]:
        return (*self.output.drift, *self.pinned.drift)

    @property
    def work_drift(self) -> tuple[str, ...]:
        """The changes because of which work in progress must not simply continue."""
        return self.work.drift

    @property
    def continue_accepted(self) -> bool:
        """Return whether somebody accepted that work in progress continues."""
        return bool(self.work.excuse)

    @property
    def is_missing(self) -> bool:
        return self.record is None and not self.damage and not self.work_drift

    @property
    def notes(self) -> tuple[str, ...]:
        """The notes for people, in the order in which they are shown."""
        about_work = f"goes on with work in progress: {self.work.excuse}" if self.work.excuse else ""
        lines = (*self.remarks, self.output.excuse, about_work, *self.pinned.notes, self.pinned.excuse)
        return tuple(filter(None, lines))
