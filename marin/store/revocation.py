"""Revocations: bytes that a person declared bad. Append-only, with reasons and names."""

from __future__ import annotations

from collections.abc import Iterable

from marin.errors import BadField
from marin.store.documents import Document, Versioned
from marin.store.layout import REVOCATIONS
from marin.store.numbers import write_time
from marin.store.process import this_process
from marin.store.record import Record
from marin.store.redaction import redacted
from marin.store.statements import Statements
from marin.store.store import Store


class Replacement(Document, frozen=True, kw_only=True):
    """The output to use instead, with the fields of a pin to that output."""

    name: str
    identity: str
    root: str
    at: str


class Revocation(Versioned, frozen=True, kw_only=True):
    """One entry about some bytes. A later entry overrides earlier ones."""

    root: str  # digest of the bytes, with kind and facts
    content: str = ""  # digest of the files alone; "" where there are none
    identity: str  # of the output that the person named
    name: str  # of the output that the person named
    because: str
    who: str
    when: str
    replacement: Replacement | None = None
    withdrawn: bool = False  # this entry takes the earlier ones back

    def describe(self) -> str:
        """Return "revoked by ann on 2026-…: holds GSM8K test items"."""
        return f"revoked by {self.who} on {self.when}: {self.because}"


class Revocations:
    """The revocations in force: nobody has withdrawn them."""

    def __init__(self, in_force: Iterable[Revocation] = ()) -> None:
        self.all = list(in_force)
        self._by_root = {each.root: each for each in self.all}
        self._by_content = {each.content: each for each in self.all if each.content}

    def __bool__(self) -> bool:
        return bool(self.all)

    def of(self, root: str, content: str = "") -> Revocation | None:
        """Return the revocation of bytes with this root, or of the same files with another kind or other facts."""
        return self._by_root.get(root) or (self._by_content.get(content) if content else None)

    def describe(self, revocation: Revocation) -> str:
        """Return the text of a revocation, with the output to use instead, if there is one.

        If the replacement was revoked later, its own replacement counts.
        """
        instead, seen = revocation.replacement, set[str]()
        while instead is not None and instead.root not in seen and (later := self.of(instead.root)) is not None:
            seen.add(instead.root)
            instead = later.replacement
        if instead is None or instead.root in seen:  # every one was revoked
            return revocation.describe()
        return f"{revocation.describe()}; use {instead.name} {instead.identity[:12]} instead"


def revoke(store: Store, record: Record, because: str, replacement: Record | None = None) -> Revocation:
    """Declare an output's bytes bad, in every place and under every name. Raises BadField."""
    if not because.strip():
        raise BadField("a revocation needs its reason: --because 'holds GSM8K test items'; it is recorded and shown")
    if replacement is not None and _key(replacement) == _key(record):
        raise BadField(f"{replacement.name} {replacement.identity[:12]} has the very bytes that are being revoked")
    entry = entry_of(record, because, replacement)
    _statements(store).add(_key(record), entry)
    return entry


def withdraw(store: Store, record: Record, because: str) -> Revocation:
    """Take a revocation back. Raises BadField if there is none or no reason is given."""
    if not because.strip():
        raise BadField("taking a revocation back needs its reason: --because …; it is recorded and shown")
    if revoked_bytes(store, record.root, record.content) is None:
        raise BadField(f"{record.name} {record.identity[:12]} is not revoked; nothing to withdraw")
    entry = entry_of(record, because, withdrawn=True)
    _statements(store).add(_key(record), entry)
    return entry


def revoked(store: Store) -> Revocations:
    """Return the revocations in force. Takes one listing and one read for each statement. Raises CorruptRecord."""
    return Revocations(entry for entries in _statements(store).every().values() for entry in _in_force(entries))


def revoked_bytes(store: Store, root: str, content: str) -> Revocation | None:
    """Return the revocation in force of these bytes, or None. Takes one listing. Raises CorruptRecord."""
    return next(iter(_in_force(history(store, root, content))), None)


def bring_revocations(source: Store, target: Store) -> bool:
    """Copy the revocations of ``source`` to ``target``. Return whether any was new. Raises CorruptRecord.

    If the two stores disagree about the same bytes, bytes that are revoked in either stay revoked.
    """
    ours = _statements(target)
    there, here = _statements(source).every(), ours.every()
    news = False
    for key, entries in there.items():
        known = here.get(key, [])
        if new := _merged(known, entries)[len(known) :]:
            ours.add(key, *new)
            news = True
    return news


def _merged(ours: list[Revocation], theirs: list[Revocation]) -> list[Revocation]:
    """Return our entries, and after them the new ones of the other store."""
    if ours == theirs[: len(ours)]:
        return theirs
    new = [entry for entry in theirs if entry not in ours]
    if not new:
        return ours
    both = [*ours, *new]
    in_force = {entry.root for entry in _in_force(both)}
    return both + [entry for entry in (*_in_force(ours), *_in_force(theirs)) if entry.root not in in_force]


def history(store: Store, root: str, content: str) -> list[Revocation]:
    """Return every entry about these bytes, oldest first."""
    return _statements(store).about(content or root)


def _in_force(entries: list[Revocation]) -> list[Revocation]:
    """Return the last entry for each root since the last withdrawal."""
    last: dict[str, Revocation] = {}
    for entry in entries:
        if entry.withdrawn:
            last.clear()
        else:
            last[entry.root] = entry
    return list(last.values())


def entry_of(record: Record, because: str, replacement: Record | None = None, *, withdrawn: bool = False) -> Revocation:
    """Make an entry about an output's bytes. Records nothing."""
    instead = None
    if replacement is not None:
        instead = Replacement(
            name=replacement.name, identity=replacement.identity, root=replacement.root, at=replacement.attempt
        )
    return Revocation(
        root=record.root,
        content=record.content,
        identity=record.identity,
        name=record.name,
        because=redacted(because.strip()),
        who=str(this_process().user),
        when=write_time(),
        replacement=instead,
        withdrawn=withdrawn,
    )


def _key(record: Record) -> str:
    """Return the digest of the files, so that the same files under other names share their entries."""
    return record.content or record.root


def _statements(store: Store) -> Statements[Revocation]:
    remedy = (
        "restore it from a copy of the store or a mirror: until then marin cannot tell which bytes are revoked. "
        "If there is no copy, delete the file and revoke again every bad output"
    )
    return Statements(store.objects, store.prefix, REVOCATIONS, Revocation, "revocation", remedy)
