"""Describe a step's actual reads beyond its fields, inputs and source, and compare them with today.

Records name a file or folder of the project by its path within the project, so that two checkouts compare equal.
Others have their absolute path.
"""

from __future__ import annotations

import functools
import glob
import hashlib
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from marin.errors import InputChanged
from marin.fingerprint.fingerprint import CodeFingerprint
from marin.fingerprint.ignored import Ignored, ignored_of
from marin.fingerprint.lookup.import_path import Locator
from marin.fingerprint.moved import path_today
from marin.fingerprint.observation import start
from marin.fingerprint.observation.observation import LOOKED_FOR, Observation, Scope, is_temporary, stamp_of
from marin.fingerprint.of_step import executed
from marin.fingerprint.origin import is_local
from marin.fingerprint.source.module import ANYTHING
from marin.plan.digests import ABSENT, UNREADABLE, Digests, fixed
from marin.steps.step import ExecutorStep
from marin.store.files.checksums import memory_file
from marin.store.numbers import listed
from marin.store.process import this_process
from marin.store.record import Observed, RanCode

MEANWHILE = "changed meanwhile"
MANY = 1000  # files below one folder; if a step read more, the record holds one digest of the folder
NAMED = 6  # programs that a note names
_ALL_NAMES = Ignored(names=(".*", "__pycache__", "*.pyc"))  # but these
UNSEEN = "not seen: "  # the beginning of a note about reads that marin could not observe


class Places:
    """The places of the files of one step's project."""

    def __init__(self, cls: type | None) -> None:
        self.project = project_of(cls)
        found = [os.path.abspath(entry or os.getcwd()) for entry in start.import_path()]
        self._roots = [self.project, *(entry for entry in found if os.path.isdir(entry) and is_local(entry))]

    def name(self, path: str) -> str:
        """Return the name of an absolute path: its path within the project, if that leads back to the same file."""
        for each in dict.fromkeys((path, os.path.realpath(path))):
            for root in self._roots:
                inside = each.removeprefix(f"{root.rstrip(os.sep)}{os.sep}")
                if inside != each and os.path.realpath(self.path(inside)) == os.path.realpath(path):
                    return inside
        return path

    def path(self, name: str) -> str:
        if os.path.isabs(name):
            return name
        candidates = [os.path.join(root, each) for each in (name, path_today(name)) for root in self._roots]
        return next((each for each in candidates if os.path.lexists(fixed(each))), candidates[0])


@functools.lru_cache(maxsize=100)
def scope_of(cls: type, prefix: str) -> Scope:
    """Return the scope in which the reads of a step count.

    Reads of the store and of the file in which this machine remembers checksums do not count.
    cls: the class of the step. prefix: the prefix of the store.
    """
    ours = [str(memory_file())] if "://" in prefix else [prefix, str(memory_file())]
    both = dict.fromkeys(form for path in ours for form in (os.path.abspath(path), os.path.realpath(path)))
    return Scope(project=project_of(cls), left_out=tuple(both))


@functools.cache
def places_of(cls: type | None) -> Places:
    """Return the places for a step's class; None stands for the project that this process works in."""
    return Places(cls)


