"""Make one output in many processes. Each process delivers its files, and reports them to the process that commits.

``ctx.write_shards`` makes shards in the step's work in progress. Finished shards survive the death of an attempt. Each
item has a folder there. An item is done when its mark is written. The mark lists the sizes of the files, so that files
that a crash of the machine cut short are rebuilt. It is written only after the item's reads have been noted.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import msgspec
from msgspec import Struct

from marin.store.files import written
from marin.store.files.directory import Directory
from marin.store.files.staging import staging, standing_in
from marin.store.files.transfer import side_by_side
from marin.store.files.written import Written

MARKS = "done"


class Shipped(Struct, frozen=True, kw_only=True):
    """The work of ``ctx.map``, callable in any process. out: the attempt's directory, by URL."""

    work: Callable[[Any], Any]
    out: str

    def __call__(self, item: Any) -> tuple[Any, dict[str, Written]]:
        if standing_in(self.out) is not None:  # the attempt's own process, which delivers the files
            return self.work(item), {}
        try:
            with staging(self.out) as here:
                result = self.work(item)
                here.deliver()
            return result, written.below(self.out)
        finally:
            written.forget(self.out)


class Made(msgspec.Struct, frozen=True, omit_defaults=True):
    """A finished item, in whichever process it was made. Its mark is the JSON of an item without hashes.

    result: the return value of the work. files: sizes in bytes. hashes: of the files, by URL, as far as known.
    """

    result: Any
    files: dict[str, int]
    hashes: dict[str, Written] = {}


class MakeShard(Struct, frozen=True):
    """``work`` as a function of an item and of the folder for its files."""

    work: Callable[[Any, Directory], Any]

    def __call__(self, given: tuple[Any, Directory]) -> Made:
        item, folder = given
        folder.remove()  # the remains of an attempt that died
        is_staged = folder.is_local or standing_in(folder.url) is not None
        with nullcontext() if is_staged else staging(folder.url) as here:
            result = self.work(item, folder)
            if here is not None:
                here.deliver()
        files = {name: found.size for name, found in folder.listing().items()}
        hashes = written.below(folder.url)
        written.forget(folder.url)
        return Made(result, files, hashes)


class Shards:
    """The shards of one output: finished ones from earlier attempts, and missing ones."""

    def __init__(self, parts: Directory, count: int, kind: type[Any]) -> None:
        self._parts = parts
        self._made: dict[int, Made] = {}
        self._unmarked: list[int] = []
        there: dict[str, dict[str, int]] = {}
        for name, found in parts.listing().items():
            folder, _, file = name.partition("/")
            there.setdefault(folder, {})[file] = found.size

        def read(name: str) -> None:
            try:
                mark = msgspec.json.decode((parts / MARKS).read_bytes(name), type=Made)
            except msgspec.DecodeError:  # the mark was cut short
                return
            if int(name) < count and there.get(name, {}) == mark.files:
                self._made[int(name)] = Made(msgspec.convert(mark.result, kind, str_keys=True), mark.files)

        side_by_side(read, there.get(MARKS, ()))
        self.missing = [at for at in range(count) if at not in self._made]

    def folder(self, at: int) -> Directory:
        return self._parts / str(at)

    @property
    def done(self) -> int:
        return len(self._made)

    def add(self, at: int, made: Made) -> None:
        self._made[at] = made
        self._unmarked.append(at)

    def mark(self) -> None:
        """Mark the added items as done, for later attempts too."""

        def write(at: int) -> None:
            mark = msgspec.structs.replace(self._made[at], hashes={})
            (self._parts / MARKS).write_bytes(str(at), msgspec.json.encode(mark))

        side_by_side(write, self._unmarked)
        self._unmarked.clear()

    def move_to(self, out: Directory) -> list[Any]:
        """Move all files to the output (on an object store: copy). Return the results in the order of the items."""

        def move(at: int) -> None:
            made, folder = self._made[at], self.folder(at)
            folder.share(made.files, out)
            if folder.is_local:
                folder.remove()  # a link that is removed later would make the output look touched
            # The store has copied the files, so their digests hold for the copies.
            for url, sent in made.hashes.items():
                known = Written(size=sent.size, sha256=sent.sha256, md5=sent.md5)
                written.note({out.url + url.removeprefix(folder.url): known})

        side_by_side(move, self._made)
        return [self._made[at].result for at in range(len(self._made))]
