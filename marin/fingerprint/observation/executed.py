"""Find the units of code that a step ran and that its fingerprint does not have."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Set
from contextlib import suppress
from pathlib import Path

from marin.errors import ExperimentError
from marin.fingerprint.closure import Closures, Part
from marin.fingerprint.fingerprint import CodeFingerprint
from marin.fingerprint.lookup.definitions import CONTENT, Key
from marin.fingerprint.observation.observation import CodePlace, Ran, Stack, is_on_import
from marin.fingerprint.origin import is_engine, is_local
from marin.fingerprint.source.module import AS_SCRIPT, ON_IMPORT, STAR, Lines, Module, Retention

type Beyond = Mapping[Key, Part]  # units that ran, with the units that they reach, if a fingerprint lacks them


class Executed:
    """A finder of the units that functions and modules belong to, and of units by their names."""

    def __init__(self, closures: Closures) -> None:
        self._closures = closures
        self._keepers = closures.keepers
        self._held: dict[frozenset[str], frozenset[Key]] = {}
        self._module = functools.cache(self._read)
        self._key = functools.cache(self._find)
        self._lines = functools.cache(_lines_of)
        self._covered: dict[str, set[CodePlace]] = {}  # by digest of the fingerprint that has the places

    def covered(self, places: Set[CodePlace], code: CodeFingerprint) -> bool:
        """Return whether a fingerprint has all code at these places that counts."""
        return not self._uncovered(places, code)

    def _uncovered(self, places: Set[CodePlace], code: CodeFingerprint) -> list[CodePlace]:
        known = self._covered.setdefault(code.digest, set())
        left: list[CodePlace] = []
        for place in places - known:
            key = self._key(place)
            if key is None or key.qualified in code.units or not self._closures.units[key].text:
                known.add(place)
            else:
                left.append(place)
        return sorted(left)

    def keeps(self, stack: Stack, code: frozenset[str]) -> bool:
        """Return whether one of these functions may keep data that it reads, and give it to others later.

        code: the names of the units of the step that runs them.
        """
        keys = (self._key(place) for place in stack)
        return any(self._keeps(key, code, key.qualified not in code) for key in keys if key is not None)

    def is_given(self, stack: Stack, code: CodeFingerprint, beyond: Beyond) -> bool:
        """Return whether a step may get data that these functions read earlier.

        It may if it reaches a function that may keep the data, or uses the module statement that read it on import.
        """
        if is_on_import(stack) and self._uses(stack[-1], code, beyond):
            return True
        units = frozenset((*code.units, *(key.qualified for key in beyond)))
        keys = (self._key(place) for place in stack if place.name != "<module>")
        return any(key.qualified in units and self._keeps(key, units, False) for key in keys if key is not None)

    def _keeps(self, key: Key, code: frozenset[str], in_doubt: bool) -> bool:
        keeps = self._keepers.keeps(key)
        if keeps is not Retention.OBJECT or in_doubt:
            return bool(keeps)
        if code not in self._held:
            named = (self._named(name, key.module.path) for name in code)
            self._held[code] = self._keepers.held(each for each in named if each is not None)
        return key in self._held[code]

    def _uses(self, place: CodePlace, code: CodeFingerprint, beyond: Beyond) -> bool:
        """Return whether a statement of a module counts: the fingerprint has the statement, or it ran beyond it.

        An import counts if counted code of its module uses a name that the import binds.
        """

        def counts(key: Key) -> bool:
            return key.qualified in code.units or key in beyond

        module = self._module(place.filename)
        statements = module.source.imported if module is not None else ()
        bound = {name for each in statements if _has(each.lines, place.line) for name in each.names}
        if module is None or not bound:
            return (key := self._key(place)) is not None and counts(key)
        keys = [key for name in [*module.source.bindings, ON_IMPORT, AS_SCRIPT] if counts(key := Key(module, name))]
        used = {reference.name for key in keys for reference in self._closures.units.piece(key).references}
        return STAR in bound or not used.isdisjoint(bound)

    def beyond(self, code: CodeFingerprint, places: Set[CodePlace], files: Mapping[str, int]) -> Beyond:
        """Return all code that these functions, and these files as a whole, reach and a fingerprint lacks.

        files: the way in which each file ran (Ran).
        """
        roots = {key: None for place in self._uncovered(places, code) if (key := self._key(place))}
        loaded = set(code.loaded)
        for file, how in files.items():
            module = self._module(file)
            if module is None or is_engine(module.name) or (module.name in loaded and how == Ran.IMPORTED):
                continue
            whole = [Key(module, name) for name in module.source.bindings if name != "__doc__"]
            whole += [Key(module, ON_IMPORT)] if module.source.effects else []
            whole += [Key(module, AS_SCRIPT)] if how == Ran.PROGRAM and module.source.has_script else []
            whole = [
                key for key in whole if key.name not in module.source.bindings or not self._closures.units.is_step(key)
            ]
            roots |= dict.fromkeys(whole)
            loaded |= {module.name, *(each.name for each in self._closures.reach(whole).loaded)}
        parts = self._closures.reach(roots).parts if roots else {}
        return {
            key: parts[key]
            for key in sorted(parts, key=lambda key: key.qualified)
            if parts[key].text and key.qualified not in code.units and key.name != CONTENT
        }

    def today(self, file: Path, symbol: str) -> dict[str, str]:
        """Return the texts that one unit of a file may have, by digest: without annotations and docstrings, and with.

        Empty if the file does not have the unit.
        """
        module = self._module(str(file)) if file.is_file() else None
        return self._texts(module, symbol) if module is not None else {}

    def named(self, name: str, importer: Path | None = None) -> dict[str, str] | None:
        """Return today's texts of a unit by its qualified name alone, by digest, as ``today`` does.

        importer: a file of the unit's project; by default the project of the working directory. Returns None if no
        such module is found, or if it cannot be read.
        """
        key = self._named(name, importer or Path.cwd() / "-")
        try:
            return self._texts(key.module, key.name) if key is not None else None
        except ExperimentError:
            return None

    def _named(self, name: str, importer: Path) -> Key | None:
        dotted, _, symbol = name.rpartition(".")
        if not dotted or not all(part.isidentifier() for part in dotted.split(".")):
            return None
        path = self._closures.units.resolver.locator.find(dotted, importer.parent)
        module = self._module(str(path)) if isinstance(path, Path) else None
        return Key(module, symbol) if module is not None and module.name == dotted else None

    def _texts(self, module: Module, symbol: str) -> dict[str, str]:
        if symbol not in module.source.units:
            return {}
        return {part.digest: part.text for part in self._closures.parts(Key(module, symbol))}

    def _find(self, place: CodePlace) -> Key | None:
        """Return the unit of a place.

        Returns None for code that counts in no fingerprint: the engine's, or another step's class that is only built.
        """
        module = self._module(place.filename)
        if module is None:
            return None
        top = place.name.split(".")[0]
        lines = ((each, name) for each, name in self._lines(module) if _has(each, place.line))
        there = [(name != top, last - first, name) for (first, last), name in lines]
        if not there or is_engine(module.name):
            return None
        key = Key(module, min(there, key=lambda each: each[:2])[2])
        try:
            aside = key.name != ON_IMPORT and self._closures.units.is_step(key) and not place.name.endswith(".run")
        except ExperimentError:
            return None
        return None if aside else key

    def _read(self, file: str) -> Module | None:
        path = Path(file).resolve()
        if path.suffix == ".py" and is_local(path):
            with suppress(ExperimentError):
                return self._closures.units.resolver.module(path)
        return None


def _lines_of(module: Module) -> list[tuple[Lines, str]]:
    """Return the lines and the unit's name of each statement that binds a name or runs on import."""
    named = [(lines, name) for name, every in module.source.bindings.items() for lines in every]
    return named + [(lines, ON_IMPORT) for lines in module.source.effects]


def _has(lines: Lines, line: int) -> bool:
    return lines[0] <= line <= lines[1]
