"""Registries: definitions that nothing names, but that something heard of while they were made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from marin.fingerprint.lookup.keepers import Keepers, Keeps
from marin.fingerprint.lookup.unit import INDIFFERENT, Key, Unit
from marin.fingerprint.lookup.units import Units
from marin.fingerprint.source.module import Chain
from marin.fingerprint.source.traits import Trait


class Registers:
    """Which announced definitions of loaded modules may stand in a registry that reached code looks into.

    keepers: None where whatever is called may keep what it gets.
    """

    def __init__(self, units: Units, keepers: Keepers | None) -> None:
        self._units, self._keepers = units, keepers
        self._ancestors: dict[Key, frozenset[Key]] = {}

    def found(self, reached: Mapping[Key, Unit], announced: Iterable[Key]) -> list[Key]:
        pending = [key for key in announced if key not in reached]
        if not pending:
            return []
        state = {key for key, unit in reached.items() if unit.piece.traits & Trait.STATE}
        tops = {top for unit in reached.values() for top in unit.tops}
        return [key for key in pending if self._enters(key, state, tops, reached)]

    def ancestors(self, key: Key) -> frozenset[Key]:
        """The local classes that a class derives from, itself included."""
        if key not in self._ancestors:
            self._ancestors[key] = frozenset({key})  # for a class that names itself in its bases
            found = {key}
            for base in self._units.bases(key):
                if base.unit is not None:
                    found |= self.ancestors(base.unit)
            self._ancestors[key] = frozenset(found)
        return self._ancestors[key]

    def _enters(self, key: Key, state: set[Key], tops: set[str], reached: Mapping[Key, Unit]) -> bool:
        """Whether making ``key`` can write to a reached variable, or tell a reached object or package about it."""
        announcement = key.module.announced[key.name]
        if any(self._hears(chain, key, state, reached, itself=False) for chain in announcement.calls):
            return True
        for chain in announcement.decorators:
            if self._hears(chain, key, state, reached, itself=True):
                return True
            for found in self._units.chain(chain, key.module):
                top = found.name.split(".")[0]
                if found.kind == "package" and top in tops and top not in INDIFFERENT:
                    return True
        hooked = [base for base in self.ancestors(key) if self._units.piece(base).traits & Trait.HOOKS]
        return any(self._keeps(base, state, reached, Keeps.IN_OBJECT) for base in hooked)

    def _hears(self, chain: Chain, key: Key, state: set[Key], reached: Mapping[Key, Unit], *, itself: bool) -> bool:
        """itself: what is called gets the very thing that is made."""
        for found in self._units.chain(chain, key.module):
            by = found.unit
            if by is None:
                continue
            method = itself and len(chain) - 1 > found.used  # TABLE.register, function.register
            if (method and by in reached) or self._keeps(by, state, reached, Keeps.FOR_GOOD):
                return True
        return False

    def _keeps(self, by: Key, state: set[Key], reached: Mapping[Key, Unit], least: Keeps) -> bool:
        """Whether what is called may enter what it gets where reached code finds it: it, or what it calls, keeps
        things, and is reached or leads to a reached variable. least: how well it does so itself."""
        if by not in reached and state.isdisjoint(self._units.everything(by)):
            return False
        keepers = self._keepers
        if keepers is None or keepers.keeps(by) >= least:
            return True
        return any(
            keepers.keeps(each) is Keeps.FOR_GOOD
            and (each in reached or not state.isdisjoint(self._units.everything(each)))
            for each in self._units.everything(by)
        )
