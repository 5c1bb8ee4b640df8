"""Read the text of the running Python installation: standard-library modules and the language reference."""

from __future__ import annotations

import functools
import importlib.util
import os
import platform
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import xxhash

from marin import value
from marin.errors import BadField, MissingDependency

# Tests, programs, generated tables, and files that differ between two builds of one Python version.
LEFT_OUT = frozenset(
    """
    test tests idle_test site-packages dist-packages __pycache__ lib2to3 turtledemo idlelib ensurepip encodings
    pydoc_data __phello__ lib-dynload
    """.split()  # noqa: SIM905
)
LEFT_OUT_PREFIXES = ("config-", "_sysconfigdata", "_sysconfig_vars")
DOCUMENT_CHARACTERS = 6000


@value("share")
class Share:
    """The modules (or sections) whose name hashes into [start, stop) of ``of``.

    On every Python version, shares that do not overlap have nothing in common.
    """

    start: int
    stop: int
    of: int = 1000

    def __post_init__(self) -> None:
        if not 0 <= self.start < self.stop <= self.of:
            raise BadField(f"Share({self.start}, {self.stop}, {self.of}): wanted 0 <= start < stop <= of")

    def holds(self, name: str) -> bool:
        return self.start <= xxhash.xxh3_64_intdigest(name.encode()) % self.of < self.stop


@dataclass(frozen=True)
class Module:
    """A module of the standard library.

    name: dotted, e.g. "json.decoder". relative: its file below the standard library, with slashes. size: bytes.
    """

    name: str
    relative: str
    size: int

    def source(self) -> str:
        """Return the module's text, with newlines normalised."""
        return (library_root() / self.relative).read_text(encoding="utf-8", errors="strict")


def library_root() -> Path:
    return Path(sysconfig.get_path("stdlib"))


def standard_library() -> list[Module]:
    """Return every module with Python source, by name. Walks the tree without reading a file (about 10 ms).

    Raises MissingDependency for a Python whose library is not files (zipped or frozen).
    """
    root = library_root()
    found = sorted(_modules(root, ""), key=lambda module: module.name)
    if not found:
        raise MissingDependency(
            f"{root} holds no Python source; rehearsals read the standard library as text, so use a Python "
            "whose library is installed as files"
        )
    return found


def _modules(folder: Path, prefix: str) -> Iterator[Module]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name in LEFT_OUT or entry.name.startswith(LEFT_OUT_PREFIXES):
                continue
            if entry.is_dir():
                yield from _modules(Path(entry.path), f"{prefix}{entry.name}/")
            elif entry.name.endswith(".py"):
                relative = f"{prefix}{entry.name}"
                name = relative.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
                yield Module(name, relative, entry.stat().st_size)


@functools.cache
def library_digest() -> str:
    """Return Python's version and a digest of every module's name and size, on which the documents depend.

    The library is read once in each process: 14 datasets ask for it, and a process keeps the library it began with.
    """
    modules = standard_library()
    listing = "\n".join(f"{module.relative} {module.size}" for module in modules)
    return f"{_version()}, {len(modules)} modules, {xxhash.xxh3_64_hexdigest(listing.encode())}"


def reference_digest() -> str:
    """Return Python's version and the size of the language reference, on which its documents depend."""
    spec = importlib.util.find_spec("pydoc_data.topics")
    if spec is None or spec.origin is None:
        raise MissingDependency(
            "this Python has no pydoc_data.topics, the language reference; install its full library"
        )
    return f"{_version()}, {Path(spec.origin).stat().st_size} bytes"


def reference_sections() -> Iterator[tuple[str, str]]:
    """Yield the (name, text) of pieces of the language reference, of about 6000 characters, e.g. ("with#0", …).

    The reference repeats whole chapters under several topics. A paragraph stays only at its first place, so that no
    text is in two sections.
    """
    from pydoc_data.topics import topics

    seen: set[str] = set()
    for topic in sorted(topics, key=lambda topic: (len(topics[topic]), topic)):
        paragraphs = [text for text in topics[topic].split("\n\n") if text.strip()]
        fresh = [text for text in paragraphs if not (text in seen or seen.add(text))]
        for number, piece in enumerate(_pieces(fresh)):
            yield f"{topic}#{number}", piece


def _pieces(paragraphs: list[str]) -> Iterator[str]:
    held: list[str] = []
    size = 0
    for paragraph in paragraphs:
        held.append(paragraph)
        size += len(paragraph)
        if size >= DOCUMENT_CHARACTERS:
            yield "\n\n".join(held)
            held, size = [], 0
    if held:
        yield "\n\n".join(held)


def _version() -> str:
    return f"{sys.implementation.name} {platform.python_version()}"
