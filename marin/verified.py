"""When outputs were last compared with their manifests, and by whom: one object for each time."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable

from marin.document import BadDocument, Document
from marin.holder import this_process
from marin.record import Check
from marin.store import Store

FOLDER = ".marin/verified"


class Verified(Document):
    """outputs: directories that were right."""

    when: str
    who: str
    check: Check
    outputs: list[str]


def note_verified(store: Store, check: Check, attempts: Iterable[str]) -> None:
    """Raises StoreError where nothing may be written."""
    outputs = sorted(set(attempts))
    if not outputs:
        return
    when = time.strftime("%Y-%m-%d %H:%M:%S")
    entry = Verified(when=when, who=this_process().user, check=check, outputs=outputs)
    name = f"{FOLDER}/{when.replace(' ', 'T').replace(':', '')}-{uuid.uuid4().hex[:8]}.json"
    store.objects.write(name, entry.to_json())


def last_verified(store: Store) -> dict[str, str]:
    """When each output was last found right, by its directory; one listing, and reads side by side."""
    found: dict[str, str] = {}
    names = [f"{FOLDER}/{name}" for name in store.objects.names(FOLDER)]
    for content in store.objects.read_many(names).values():
        try:
            entry = Verified.parse(content)
        except BadDocument:
            continue  # what it said is said again by the next verification
        if entry.check is not Check.SIZES:
            found |= {attempt: max(entry.when, found.get(attempt, "")) for attempt in entry.outputs}
    return found
