"""Early cutoff: reuse the output that the same action has under another identity, and run nothing.

Example: the version of a download is raised, and the download gives the same bytes. Every step after it has a new
identity, but the same operator, version, fields and input contents as before. Its action key
(``marin.steps.step.action_key``) is therefore the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from marin.errors import CorruptRecord
from marin.plan.drift import CurrentCode
from marin.plan.facts import compare, state_of_files
from marin.plan.snapshot import Snapshot
from marin.steps.step import ExecutorStep
from marin.store.record import Acceptance, Record


def input_roots(
    step: ExecutorStep[Any], record_of: Callable[[ExecutorStep[Any]], Record | None]
) -> dict[str, str] | None:
    """Return the root digest of each input of a step, by identity; None if one is not known yet.

    A milestone has the inputs of its training run, and the run's record knows their digests too.
    """
    roots: dict[str, str] = {}
    if step.producer is not None and (made := record_of(step.producer)) is not None:
        roots = {read.identity: read.root for read in made.inputs}
    for dependency in (step.producer or step).dependencies:
        record = record_of(dependency)
        if record is not None:
            roots[dependency.identity] = record.root
        elif dependency.identity not in roots:
            return None
    return roots


class Alias(NamedTuple):
    """An output of the same action."""

    target: Record
    acceptance: Acceptance | None  # the accepted drift, if the output's code differs from today's


class Aliases:
    """A finder of outputs for identities that have none. today: the code and data that would build each step now."""

    def __init__(self, snapshot: Snapshot, today: Mapping[ExecutorStep[Any], CurrentCode]) -> None:
        self.snapshot, self.today = snapshot, today

    def find(self, step: ExecutorStep[Any], action: str) -> Alias | None:
        """Return a trusted output of the same action that has not drifted; None if there is none.

        action: see ``marin.steps.step.action_key``; "" if it is not known.
        """
        for identity in self.snapshot.actions.get(action, ()) if action else ():
            record = self._trusted(identity) if identity != step.identity else None
            if record is None or record.action != action:
                continue
            made_by, today = record.made_by, self.today[step]
            compared = compare(self.snapshot.store, step, made_by, today, made_by.inputs, record.identity)
            if not compared.drift:
                return Alias(record, compared.acceptance)
        return None

    def add(self, record: Record) -> None:
        """Add an output that was committed since the snapshot."""
        self.snapshot.records[record.identity] = record
        if record.action and not record.alias_of:
            identities = self.snapshot.actions.setdefault(record.action, [])
            if record.identity not in identities:
                identities.append(record.identity)

    def _trusted(self, identity: str) -> Record | None:
        try:
            record = self.snapshot.find(identity)
        except CorruptRecord:
            return None  # no output to share; `marin audit --bytes` reports it
        if record is None or self.snapshot.trust.untrusted(record) or state_of_files(self.snapshot, record).wrong:
            return None
        return record
