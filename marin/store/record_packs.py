"""A pure cache of record objects for remote stores: a few packs instead of thousands of reads.

A pack holds the content of many records, each with its version (generation, etag) in the listing at that time. An
entry counts only while today's listing gives the same version. A pack can therefore be lost, late or garbled without
changing any result, and two drivers that write a pack at once only lose some speed.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

from marin.errors import StoreError
from marin.store.documents import BadDocument, parse_json
from marin.store.layout import INDEX, RECORDS
from marin.store.objects.objects import Objects

FORMAT = 1
WORTH_PACKING = 64  # records to read one by one: about a second if a round trip takes 20 ms

type Pack = dict[str, tuple[str, str]]  # version and content, by name


class RecordIndex:
    """Reads records through the packs of a store. unpacked: records that had to be read one by one so far."""

    def __init__(self, objects: Objects, worth: int = WORTH_PACKING) -> None:
        """worth: the number of single reads from which packs are written."""
        self.objects, self.worth = objects, worth
        self.packs: dict[str, Pack] = {}
        self.unpacked: dict[str, tuple[str, str]] = {}

    def read(self, wanted: Iterable[str] | None) -> dict[str, bytes]:
        """Return the content of existing records by name, of all or of the wanted. Takes one listing and few reads."""
        versions = self.objects.list_versions(RECORDS)
        names = versions.keys() if wanted is None else versions.keys() & set(wanted)
        self._load({_pack_name(name) for name in names})
        found: dict[str, bytes] = {}
        for name in names:
            packed = self.packs[_pack_name(name)].get(name)
            if packed is not None and packed[0] == versions[name]:
                found[name] = packed[1].encode()
        single = {f"{RECORDS}/{name}": name for name in names if name not in found}
        for path, content in self.objects.read_many(list(single)).items():
            name = single[path]
            found[name] = content
            try:
                self.unpacked[name] = (versions[name], content.decode())
            except UnicodeDecodeError:
                continue  # not a record; parsing it raises the error
        return found

    def pack(self) -> None:
        """Add the records that were read one by one to the packs, if they are enough. Ignores a store's refusal."""
        if len(self.unpacked) < self.worth:
            return
        by_pack: dict[str, Pack] = {}
        for name, entry in self.unpacked.items():
            by_pack.setdefault(_pack_name(name), {})[name] = entry
        self._load(by_pack.keys())
        for pack, entries in by_pack.items():
            merged = self.packs[pack] = {**self.packs[pack], **entries}
            content = zlib.compress(json.dumps({"format": FORMAT, "records": merged}).encode(), level=1)
            try:
                self.objects.write(pack, content)
            except StoreError:
                return  # only speed is lost
        self.unpacked.clear()

    def _load(self, packs: Iterable[str]) -> None:
        new = [pack for pack in packs if pack not in self.packs]
        contents = self.objects.read_many(new)
        for pack in new:
            self.packs[pack] = _parse(contents.get(pack))


def _pack_name(record: str) -> str:
    """Return one of sixteen names, by the identity's first digit. A pack of 100,000 records has a few megabytes."""
    return f"{INDEX}/records-{record[:1]}"


def _parse(content: bytes | None) -> Pack:
    """Parse a pack. Content of any other format counts as an empty pack."""
    if content is None:
        return {}
    try:
        pack: Mapping[str, Any] = parse_json(zlib.decompress(content))
        if pack["format"] != FORMAT:
            return {}
        return {str(name): (str(version), str(text)) for name, (version, text) in pack["records"].items()}
    except (zlib.error, BadDocument, ValueError, TypeError, KeyError, AttributeError):
        return {}
