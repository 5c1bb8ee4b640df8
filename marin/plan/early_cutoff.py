"""Early cutoff: an output that the same action made under another identity serves this one too, and nothing runs.

Bump the version of a download, get the same bytes: everything behind it has a new identity, but the same operator,
version, fields and input contents as before. The action key (``marin.steps.step.action_key``) says so without
comparing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from marin.errors import CorruptRecord
from marin.plan.condition import state_of_files
from marin.plan.drift import Today, same
from marin.plan.snapshot import Snapshot
from marin.steps.step import ExecutorStep, Pin
from marin.store.layout import RECORD
from marin.store.record import Acceptance, Record, parse_record


def roots_of(step: ExecutorStep[Any], record_of: Callable[[ExecutorStep[Any]], Record | None]) -> dict[str, str] | None:
    """Digest of what a step reads, by identity; None if some of it is not known (yet).

    A milestone's are those of its training run's inputs: the run's record knows them too.
    """
    roots: dict[str, str] = {}
    if step.producer is not None and (made := record_of(step.producer)) is not None:
        roots = {held.identity: held.root for held in made.inputs}
    for dependency in (step.producer or step).dependencies:
        record = record_of(dependency)
        if record is not None:
            roots[dependency.identity] = record.root
        elif dependency.identity not in roots:
            return None
    return roots


def why_shared(step: ExecutorStep[Any], original: Record) -> str:
    """In a few words, after it was done."""
    if step.pin is not None:
        return f"pinned: {original.attempt}, every byte is right"
    return f"same action and input bytes as {original.name} {original.identity[:12]}"


class Aliases:
    """Finds outputs for identities that have none. today: what would build each step now."""

    def __init__(self, snapshot: Snapshot, today: Mapping[ExecutorStep[Any], Today]) -> None:
        self.snapshot, self.today = snapshot, today

    def find(self, step: ExecutorStep[Any], action: str) -> Record | None:
        """A trusted output of the same action that today's code would make alike; None if there is none.

        action: see ``marin.steps.step.action_key``; "" where it is not known.
        """
        for identity in self.snapshot.actions.get(action, ()) if action else ():
            record = self._trusted(identity) if identity != step.identity else None
            if record is not None and record.action == action and self.stands(record, self.today[step])[0]:
                return record
        return None

    def add(self, record: Record) -> None:
        """An output that was committed since the snapshot."""
        self.snapshot.records[record.identity] = record
        if record.action and not record.alias_of:
            identities = self.snapshot.actions.setdefault(record.action, [])
            if record.identity not in identities:
                identities.append(record.identity)

    def stands(self, record: Record, today: Today) -> tuple[bool, Acceptance | None]:
        """(would today's code make this output from the same inputs, who accepted that if the code differs)."""
        inputs = {held.identity: held.root for held in record.inputs}
        if same(self.snapshot.store, record.made_by, today, inputs, record.observed):
            return True, None
        for acceptance in self.snapshot.store.acceptances(record.identity):
            if same(self.snapshot.store, acceptance, today, inputs, record.observed):
                return True, acceptance
        return False, None

    def pinned(self, pin: Pin) -> tuple[Record | None, str]:
        """(the output that a pin names, or what is wrong with it)."""
        store = self.snapshot.store
        content = store.objects.read(f"{pin.at}/{RECORD}")
        if content is None:
            return None, (
                f"the pinned output {pin.at} is not in {store.prefix}; `marin ls` lists what is, "
                "`marin adopt` brings outside data in"
            )
        try:
            record = parse_record(content, f"{store.prefix}/{pin.at}/{RECORD}")
        except CorruptRecord as error:
            return None, str(error)
        if record.root != pin.digest:
            return None, (
                f"the pinned output {pin.at} holds {record.root[:12]}, the pin says {pin.digest[:12]}: it was made "
                "again since, or the pin is of something else; look at it, then pin the digest that you mean"
            )
        wrong = state_of_files(self.snapshot, record).wrong
        return (None, f"the pinned output {pin.at} is damaged: {wrong}") if wrong else (record, "")

    def _trusted(self, identity: str) -> Record | None:
        try:
            record = self.snapshot.committed.find(identity)
        except CorruptRecord:
            return None  # no output to share; `marin verify` reports it
        if record is None or self.snapshot.untrusted(record) or state_of_files(self.snapshot, record).wrong:
            return None
        return record