def describe(
    step: ExecutorStep[Any],
    seen: Observation,
    code: CodeFingerprint,
    outside: Mapping[str, str],
    *,
    failed: bool = False,
) -> Observed:
    """Return the observed reads in the form that a record holds.

    outside: the outside data that the step declares, which is compared in any case.
    Raises InputChanged if a file changed since it was read, unless the attempt failed anyway.
    """
    places, digests, ignored = places_of(type(step)), Digests(), ignored_of(seen.scope.project)
    whole = Observation(scope=seen.scope)
    whole.join(seen)
    earlier, given = dict(seen.earlier), [seen.files]
    while True:  # a module that was imported earlier may itself read, and name more
        beyond = executed().beyond(code, whole.code, whole.modules)
        counts = [stack for stack in earlier if executed().is_given(stack, code, beyond)]
        for stack in counts:
            given.append(earlier[stack].files)
            whole.take_in(earlier.pop(stack))
        if not counts:
            break
    if not (whole.files or whole.folders or whole.programs or beyond or code.environment):
        return Observed()
    here = os.path.abspath(os.path.dirname(getattr(step, "beside", "")))
    local = (name.removeprefix("file://") for name in outside if "://" not in name or name[:4] == "file")
    declared = {os.path.normpath(os.path.join(here, name)) for name in local}
    looked = {path for path, stamp in whole.files.items() if stamp == LOOKED_FOR}
    changed = {
        path for files in given for path, stamp in files.items() if stamp != LOOKED_FOR and stamp_of(path) != stamp
    }
    # A program that the step started writes temporary files. A file that the step itself wrote to is its own.
    gone = {path for path in changed if is_temporary(path) and not path.startswith(f"{seen.scope.project}{os.sep}")}
    gone |= whole.updated & (changed | looked)
    # A file that was missing and exists now is a cache that the step had built, a lock or a signal.
    gone |= {path for path in looked if os.path.lexists(path) or not ignored.left([os.path.basename(path)])}
    files = [path for path in whole.files if path not in declared | gone and not whole.is_own(path)]
    files = [path for path in files if seen.scope.has(path, direct=True)]  # a store of the process is read earlier, too
    changed.intersection_update(files)
    if changed and not failed:
        who = "run()" if min(changed) in seen.files else "this process, before this step,"
        raise InputChanged(
            f"{step.name}: {min(changed)} changed after {who} had opened it, so the output may be built from the bytes "
            "before or after. Nothing was committed; run again, in a new process"
        )
    folders = [path for path in whole.folders if not any(each.startswith(fixed(path)) for each in declared)]
    trees = _trees(files, [whole.scope.project, *whole.scope.left_out, *whole.own])
    files = [path for path in files if path in changed or not any(str(each) in trees for each in Path(path).parents)]
    digests.add(files)
    salt = step.identity[:32]
    observed = Observed(
        host=this_process().host,
        salt=salt,
        files={
            name: MEANWHILE if path in changed else digests.file(path)
            for path in sorted(files)
            # The fingerprint has some already: a compiled module, source that is looked into.
            if (name := places.name(path)) not in code.units
        },
        trees={places.name(path): digests.tree(path) for path in sorted(trees)},
        folders={
            name: digests.folder(path, ignored)
            for path in sorted(folders)
            if not whole.is_own(path) and not _is_hidden(name := places.name(path))
        },
        code={
            key.qualified: RanCode(file=places.name(str(key.module.path)), digest=part.digest)
            for key, part in beyond.items()
        },
        environment={
            name: _value(name, salt)
            for name in sorted(code.environment.union(*(part.unit.piece.environment for part in beyond.values())))
            if name != ANYTHING and not ignored.has_variable(name)
        },
        programs=sorted(whole.programs),
    )
    return observed if observed.is_any or observed.programs else Observed()


class Present:
    """Today's state of files, code and variables that earlier runs read. cls: the step's class, see ``places_of``."""

    def __init__(self, cls: type | None, digests: Digests) -> None:
        self._cls, self.digests = cls, digests
        self._ignored = ignored_of(project_of(cls))

    @functools.cached_property
    def _places(self) -> Places:
        return places_of(self._cls)

    def paths(self, then: Observed) -> list[str]:
        return [self._places.path(name) for name in then.files]

    def of(self, then: Observed) -> Observed:
        """Return ``then`` with today's digests. A file that ``notes`` names keeps its old digest."""
        if not then.is_any:
            return then
        files, trees, folders = (
            {name: old if self._note(then, name, old, now) else now for name, (old, now) in each.items()}
            for each in self._beside(then)
        )
        return replace(
            then,
            files=files,
            trees=trees,
            folders=folders,
            code={name: self._code(name, old) for name, old in then.code.items()},
            environment={
                name: old if self._ignored.has_variable(name) else _value(name, then.salt)
                for name, old in then.environment.items()
            },
        )

    def notes(self, then: Observed) -> list[str]:
        """Say which files are not compared: this machine lacks them, or they are temporary."""
        if not then.is_any:
            return []
        every = (self._note(then, name, *both) for each in self._beside(then) for name, both in each.items())
        return [note for note in every if note]

    def _beside(self, then: Observed) -> list[dict[str, tuple[str, str]]]:
        """Return the digests then and now of files, trees and folders, by name."""
        path, digests = self._places.path, self.digests
        return [
            {name: (old, digests.file(path(name))) for name, old in then.files.items()},
            {name: (old, digests.tree(path(name))) for name, old in then.trees.items()},
            {name: (old, self._folder(path(name), old)) for name, old in then.folders.items()},
        ]

    def _folder(self, path: str, old: str) -> str:
        """Return a folder's digest now. It is ``old`` if the folder has this digest when fewer names are ignored."""
        return old if self.digests.folder(path, _ALL_NAMES) == old else self.digests.folder(path, self._ignored)

    def _note(self, then: Observed, name: str, old: str, now: str) -> str:
        """Say why the digests of a file or folder are not compared, "" if they are."""
        if old == now or not os.path.isabs(name):
            return ""
        if then.host != this_process().host and _is_nothing(now):
            return f"{name} is not on this machine, and not compared; {then.host} read it"
        if _is_nothing(now) and is_temporary(name):
            return f"the temporary file {name} is gone; run() read it"
        if _is_nothing(old) and is_temporary(name):
            return f"the temporary file {name} is there now; run() looked for it"
        return ""

    def _code(self, name: str, then: RanCode) -> RanCode:
        digests = executed().today(Path(self._places.path(then.file)), name.rpartition(".")[2])
        return then if then.digest in digests else RanCode(file=then.file, digest=next(iter(digests), ABSENT))


