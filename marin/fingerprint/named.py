"""Today's source of a unit that is known by its name alone, as an older fingerprint has it."""

from __future__ import annotations

from pathlib import Path

from marin.errors import ExperimentError
from marin.fingerprint.closure import Closures
from marin.fingerprint.lookup.unit import Key
from marin.fingerprint.source.unit_source import ON_IMPORT


class NamedUnits:
    """Finds units by qualified name, importing nothing. importer: a file of the project that they are looked for in."""

    def __init__(self, closures: Closures, importer: Path) -> None:
        self._closures, self._importer = closures, importer

    def texts(self, name: str) -> dict[str, str] | None:
        """What the unit may be today, by digest: without annotations and docstrings, and with them counted.

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
                return {}
            return {part.digest: part.text for part in self._closures.parts(Key(module, symbol))}
        except ExperimentError:
            return None
