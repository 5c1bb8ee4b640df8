"""Control files on an object store: a change that must have one winner is conditional on the version that was read."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Sequence
from typing import NoReturn

from marin.errors import BadPrefix, MarinError, StoreError
from marin.store.layout import CONDITIONS
from marin.store.objects.answers import answered, no_bucket
from marin.store.objects.appending import PART_BYTES, PartedLog, part_name, parts_from, sender
from marin.store.objects.clients import IN_FLIGHT, REMOTE, ask, calls, on_loop, path_of
from marin.store.objects.conditional import ABSENT, NEVER, Content, Listed, PreconditionFailed

REMEMBERED = 256  # versions of the objects that this process read or wrote last
ATTEMPTS = 5  # at a conditional write that was refused although the object holds the expected content
_honest: set[str] = set()  # prefixes whose store was seen, by this process, to honour conditions


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
        self._versions: OrderedDict[str, Content] = OrderedDict()

    def read(self, name: str) -> bytes | None:
        there = self._get(name)
        return None if there is None else there.content

    def read_many(self, names: Sequence[str]) -> dict[str, bytes]:
        import asyncio

        store = calls(self.scheme)

        async def read_all() -> dict[str, bytes]:
            places = asyncio.Semaphore(IN_FLIGHT)

            async def read(name: str) -> tuple[str, Content | None]:
                async with places:
                    with answered(self._url(name), "read"):
                        return name, await store.get(path_of(self._url(name)))

            reads = [asyncio.ensure_future(read(name)) for name in dict.fromkeys(names)]
            try:
                found = await asyncio.gather(*reads)
            finally:
                for waiting in reads:
                    waiting.cancel()
            return {name: there.content for name, there in found if there is not None}

        try:
            return on_loop(read_all())
        except FileNotFoundError as error:
            raise no_bucket(self.prefix) from error

    def write(self, name: str, content: bytes) -> None:
        self._put(name, content, None)

    def compare_and_swap(self, name: str, old: bytes | None, new: bytes, *, lasting: bool = False) -> bool:
        self._must_honour_conditions()
        for _ in range(ATTEMPTS):
            there = self._versions.get(name)
            if there is None or there.content != old:
                there = self._get(name)
            if there is not None and there.content == new:
                return True  # an earlier call of ours wrote it and the answer was lost: writers never write alike
            if (there.content if there else None) != old:
                return False
            try:
                self._put(name, new, there.version if there else ABSENT)
                return True
            except PreconditionFailed:
                self._versions.pop(name, None)  # another writer was faster, or our own write's answer was lost
            except BadPrefix:
                raise
            except StoreError:
                self._versions.pop(name, None)
                with contextlib.suppress(MarinError):
                    after = self._get(name)
                    if after is not None and after.content == new:
                        return True
                raise
        raise StoreError(
            f"{self.prefix}/{name}: the store refused a conditional write {ATTEMPTS} times although the object holds "
            "the expected content; run again"
        )

    def remove(self, names: Sequence[str]) -> None:
        if names:
            ask(self.prefix, "delete", "remove", list(dict.fromkeys(names)))
        for name in names:
            self._versions.pop(name, None)

    def make_durable(self, names: Sequence[str]) -> None:
        """Do nothing: an object store answers only when its content is safe."""

    def append(self, name: str, content: bytes) -> None:
        def begin() -> PartedLog:
            return PartedLog(name, self.write, lambda: self.list(name), lambda part: self.read(part) or b"")

        if self.is_remote:
            sender().log(self._url(name), begin).append(content)
        else:
            self.write(part_name(name, 0), (self.read(part_name(name, 0)) or b"") + content)

    def flush(self, name: str) -> None:
        sender().send(self._url(name))

    def read_log(self, name: str, start: int = 0) -> bytes:
        parts = parts_from(self.list(name), start)
        if not parts:
            return b""
        found = self.read_many([f"{name}/{part}" for part in parts])
        return b"".join(found.get(f"{name}/{part}", b"") for part in parts)[start - int(parts[0]) :]

    def read_logs(self, names: Sequence[str]) -> dict[str, bytes]:
        found = self.read_many([part_name(name, 0) for name in names])
        logs = {name: found[part_name(name, 0)] for name in names if part_name(name, 0) in found}
        return {name: log if len(log) < PART_BYTES else self.read_log(name) for name, log in logs.items()}

    def list(self, folder: str) -> list[str]:
        return sorted(self.list_versions(folder))

    def list_versions(self, folder: str) -> dict[str, str]:
        found: list[Listed] = ask(self._url(folder), "list", "list")
        return {entry.name: entry.version for entry in found if entry.name and not entry.name.startswith(".")}

    def _url(self, name: str) -> str:
        return f"{self.prefix}/{name}".rstrip("/")

    def _get(self, name: str) -> Content | None:
        there: Content | None = ask(self._url(name), "read", "get")
        self._remember(name, there)
        return there

    def _put(self, name: str, content: bytes, only_if: str | None) -> None:
        version: str = ask(self._url(name), "write", "put", content, only_if)
        self._remember(name, Content(content, version))

    def _must_honour_conditions(self) -> None:
        """Raise BadPrefix if the store replaces an object although the write's condition does not hold.

        Each process asks once, with two calls that the store must refuse. The object for this test stays in the store.
        """
        if self.prefix in _honest:
            return
        absent, match = calls(self.scheme).conditions
        if not self._is_refused(ABSENT) and not self._is_refused(ABSENT):  # the first call creates it
            self._ignores(absent, "asked to only create it")
        if not self._is_refused(NEVER):
            self._ignores(match, "asked to replace a version that it never had")
        _honest.add(self.prefix)

    def _is_refused(self, only_if: str) -> bool:
        try:
            self._put(CONDITIONS, b"every conditional write must be refused here\n", only_if)
        except PreconditionFailed:
            return True
        return False

    def _ignores(self, condition: str, asked: str) -> NoReturn:
        raise BadPrefix(
            f"{self.prefix}: this store ignores {condition} (it replaced {CONDITIONS}, {asked}), so two drivers "
            "could hold one lease and both commit. Use a store that honours conditional writes"
        )

    def _remember(self, name: str, there: Content | None) -> None:
        self._versions.pop(name, None)
        if there is not None:
            self._versions[name] = there
        while len(self._versions) > REMEMBERED:
            with contextlib.suppress(KeyError):
                self._versions.popitem(last=False)
