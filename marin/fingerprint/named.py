"""Today's source of a unit that is known by its name alone, as an older fingerprint has it."""

from __future__ import annotations

from pathlib import Path

from marin.errors import ExperimentError
from marin.fingerprint.closure import Closures
from marin.fingerprint.piece import ON_IMPORT
from marin.fingerprint.unit import Key


class NamedUnits:
    """Finds units by qualified name, importing nothing. importer: a file of the project that they are looked for in."""

    def __init__(self, closures: Closures, importer: Path) -> None:
        self._closures, self._importer = closures, importer

    def digests(self, name: str) -> frozenset[str] | None:
        """What the unit's digest may be today: with annotations and docstrings counted, and without.

        Empty if its module has it no more; None if no such module is found here, or none that can be read.
        """
        dotted, _, symbol = name.rpartition(".")
        if not dotted or not all(part.isidentifier() for part in dotted.split(".")):
            return None
        resolver = self._closures.units.resolver
        path = resolver.locator.find(dotted, self._importer)
        if not isinstance(path, Path) or path.suffix != ".py":
            return None
        try:
            module = resolver.module(path)
            if module.name != dotted:
                return None
            if symbol not in module.bindings and not (symbol == ON_IMPORT and module.effects):
                return frozenset()
            return self._closures.digests(Key(module, symbol))
        except ExperimentError:
            return None
