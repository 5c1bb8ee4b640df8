"""An output that is made shard by shard, in the step's work in progress: what is done stays done when an attempt dies.

Each item has a folder of its own there. It is done when its mark is written, which says the sizes of its files, so that
files that a crash of the machine cut short are made again; and only after what was read for it has been noted.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import msgspec

from marin.store.files import written
from marin.store.files.directory import Directory
from marin.store.files.staging import staging, standing_in
from marin.store.files.transfer import side_by_side
from marin.store.files.written import Written

MARKS = "done"


class Mark(msgspec.Struct, frozen=True):
    """result: what the work returned. files: sizes in bytes."""

    result: Any
    files: dict[str, int]


@dataclass(frozen=True)
class Made:
    """Of one item, in whichever process it was made."""

    result: Any
    files: dict[str, int]
    hashes: dict[str, Written]


@dataclass(frozen=True)
class MakeShard:
    """``work`` as a function of an item and of the folder for its files."""

    work: Callable[[Any, Directory], Any]

    def __call__(self, given: tuple[Any, Directory]) -> Made:
        item, folder = given
        folder.remove()  # what an attempt that died has left
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
    """The shards of one output: those that an earlier attempt has made, and those that are still to be made."""

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
                mark = msgspec.json.decode((parts / MARKS).read_bytes(name), type=Mark)
            except msgspec.DecodeError:  # its writing was cut short
                return
            if int(name) < count and there.get(name, {}) == mark.files:
                self._made[int(name)] = Made(msgspec.convert(mark.result, kind, str_keys=True), mark.files, {})

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
        """Those that were added are done, also for the next attempt."""

        def write(at: int) -> None:
            mark = Mark(self._made[at].result, self._made[at].files)
            (self._parts / MARKS).write_bytes(str(at), msgspec.json.encode(mark))

        side_by_side(write, self._unmarked)
        self._unmarked.clear()

    def move_to(self, out: Directory) -> list[Any]:
        """All files become the output's, on a disk by moving; the results, in the order of the items."""

        def move(at: int) -> None:
            made, folder = self._made[at], self.folder(at)
            folder.share(made.files, out)
            if folder.is_local:
                folder.remove()  # a link that went later would make the output look touched
            # The store has copied them; what is known of the bytes is true of the copies.
            for url, sent in made.hashes.items():
                known = Written(size=sent.size, sha256=sent.sha256, md5=sent.md5)
                written.note(out.url + url.removeprefix(folder.url), known)

        side_by_side(move, self._made)
        return [self._made[at].result for at in range(len(self._made))]
