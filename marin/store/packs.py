"""A pure cache of ends for remote stores: a few packs instead of thousands of reads.

Ends never change, so a pack is right as long as the listing still names the end. A pack can be lost, late or garbled
without changing any result, and two drivers that write a pack at once only lose some speed.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress

from marin.errors import CorruptRecord, StoreError
from marin.store.documents import BadDocument, Document
from marin.store.ends import parse_end
from marin.store.layout import ENDS, INDEX, numbered
from marin.store.objects.objects import Objects

FORMAT = 2
WORTH_PACKING = 64  # ends to read one by one: about a second if a round trip takes 20 ms


class Pack(Document, frozen=True, kw_only=True):
    """One pack. ends: content by name."""

    format: int
    ends: dict[str, str]


class Packs:
    """Reads ends, on a remote store through its packs. unpacked: ends that had to be read one by one so far."""

    def __init__(self, objects: Objects, worth: int = WORTH_PACKING) -> None:
        """worth: the number of single reads from which packs are written."""
        self.objects, self.worth = objects, worth
        self.packs: dict[str, dict[str, str]] = {}  # content by name, by pack
        self.unpacked: dict[str, bytes] = {}

    def read(self, names: Collection[str]) -> Iterator[tuple[str, bytes]]:
        """Yield the name and the content of each of these ends. names: as a listing has just given them."""
        if not self.objects.is_remote:
            for name in names:
                if (content := self.objects.read(name)) is not None:
                    yield name, content
            return
        self._load({_pack_name(name) for name in names})
        found = {name: packed.encode() for name in names if (packed := self.packs[_pack_name(name)].get(name))}
        single = self.objects.read_many([name for name in names if name not in found])
        self.unpacked |= single
        yield from (found | single).items()

    def pack(self, made: Collection[str] = ()) -> None:
        """Add the ends that were read one by one to the packs, if they are enough. Ignores a store's refusal.

        made: identities that this run committed; their ends are packed too, if they are enough. An unreadable end stays
        out, so that a person who restores the file is heard.
        """
        if self.objects.is_remote and len(made) >= self.worth:
            wanted = set(made)
            list(self.read([f"{ENDS}/{name}" for name in self.objects.list(ENDS) if numbered(name)[0] in wanted]))
        if len(self.unpacked) < self.worth:
            return
        by_pack: dict[str, dict[str, str]] = {}
        for name, content in self.unpacked.items():
            with suppress(CorruptRecord, UnicodeDecodeError):
                if parse_end(content, name) is not None:
                    by_pack.setdefault(_pack_name(name), {})[name] = content.decode()
        self._load(by_pack.keys())
        for pack, entries in by_pack.items():
            merged = self.packs[pack] = {**self.packs[pack], **entries}
            try:
                self.objects.write(pack, zlib.compress(Pack(format=FORMAT, ends=merged).to_json(), level=1))
            except StoreError:
                return  # only speed is lost
        self.unpacked.clear()

    def _load(self, packs: Iterable[str]) -> None:
        new = [pack for pack in packs if pack not in self.packs]
        contents = self.objects.read_many(new)
        for pack in new:
            self.packs[pack] = _parse(contents.get(pack, b""))


def _pack_name(end: str) -> str:
    """Return one of sixteen names, by the identity's first digit. A pack of 100,000 records has a few megabytes."""
    return f"{INDEX}/ends-{end.rpartition('/')[2][:1]}"


def _parse(content: bytes) -> dict[str, str]:
    """Parse a pack. Content of any other format counts as an empty pack."""
    with suppress(zlib.error, BadDocument):
        pack = Pack.parse(zlib.decompress(content))
        if pack.format == FORMAT:
            return pack.ends
    return {}
