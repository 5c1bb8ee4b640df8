"""Statements of people about outputs, a line each, in objects that are created once and never changed.

::

    {folder}/<key>.<time>-<8 digits>.jsonl   the statements about one key, in the order of their times
    {folder}/<key>.jsonl                     the first ones, in stores that marin made before December 2026

The time is in nanoseconds since 1970, and later than the times of all statements about the key that were there.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Collection

from msgspec import Struct

from marin.errors import CorruptRecord
from marin.store.documents import Versioned
from marin.store.objects.objects import Objects


class Statements[T: Versioned](Struct, frozen=True):
    """The statements in one folder. kind: their class. called: their name for people. remedy: for unreadable ones."""

    objects: Objects
    prefix: str  # of the store
    folder: str
    kind: type[T]
    called: str
    remedy: str

    def by_key(self) -> dict[str, list[str]]:
        """Return the names of all objects by what they are about, for ``read``, with one listing."""
        found: dict[str, list[str]] = {}
        for name in self.objects.list(self.folder):
            found.setdefault(_key(name), []).append(name)
        return found

    def every(self) -> dict[str, list[T]]:
        """Return all statements by key, oldest first, with one listing. Raises CorruptRecord."""
        return self.read(self.objects.list(self.folder))

    def about(self, key: str) -> list[T]:
        """Return the statements about one key, oldest first, with one listing. Raises CorruptRecord."""
        return self.read(self.by_key().get(key, ())).get(key, [])

    def read(self, names: Collection[str]) -> dict[str, list[T]]:
        """Return the statements in these objects by key, oldest first, with concurrent reads. Raises CorruptRecord."""
        paths = {f"{self.folder}/{name}": name for name in sorted(names, key=_moment)}
        contents = self.objects.read_many(list(paths))
        found: dict[str, list[T]] = {}
        for path, name in paths.items():
            if path in contents:
                found.setdefault(_key(name), []).extend(self._parsed(name, contents[path]))
        return found

    def add(self, key: str, *statements: T) -> None:
        """Add statements durably, all or none. Raises CorruptRecord if an earlier one is unreadable."""
        before = self.by_key().get(key, [])
        self.read(before)
        moment = max([time.time_ns(), *(_moment(name) + 1 for name in before)])
        name = f"{self.folder}/{key}.{moment:020d}-{uuid.uuid4().hex[:8]}.jsonl"
        content = b"\n".join(statement.to_json() for statement in statements)
        self.objects.create(name, content, lasting=True)

    def _parsed(self, name: str, content: bytes) -> list[T]:
        where = f"{self.prefix}/{self.folder}/{name}"
        if not content.strip():
            raise CorruptRecord(f"{where} is empty, so that at least one {self.called} is lost; {self.remedy}")
        lines = enumerate(content.splitlines(), start=1)
        return [self.kind.parse_file(line, f"{where}:{number}", self.called, self.remedy) for number, line in lines]


def _key(name: str) -> str:
    return name.partition(".")[0]


def _moment(name: str) -> int:
    moment = name.partition(".")[2].partition("-")[0]
    return int(moment) if moment.isdecimal() else 0
