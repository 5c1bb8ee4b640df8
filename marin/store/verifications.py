"""Verifications: who compared which outputs with their manifests, and when. One object for each verification."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from contextlib import suppress

from marin.store.documents import BadDocument, Document
from marin.store.files.verify import Check
from marin.store.layout import VERIFIED
from marin.store.numbers import write_time
from marin.store.process import this_process
from marin.store.store import Store


class Verified(Document, frozen=True, kw_only=True):
    """One verification. outputs: directories that were right."""

    when: str
    who: str
    check: Check
    outputs: list[str]


def note_verified(store: Store, check: Check, attempts: Iterable[str]) -> None:
    """Record a verification, and remove earlier ones that it covers. Raises StoreError if the store is read-only."""
    outputs = set(attempts)
    if not outputs:
        return
    when, who = write_time(), this_process().user
    covered = [name for name, each in _entries(store).items() if each.when <= when and outputs.issuperset(each.outputs)]
    name = f"{VERIFIED}/{when.replace(' ', 'T').replace(':', '')}-{uuid.uuid4().hex[:8]}.json"
    store.objects.write(name, Verified(when=when, who=who, check=check, outputs=sorted(outputs)).to_json())
    store.objects.remove(covered)


def last_verified(store: Store) -> dict[str, str]:
    """Return when each output was last found right, by its directory. Takes one listing and concurrent reads."""
    found: dict[str, str] = {}
    for entry in _entries(store).values():
        found |= {attempt: max(entry.when, found.get(attempt, "")) for attempt in entry.outputs}
    return found


def _entries(store: Store) -> dict[str, Verified]:
    found: dict[str, Verified] = {}
    names = [f"{VERIFIED}/{name}" for name in store.objects.list(VERIFIED)]
    for name, content in store.objects.read_many(names).items():
        with suppress(BadDocument):  # the next verification replaces an unreadable entry
            found[name] = Verified.parse(content)
    return found
