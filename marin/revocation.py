"""Revocations: bytes that somebody declared bad. Append-only, with reasons and names."""

from __future__ import annotations

import time

from marin.document import BadDocument, Document
from marin.errors import BadField, CorruptRecord
from marin.holder import this_process
from marin.record import Record
from marin.store import Store

FOLDER = ".marin/revocations"


class Revocation(Document):
    """root: digest of the bytes. identity, name: the output that was pointed at. replace_with: an identity, or "".

    withdrawn: this entry takes the earlier ones back.
    """

    root: str
    identity: str
    name: str
    because: str
    who: str
    when: str
    replace_with: str = ""
    replacement: str = ""
    withdrawn: bool = False

    def describe(self) -> str:
        """ "revoked by ann on 2026-…: holds GSM8K test items; use tokenize/dolmino 0123… instead"."""
        instead = f"; use {self.replacement} {self.replace_with[:12]} instead" if self.replace_with else ""
        return f"revoked by {self.who} on {self.when}: {self.because}{instead}"


def revoke(store: Store, record: Record, because: str, replacement: Record | None = None) -> Revocation:
    """Declare an output's bytes bad, wherever they are and under whatever name. Raises BadField."""
    if not because.strip():
        raise BadField("a revocation needs its reason: --because 'holds GSM8K test items'; it is recorded and shown")
    if replacement is not None and replacement.root == record.root:
        raise BadField(f"{replacement.name} {replacement.identity[:12]} has the very bytes that are being revoked")
    return _append(store, _entry(record, because, replacement, withdrawn=False))


def withdraw(store: Store, record: Record, because: str) -> Revocation:
    """Take a revocation back. Raises BadField if there is none or no reason is given."""
    if not because.strip():
        raise BadField("taking a revocation back needs its reason: --because …; it is recorded and shown")
    if record.root not in revoked(store):
        raise BadField(f"{record.name} {record.identity[:12]} is not revoked; nothing to withdraw")
    return _append(store, _entry(record, because, None, withdrawn=True))


def revoked(store: Store) -> dict[str, Revocation]:
    """The standing revocations, by root. One listing, and as many reads as there are. Raises CorruptRecord."""
    names = [f"{FOLDER}/{name}" for name in store.objects.names(FOLDER)]
    found: dict[str, Revocation] = {}
    for name, content in store.objects.read_many(names).items():
        entries = _entries(content, f"{store.prefix}/{name}")
        if entries and not entries[-1].withdrawn:
            found[entries[-1].root] = entries[-1]
    return found


def history(store: Store, root: str) -> list[Revocation]:
    """Everything that was ever said about these bytes, oldest first."""
    name = f"{FOLDER}/{root}.jsonl"
    return _entries(store.objects.read(name) or b"", f"{store.prefix}/{name}")


def _entry(record: Record, because: str, replacement: Record | None, *, withdrawn: bool) -> Revocation:
    return Revocation(
        root=record.root,
        identity=record.identity,
        name=record.name,
        because=because.strip(),
        who=str(this_process().user),
        when=time.strftime("%Y-%m-%d %H:%M:%S"),
        replace_with=replacement.identity if replacement is not None else "",
        replacement=replacement.name if replacement is not None else "",
        withdrawn=withdrawn,
    )


def _append(store: Store, entry: Revocation) -> Revocation:
    name = f"{FOLDER}/{entry.root}.jsonl"
    line = entry.to_json() + b"\n"
    while not store.objects.swap(name, old := store.objects.read(name), (old or b"") + line):
        """Somebody else added one meanwhile."""
    return entry


def _entries(content: bytes, where: str) -> list[Revocation]:
    found: list[Revocation] = []
    for number, line in enumerate(content.splitlines(), start=1):
        try:
            found.append(Revocation.parse(line))
        except BadDocument as error:
            raise CorruptRecord(
                f"{where}:{number} is not a readable revocation; restore the line: until then nothing "
                "in this store can be told from what was revoked"
            ) from error
    return found
