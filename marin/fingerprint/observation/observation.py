"""The record of an observation in a process: the files that the project's code read, and the code that ran."""

from __future__ import annotations

import functools
import os
import sys
import tempfile
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple

from marin.fingerprint.origin import Origin, origin_of

type Stamp = tuple[int, int, int] | None  # inode, size, time of the last write; None: not there
LOOKED_FOR: Stamp = (0, 0, 0)  # of a missing path that the code looked for, and perhaps created afterwards

# Places that hold nothing of a result.
_NEVER = ("/proc/", "/sys/", "/dev/")
_MEMORY = "/dev/shm/"  # where data is staged
# Folders for files of the machine. Such a file counts only if the project's own code opens it.
_SYSTEM = ("/usr/", "/etc/", "/lib", "/bin/", "/sbin/", "/run/", "/var/cache/", "/System/", "/Library/")
_SOURCES = "/usr/src/"


class CodePlace(NamedTuple):
    """A function by where its source stands."""

    filename: str
    line: int
    name: str


type Stack = tuple[CodePlace, ...]  # innermost first


def is_on_import(stack: Stack) -> bool:
    """Return whether a stack leads to a statement of a module that is being imported."""
    return bool(stack) and stack[-1].name == "<module>"


@dataclass(frozen=True, kw_only=True)
class Scope:
    """The reads that count.

    project: the folder whose files always count. left_out: folders whose files never count (the store).
    code: the units of the step that runs, by name.
    """

    project: str = ""
    left_out: tuple[str, ...] = ()
    code: frozenset[str] = frozenset()

    def to_plain(self) -> dict[str, Any]:
        """Return JSON data."""
        import msgspec  # inside the function, because importing marin imports this module

        return msgspec.to_builtins(self)

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Scope:
        import msgspec

        return msgspec.convert(plain, cls)

    def has(self, path: str, *, direct: bool) -> bool:
        """Return whether reading this absolute path counts. direct: no package decided to read it."""
        never = path.startswith((*_NEVER, *_scratch())) and not path.startswith(_MEMORY)
        if never or any(_below(path, folder) for folder in self.left_out):
            return False
        if "__pycache__" in path:
            return False
        if self.project and _below(path, self.project):
            return origin_of(path) is Origin.PROJECT
        home = _home()
        if _below(path, f"{home}/.cache") or origin_of(path) is not Origin.PROJECT:
            return False
        if _below(path, sys.prefix) or _below(path, sys.base_prefix):
            return False
        hidden = path.startswith(f"{home}/.")
        return direct or not (hidden or (path.startswith(_SYSTEM) and not path.startswith(_SOURCES)))


class Ran(IntEnum):
    """The way in which a Python file ran.

    ASKED: by its name, so that any part may be used. PROGRAM: in another process.
    """

    IMPORTED = 0
    ASKED = 1
    PROGRAM = 2


@dataclass(kw_only=True)
class Reads:
    """The files, folders and modules that code read.

    files: by absolute path, with the state of each when it was first opened. folders: absolute paths, and patterns for
    ``glob``. modules: Python files that ran as a whole, in order, and how they ran (Ran).
    """

    files: dict[str, Stamp] = field(default_factory=dict[str, Stamp])
    folders: dict[str, None] = field(default_factory=dict[str, None])
    modules: dict[str, int] = field(default_factory=dict[str, int])

    def lacks(self, path: str) -> bool:
        """Return whether this file was not opened yet."""
        return self.files.get(path, LOOKED_FOR) == LOOKED_FOR

    def take_in(self, other: Reads) -> None:
        self.files |= {path: stamp for path, stamp in other.files.items() if self.lacks(path)}
        self.folders |= other.folders
        for file, how in other.modules.items():
            self.modules[file] = max(how, self.modules.get(file, how))

    def look_for(self, module: str) -> None:
        """Note the files of a module that does not exist yet but may exist later."""
        package, _, last = module.rpartition(".")
        if package and package not in sys.modules:
            self.look_for(package)
            return
        for folder in list(getattr(sys.modules[package], "__path__", ())) if package else sys.path:
            path = os.path.join(os.path.abspath(folder), f"{last}.py")
            if Scope().has(path, direct=False):
                self.files.setdefault(path, stamp_of(path))


class Asked(NamedTuple):
    """A module that code asked for by name.

    reads: the place that notes it. sure: the name is one of a module. literal: the source names the module and shows
    its use.
    """

    reads: Reads
    name: str
    sure: bool
    literal: bool


@dataclass(kw_only=True)
class Observation(Reads):
    """The reads and the code of a step while it runs.

    code: functions of the project that ran. programs: names of other programs that were started. own: paths that were
    written, made or removed meanwhile. updated: files that were opened to be read and written. earlier: reads in this
    process before, by their callers, if one of these may have kept the data.
    """

    scope: Scope = field(default_factory=Scope)
    code: set[CodePlace] = field(default_factory=set[CodePlace])
    programs: set[str] = field(default_factory=set[str])
    own: set[str] = field(default_factory=set[str])
    updated: set[str] = field(default_factory=set[str])
    earlier: dict[Stack, Reads] = field(default_factory=dict["Stack", "Reads"])

    def join(self, other: Observation) -> None:
        """Add the observation of another process or task."""
        self.take_in(other)
        self.code |= other.code
        self.programs |= other.programs
        self.own |= other.own
        self.updated |= other.updated
        for stack, reads in other.earlier.items():
            self.earlier.setdefault(stack, Reads()).take_in(reads)

    def is_own(self, path: str) -> bool:
        """Return whether a path, or a folder above it, was made during the observation."""
        above = os.path.dirname(path)
        return path in self.own or (above != path and self.is_own(above))

    def to_plain(self) -> dict[str, Any]:
        """Return JSON data."""
        import msgspec

        return msgspec.to_builtins({**vars(self), "earlier": list(self.earlier.items())})

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Observation:
        import msgspec

        made = msgspec.convert(plain | {"earlier": {}}, cls)
        made.earlier = dict(msgspec.convert(plain["earlier"], list[tuple[tuple[CodePlace, ...], Reads]]))
        return made


def _below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder if folder.endswith(os.sep) else f"{folder}{os.sep}")


@functools.cache
def _home() -> str:
    return os.path.expanduser("~")


@functools.cache
def _temporary() -> tuple[str, ...]:
    folders = ("/tmp", _MEMORY.rstrip("/"), tempfile.gettempdir())
    return tuple(f"{form}{os.sep}" for each in folders for form in dict.fromkeys((each, os.path.realpath(each))))


def is_temporary(path: str) -> bool:
    """Return whether an absolute path is below the system's folders for temporary files."""
    return path.startswith(_temporary())


@functools.cache
def _scratch() -> tuple[str, ...]:
    """Return the prefixes of marin's and Ray's temporary files, which are never part of a result."""
    folder = tempfile.gettempdir()
    return (f"{folder}/marin-", f"{folder}/ray/")


def stamp_of(path: str) -> Stamp:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