def differences(then: Observed, now: Observed) -> list[str]:
    """Return one line for each file, folder, definition or variable that has changed."""
    lines: list[str] = []
    for name, old, new in _unequal(then.files, now.files):
        how = "is there now" if old == ABSENT else "is gone" if new == ABSENT else "changed"
        lines.append(f"{name} {how}, which run() {'looked for' if old == ABSENT else 'read'}")
    for name, old, new in _unequal(then.trees, now.trees):
        lines.append(f"{name}{os.sep} changed ({old[:-16]} → {new[:-16]}); run() read very many files in it")
    for name, old, new in _unequal(then.folders, now.folders):
        counts = (old.partition(" ")[0] or "no", new.partition(" ")[0] or "no")
        how = "has other names" if counts[0] == counts[1] else f"has {counts[1]} names, had {counts[0]}"
        lines.append(f"{name}{'' if glob.has_magic(name) else os.sep} {how}, which run() listed")
    for name, old, new in _unequal(then.code, now.code):
        how = f"changed ({old.digest[:8]} → {new.digest[:8]})" if new.digest else "is gone"
        lines.append(f"{name} {how}, which run() found by name")
    return lines + [f"{name} changed in the environment" for name, *_ in _unequal(then.environment, now.environment)]


def _unequal[T](then: Mapping[str, T], now: Mapping[str, T]) -> Iterator[tuple[str, T, T]]:
    return ((name, old, now[name]) for name, old in then.items() if old != now[name])


def unseen(held: Observed, code: CodeFingerprint) -> list[str]:
    """Return notes about reads that marin could not observe while the step ran, or never can."""
    notes: list[str] = []
    if held.programs:
        notes.append(f"{UNSEEN}files that programs of the step read ({listed(held.programs, NAMED)})")
    if ANYTHING in code.environment:
        notes.append(f"{UNSEEN}environment variables whose names the step's code computes")
    if code.readers:
        notes.append(f"{UNSEEN}files outside of the store that the step opens by {', '.join(sorted(code.readers))}")
    return notes


@functools.cache
def project_of(cls: type | None) -> str:
    """Return the folder of the project that a step's class belongs to, or that this process works in."""
    file = os.path.join(os.getcwd(), "-")
    if cls is not None:
        file = getattr(sys.modules.get(cls.__module__), "__file__", None)
        if not file or not os.path.isfile(file):
            return os.getcwd()
    path, locator = Path(os.path.abspath(file)), Locator()
    return str(next(filter(locator.is_project, path.parents), locator.import_root(path)))


def _trees(files: Iterable[str], others: Iterable[str]) -> set[str]:
    """Return the deepest folders below which very many files were read. others: paths that no such folder may hold."""
    counts = Counter(str(above) for path in files for above in Path(path).parents)
    holds = {str(above) for path in others for above in (Path(path), *Path(path).parents)} if counts else set[str]()
    found: set[str] = set()
    for folder in sorted((each for each, count in counts.items() if count > MANY), key=len, reverse=True):
        if folder not in holds and not any(each.startswith(f"{folder}{os.sep}") for each in found):
            found.add(folder)
    return found


def _is_nothing(digest: str) -> bool:
    """Return whether a digest stands for a file or folder that is not there."""
    return digest in (ABSENT, UNREADABLE) or digest.startswith(("0 names", "0 files"))


def _is_hidden(name: str) -> bool:
    return not os.path.isabs(name) and any(part.startswith(".") and part != "." for part in name.split(os.sep))


def _value(name: str, salt: str) -> str:
    value = start.variables().get(name)
    if value is None:
        return ABSENT
    return hashlib.blake2b(os.fsencode(value), key=salt.encode(), digest_size=12).hexdigest()
