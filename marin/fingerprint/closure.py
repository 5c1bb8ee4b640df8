"""Find all project-local code that a piece of code reaches.

A unit is a top-level name of a module, with the statements that bind the name. From a unit
the closure goes to every unit that a name in it leads to. Importing a module also runs its other
statements, so for every local module that reached code imports:

- statements that bind nothing (``jax.config.update(...)``, ``FILTERS["x"] = ...``) count, as the
  pseudo-unit ``module.<on import>``, unless they only call the engine;
- a definition counts if it may enter a registry: something that can write to a variable of the reached
  code sees it while it is defined. See Registers.

Annotations and docstrings count for units whose own base, decorator or caller may read them. They count
for all units if reached code reads them from any object that it is given. If reached code uses a package
that builds on annotations, the annotations of classes' fields count. Steps and values are excepted: the
engine checks their fields.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from enum import IntEnum

from msgspec import Struct, field

from marin.fingerprint.lookup.definitions import CONTENT, Key
from marin.fingerprint.lookup.keepers import Keepers
from marin.fingerprint.lookup.units import INDIFFERENT, READERS, Unit, Units
from marin.fingerprint.moved import as_before, named_before
from marin.fingerprint.origin import is_engine
from marin.fingerprint.source.module import AS_SCRIPT, ON_IMPORT, Chain, Module, Retention, Trait
from marin.steps.value import digest

_ASKING = frozenset({Trait.READS_ANNOTATIONS, Trait.READS_DOCS})
_NONE: Mapping[Key, Mapping[str, str]] = {}
DIGITS = 24  # hexadecimal: 96 bits are far beyond an accidental collision


class CountedParts(IntEnum):
    """The parts of a unit that count: its code, also annotations of a class's fields, all annotations, docstrings."""

    CODE = 0
    FIELDS = 1
    ANNOTATIONS = 2
    DOCS = 3


class Part(Struct, frozen=True):
    """A unit as it counts.

    text: with annotations and docstrings if they count. named: the classes that these annotations name.
    """

    text: str
    digest: str
    unit: Unit
    named: tuple[Key, ...] = ()


class Reach(Struct):
    """The units that some roots reach. parts: the units as they count together, once all are found.

    loaded: local modules that are imported on the way.
    announced: definitions in these modules that a registry may see.
    counted: the parts that count beyond the code, of units that are looked into.
    tops: packages that are used.
    units_named: units that take names from fields, with the values of these fields.
    """

    units: dict[Key, Unit] = field(default_factory=dict[Key, Unit])
    loaded: dict[Module, None] = field(default_factory=dict[Module, None])
    announced: dict[Key, None] = field(default_factory=dict[Key, None])
    doubtful: bool = False
    counted: dict[Key, CountedParts] = field(default_factory=dict[Key, "CountedParts"])
    traits: set[Trait] = field(default_factory=set[Trait])
    tops: set[str] = field(default_factory=set[str])
    parts: dict[Key, Part] = field(default_factory=dict[Key, Part])
    units_named: dict[Key, Unit] = field(default_factory=dict[Key, Unit])


