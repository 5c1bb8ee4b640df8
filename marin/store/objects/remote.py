"""Control files on an object store, by the public calls of its fsspec client."""

# pyright: basic

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence

from marin.errors import BadPrefix, MarinError, StoreError
from marin.store.layout import CONDITIONS
from marin.store.objects import listing, logs
from marin.store.objects.clients import REMOTE, asking, path_of, read_at_once, send
from marin.store.objects.logs import PART_BYTES, part_name, parts_from
from marin.store.objects.stored import Stored

ATTEMPTS = 5  # to create an object that the store refuses to create although there is none
CONDITION = {"gs": "ifGenerationMatch=0", "s3": "If-None-Match"}  # the servers' words for "only if there is none"
_honest: set[str] = set()  # prefixes whose store was seen, by this process, to honour that condition
_memory = threading.Lock()  # the memory of this process has no condition of its own


class RemoteObjects:
    """The control files of a store on ``gs://``, ``s3://`` or, inside this process, ``memory://``.

    Safe to use from many threads and after a fork.
    """

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix.rstrip("/")
        self.scheme, _, path = self.prefix.partition("://")
        self.is_remote = self.scheme in REMOTE
        if not path.split("/")[0]:
            raise BadPrefix(f"{prefix}: names no bucket; wanted {self.scheme}://bucket/folder")

    def read(self, name: str) -> bytes | None:
        with contextlib.suppress(FileNotFoundError), asking(self._url(name), "read", may_be_absent=True) as asked:
            files, path = asked
            return files.cat_file(path)
        return None

    def read_many(self, names: Sequence[str]) -> dict[str, bytes]:
        wanted = list(dict.fromkeys(names))
        contents = read_at_once(self.prefix, [(path_of(self._url(name)), None, None) for name in wanted])
        return {name: content for name, content in zip(wanted, contents, strict=True) if content is not None}

    def write(self, name: str, content: bytes) -> None:
        send(self._url(name), content)

    def create(self, name: str, content: bytes, *, lasting: bool = False) -> bool:
        self._must_honour_the_condition()
        for _ in range(ATTEMPTS):
            if self._created(name, content):
                return True
            there = self.read(name)
            if there is not None:
                return there == content
        raise StoreError(
            f"{self.prefix}/{name}: the store refused {ATTEMPTS} times to create this object although there is none; "
            "run again"
        )

    def remove(self, names: Sequence[str]) -> None:
        if names:
            listing.remove(self.prefix, list(dict.fromkeys(names)))

    def make_durable(self, names: Sequence[str]) -> None:
        """Do nothing: an object store answers only when its content is safe."""

    def append(self, name: str, content: bytes) -> None:
        if self.is_remote:
            logs.append(self, name, content)
        else:
            self.write(part_name(name, 0), (self.read(part_name(name, 0)) or b"") + content)

    def flush(self, name: str) -> None:
        logs.flush(self, name)

    def read_log(self, name: str, start: int = 0) -> bytes:
        parts = parts_from(self.list(name), start)
        if not parts:
            return b""
        found = self.read_many([f"{name}/{part}" for part in parts])
        return b"".join(found.get(f"{name}/{part}", b"") for part in parts)[start - int(parts[0]) :]

    def read_logs(self, names: Sequence[str]) -> dict[str, bytes]:
        found = self.read_many([part_name(name, 0) for name in names])
        first = {name: found[part_name(name, 0)] for name in names if part_name(name, 0) in found}
        return {name: part if len(part) < PART_BYTES else self.read_log(name) for name, part in first.items()}

    def list(self, folder: str) -> list[str]:
        return sorted(name for name in listing.below(self._url(folder), deep=False) if not name.startswith("."))

    def stats(self, folder: str) -> dict[str, Stored]:
        found = listing.below(self._url(folder), deep=False).items()
        return {name: stored for name, stored in found if stored is not None and not name.startswith(".")}

    def _url(self, name: str) -> str:
        return f"{self.prefix}/{name}".rstrip("/")

    def _created(self, name: str, content: bytes) -> bool:
        """Create an object in one call. Return False if the store refused because there may be one already."""
        try:
            with contextlib.nullcontext() if self.is_remote else _memory:
                return send(self._url(name), content, only_if_absent=True)
        except BadPrefix:
            raise
        except StoreError:
            with contextlib.suppress(MarinError):
                if self.read(name) == content:
                    return True  # only the answer was lost
            raise

    def _must_honour_the_condition(self) -> None:
        """Raise BadPrefix if the store replaces an object that it was asked only to create.

        Each process asks once. The object for this test stays in the store.
        """
        if self.prefix in _honest or not self.is_remote:
            return
        for content in (b"created once\n", b"created again\n"):
            if not send(self._url(CONDITIONS), content, only_if_absent=True):
                _honest.add(self.prefix)
                return
        raise BadPrefix(
            f"{self.prefix}: this store ignores {CONDITION[self.scheme]} (it replaced {CONDITIONS}, which it was asked "
            "only to create), so two drivers could both commit a step. Use a store that honours conditional writes"
        )
