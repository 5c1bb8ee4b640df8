"""Find code that may keep data that it read: in a cache, a global variable, an attribute, a closure.

The text of the code decides, and in doubt the code may. A step that reaches such code may be given the data later.
"""

from __future__ import annotations

from collections.abc import Iterable

from marin.fingerprint.lookup.definitions import Key
from marin.fingerprint.lookup.units import Units
from marin.fingerprint.source.module import Chain, Module, Retention, Trait

_OUTSIDE = ("stdlib", "package", "engine")
# Decorators of Python that keep nothing of their function's results.
_KEEP_NOTHING = frozenset(
    """
    abc.abstractmethod contextlib.asynccontextmanager contextlib.contextmanager dataclasses.dataclass enum.unique
    functools.partial functools.total_ordering functools.wraps typing.final typing.no_type_check typing.overload
    typing.override typing.runtime_checkable
    """.split()  # noqa: SIM905
)
_OF_PROPERTIES = frozenset({"setter", "getter", "deleter"})


class Keepers:
    """A judge of units that may keep data. Each unit is judged once."""

    def __init__(self, units: Units) -> None:
        self._units = units
        self._keeps: dict[Key, Retention] = {}

    def keeps(self, key: Key) -> Retention:
        if key not in self._keeps:
            text = self._units.piece(key).keeping
            found = [text.retention, *(self._of_wrapper(chain, key.module) for chain in text.wrappers)]
            if not all(self._is_outside(name, key.module) for name in text.changed):
                found.append(Retention.PROCESS)
            self._keeps[key] = max(found)
        return self._keeps[key]

    def held(self, keys: Iterable[Key]) -> frozenset[Key]:
        """Return everything that the variables and caches among these lead to. Objects of these classes may last."""
        return frozenset[Key]().union(*(self._units.everything(key) for key in keys if self._holds(key)))

    def _holds(self, key: Key) -> bool:
        holding = {Trait.STATE, Trait.HOLDS_RESULT}
        return self.keeps(key) is Retention.PROCESS or not holding.isdisjoint(self._units.piece(key).traits)

    def _of_wrapper(self, chain: Chain, module: Module) -> Retention:
        """Judge a wrapper: a decorator, or a callable that gets the function."""
        if not chain:
            return Retention.PROCESS
        if chain[-1] in _OF_PROPERTIES:
            return Retention.NOTHING
        for found in self._units.chain(chain, module):
            if "cached_property" in found.name:
                return Retention.OBJECT
            if found.kind in ("stdlib", "package"):
                keeps = found.name.replace("typing_extensions.", "typing.") not in _KEEP_NOTHING
            elif found.unit is not None:
                keeps = found.used < len(chain) - 1 or self._names_a_cache(found.unit)
            else:
                keeps = found.kind != "engine"
            if keeps:
                return Retention.PROCESS
        return Retention.NOTHING

    def _names_a_cache(self, key: Key) -> bool:
        """Return whether a decorator of the project may pass the function on to one that keeps its results."""
        named = (part for each in self._units.piece(key).references for part in (each.name, *each.attributes))
        return any("cache" in part or "memo" in part for part in named)

    def _is_outside(self, name: str, module: Module) -> bool:
        """Return whether a name leads outside the project, as ``numpy`` does in ``numpy.append(a, b)``."""
        found = self._units.chain((name,), module) if name in module.source.imports else []
        return bool(found) and all(each.kind in _OUTSIDE for each in found)