class Registers:
    """A finder of definitions that may stand in a registry of reached code, although no reached code names them.

    Such a definition is announced: a decorator or call saw it while it was defined.
    keepers: None if any called function may keep its arguments.
    """

    def __init__(self, units: Units, keepers: Keepers | None, reach: Reach) -> None:
        self._units, self._keepers, self._reached, self._tops = units, keepers, reach.units, reach.tops
        self._pending = [key for key in reach.announced if key not in reach.units]
        reached = reach.units.items() if self._pending else ()
        self._state = {key for key, unit in reached if Trait.STATE in unit.piece.traits}

    def found(self) -> list[Key]:
        return [key for key in self._pending if self._enters(key)]

    def _enters(self, key: Key) -> bool:
        """Return whether defining ``key`` can write to a reached variable, or pass it to reached code or packages."""
        announcement = key.module.source.announced[key.name]
        if any(self._hears(chain, key, itself=False) for chain in announcement.calls):
            return True
        for chain in announcement.decorators:
            if self._hears(chain, key, itself=True):
                return True
            for found in self._units.chain(chain, key.module):
                top = found.name.split(".")[0]
                if found.kind == "package" and top in self._tops and top not in INDIFFERENT:
                    return True
        hooked = [base for base in self._units.ancestors(key) if Trait.HOOKS in self._units.piece(base).traits]
        return any(self._keeps(base, Retention.OBJECT) for base in hooked)

    def _hears(self, chain: Chain, key: Key, *, itself: bool) -> bool:
        """Return whether a called function may keep the definition. itself: the definition is its argument."""
        for found in self._units.chain(chain, key.module):
            by = found.unit
            if by is None:
                continue
            method = itself and len(chain) - 1 > found.used  # TABLE.register, function.register
            if (method and by in self._reached) or self._keeps(by, Retention.PROCESS):
                return True
        return False

    def _keeps(self, by: Key, least: Retention) -> bool:
        """Return whether a called function may store its argument where reached code finds it.

        It may if the function or one that it calls keeps things, and is reached or leads to a reached variable.
        least: how long the function itself must keep things.
        """
        if not self._is_looked_into(by):
            return False
        keepers = self._keepers
        return (
            keepers is None
            or keepers.keeps(by) >= least
            or any(
                keepers.keeps(each) is Retention.PROCESS and self._is_looked_into(each)
                for each in self._units.everything(by)
            )
        )

    def _is_looked_into(self, by: Key) -> bool:
        return by in self._reached or not self._state.isdisjoint(self._units.everything(by))


