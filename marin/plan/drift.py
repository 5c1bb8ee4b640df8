"""Find the differences since an output was built: code, outside data, inputs, packages."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from msgspec import Struct

from marin.fingerprint.fingerprint import FORMAT, Change, CodeFingerprint, compare, stored_code
from marin.fingerprint.of_step import executed
from marin.plan.observed import Present, differences
from marin.plan.outside_data import outside_changes, shortened, whole
from marin.steps.step import ExecutorStep
from marin.store.record import BuiltFrom, Observed
from marin.store.store import Store

PACKAGE = "package "  # the beginning of a note about a package


class CurrentCode(Struct, frozen=True, dict=True):
    """The code and data that would build a step now, apart from its inputs.

    entries: the outside data, see marin.plan.outside_data. present: today's state of files that earlier runs read.
    """

    code: CodeFingerprint
    entries: Mapping[str, str]
    present: Present

    @cached_property
    def outside(self) -> dict[str, str]:
        """The outside data in the form that a record holds."""
        return shortened(self.entries)


def changes(
    store: Store, step: ExecutorStep[Any], then: BuiltFrom, today: CurrentCode, inputs: Mapping[str, str]
) -> list[str]:
    """Return one line for each change since ``then``. inputs: today's root digest of each input, by identity."""
    found = code_changes(store, then.code, today.code)
    if then.outside != today.outside:
        found += outside_changes(whole(store, then.outside), today.entries)
    found += differences(then.observed, today.present.of(then.observed))
    again = {each: root for each, root in then.inputs.items() if each in inputs and inputs[each] != root}
    if not again:
        return found
    training = step.producer.dependencies if step.producer is not None else ()
    names = {read.identity: read.name for read in (*step.dependencies, *training)}
    return found + [
        f"input {names[each]} is now {inputs[each][:12]}, was {root[:12]} (rebuilt since)"
        for each, root in again.items()
    ]


def same(store: Store, then: BuiltFrom, today: CurrentCode, inputs: Mapping[str, str], seen: Observed) -> bool:
    """Return whether nothing that counts has changed since ``then``.

    inputs: today's root digests, which must include all those in ``then``. seen: the files that the output's run read.
    """
    alike = then.outside == today.outside and not code_changes(store, then.code, today.code)
    alike = alike and then.observed == today.present.of(seen)
    return alike and all(inputs.get(identity) == root for identity, root in then.inputs.items())


def code_differences(then: CodeFingerprint, now: CodeFingerprint) -> tuple[Change, ...]:
    """Return the changes, without definitions that only older rules counted and that are otherwise unchanged."""
    found = compare(then, now)
    gone = [change for change in found if change.kind == "removed"] if then.format < FORMAT else []
    before = now.counted_before() if gone else frozenset[str]()

    def still(change: Change) -> bool:
        return change.name in before and change.old in (executed().named(change.name) or {})

    return tuple(change for change in found if not (change in gone and still(change)))


def code_changes(store: Store, then: str, now: CodeFingerprint) -> list[str]:
    """Return one line for each changed function, class or constant. then: the digest of the code at that time."""
    if then == now.digest:
        return []
    if then not in now.changes_since:  # several steps may share their code
        stored = stored_code(store, then)
        if stored is None:
            return [f"the code changed ({then[:12]} → {now.digest[:12]}); the store does not hold the old code"]
        now.changes_since[then] = code_differences(stored, now)
    lines: list[str] = []
    for change in now.changes_since[then]:
        if change.kind == "changed":
            lines.append(f"{change.name} changed ({(change.old or '')[:8]} → {(change.new or '')[:8]})")
        elif change.kind == "removed" and "/" in change.name:
            why = "an earlier marin counted files beside the code; today it counts the files that run() opens"
            lines.append(f"{change.name} no longer counts: {why}")
        elif change.kind in ("added", "removed"):
            lines.append(f"{change.name} is {'now used' if change.kind == 'added' else 'no longer used'}")
    return lines


def package_changes(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    """Return one line for each package whose version changed. These lines warn and never stop a run."""
    return [
        f"{PACKAGE}{name}: {version} → {new[name]}"
        for name, version in sorted(old.items())
        if name in new and new[name] != version
    ]