class Closures:
    """A maker of closures that analyses every unit once."""

    def __init__(self) -> None:
        self.units = Units()
        self.keepers = Keepers(self.units)
        self._loads = functools.cache(self._loaded_by)
        self._announced = functools.cache(self._announced_in)
        self._part = functools.cache(self._make_part)

    def reach(
        self, roots: Iterable[Key], *, doubtful: bool = False, named: Mapping[Key, Mapping[str, str]] = _NONE
    ) -> Reach:
        """Return the units that the roots reach, with the roots, as they count together.

        doubtful: also the units that older fingerprints had (see FORMAT). named: values of fields that units use as
        names.
        """
        reach, keepers = Reach(doubtful=doubtful), None if doubtful else self.keepers
        reach.units_named = {key: self.units.named(key, values) for key, values in named.items()}
        queue = list(roots)
        while queue:
            self._walk(queue, reach)
            queue = self._on_import(reach) or Registers(self.units, keepers, reach).found()
            queue = queue or self._listed(reach) or self._inspect(reach)
        for key in reach.units:
            counted = reach.counted.get(key, CountedParts.CODE)
            unit = reach.units_named.get(key)
            reach.parts[key] = self._part(key, counted) if unit is None else self._make_part(key, counted, unit)
        return reach

    def parts(self, key: Key) -> list[Part]:
        """Return a unit without and with annotations and docstrings, then in the forms that older fingerprints have.

        The code that reaches a unit decides which of these forms counts.
        """
        now = [self._part(key, counted) for counted in CountedParts]
        forms = [(form, part.unit) for part in now for form in (part.text, as_before(part.text))]
        forms += [(named_before(form), unit) for form, unit in forms]
        return [*now, *(Part(text, digest(text.encode())[:DIGITS], unit) for text, unit in dict(forms).items())]

    def field_annotations(self, key: Key) -> list[Key]:
        """Return the local classes named in the annotations of a step class's fields, without other steps."""
        return list(self._part(key, CountedParts.FIELDS).named)

    def _walk(self, queue: list[Key], reach: Reach) -> None:
        while queue:
            key = queue.pop()
            if key in reach.units:
                continue
            unit = reach.units[key] = reach.units_named.get(key) or self.units[key]
            reach.traits |= unit.piece.traits
            reach.tops |= unit.tops
            queue.extend(unit.leads)
            if key.name == CONTENT:
                continue
            self._load([*reversed(unit.loads), key.module], reach)

    def _load(self, pending: list[Module], reach: Reach) -> None:
        """Add modules and all that importing them imports, the last first. Stop at the engine."""
        while pending:
            module = pending.pop()
            if module in reach.loaded or is_engine(module.name):
                continue
            reach.loaded[module] = None
            reach.announced |= self._announced(module)
            pending.extend(self._loads(module))

    def _announced_in(self, module: Module) -> dict[Key, None]:
        return dict.fromkeys(Key(module, name) for name in module.source.announced)

    def _loaded_by(self, module: Module) -> tuple[Module, ...]:
        targets = (target for each in module.source.imported for target in each.loads)
        return tuple(dict.fromkeys(each for target in targets for each in self.units.resolver.loaded(target, module)))

    def _on_import(self, reach: Reach) -> list[Key]:
        keys = [Key(module, ON_IMPORT) for module in reach.loaded if module.source.effects]
        return [key for key in keys if key not in reach.units and self.units[key].text]

    def _listed(self, reach: Reach) -> list[Key]:
        """Return every class of a loaded module that derives from a reached one, if reached code lists subclasses."""
        if Trait.LISTS_SUBCLASSES not in reach.traits:
            return []
        classes = [
            key for key in reach.announced if key not in reach.units and key.module.source.announced[key.name].bases
        ]
        return [key for key in classes if not self.units.ancestors(key).isdisjoint(reach.units)]

    def _inspect(self, reach: Reach) -> list[Key]:
        """Mark the units that are looked into, and return the units that their annotations name."""
        by_package = not READERS.isdisjoint(reach.tops)
        asks = not _ASKING.isdisjoint(reach.traits) or (by_package and reach.doubtful)
        everything = CountedParts.DOCS if asks else CountedParts.CODE
        handed = {key for unit in reach.units.values() for key in unit.handed}
        # Functions that a decorator or call may give to singledispatch, which reads the type from the annotation.
        dispatching = reach.units.items() if Trait.DISPATCHES in reach.traits else ()
        registers = ((key, unit) for key, unit in dispatching if Trait.REGISTERS in unit.piece.traits)
        registered = {each for key, unit in registers for each in (key, *unit.handed)}
        queue: list[Key] = []
        for key, unit in reach.units.items():
            is_class = Trait.CLASS in unit.piece.traits
            counted = max(
                CountedParts.DOCS if unit.inspected or (by_package and key in handed and not is_class) else everything,
                CountedParts.ANNOTATIONS if key in registered or (key in handed and is_class) else CountedParts.CODE,
                CountedParts.FIELDS if by_package and is_class and not self.units.is_ours(key) else CountedParts.CODE,
            )
            if counted:
                reach.counted[key] = counted
                queue += [each for each in self._part(key, counted).named if each not in reach.units]
        if Trait.READS_SOURCE in reach.traits:
            modules = {key.module for key in reach.units if key.module.path.suffix == ".py" and key.name != CONTENT}
            sources = [self.units.file(module.path) for module in modules]
            queue += [key for key in sources if key not in reach.units]
        return queue

    def _make_part(self, key: Key, counted: CountedParts, unit: Unit | None = None) -> Part:
        unit = unit or self.units[key]
        text, piece = unit.text, unit.piece
        counts = [each for each in piece.annotations if counted > CountedParts.FIELDS or (counted and each.of_field)]
        if key.name not in (ON_IMPORT, AS_SCRIPT):
            docs = piece.docs if counted is CountedParts.DOCS else ()
            text = "\n# ".join(filter(None, [text, *(each.text for each in counts), *docs]))
        return Part(text, digest(text.encode())[:DIGITS], unit, tuple(self.units.classes(counts, key.module)))
