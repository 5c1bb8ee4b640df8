"""Follow a name through imports and re-exports to the statement that defines it."""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from marin.errors import ExperimentError
from marin.fingerprint.lookup.import_path import COMPILED, Locator
from marin.fingerprint.origin import is_engine
from marin.fingerprint.source.cache import SourceCache
from marin.fingerprint.source.module import ANY, FIELD, SCRIPT, STAR, Module, Reference, Target

CONTENT = "<content>"  # the content of a file
_BUILTINS = frozenset(dir(builtins))

type Kind = Literal[
    "unit", "module", "dynamic", "script", "compiled", "package", "stdlib", "engine", "missing", "unbound"
]


class Key(NamedTuple):
    """A unit: a module and one of its top-level names, or ON_IMPORT, AS_SCRIPT or CONTENT."""

    module: Module
    name: str

    @property
    def qualified(self) -> str:
        if self.name == CONTENT:
            return self.module.name
        return f"{self.module.name}.{self.name}"


class Definition(NamedTuple):
    """The target of a reference.

    Kinds: "unit", a top-level name of a local module. "module", a whole local module. "dynamic", a whole local
    module by a computed name. "script", a local module run with -m. "compiled", a local module without Python
    source. "package", code outside the project; name is dotted. "engine", marin's; name is the symbol.
    "missing", a local module has no such name or no such source. "unbound", nothing binds the name.
    used: the number of attributes of the reference that were followed.
    """

    kind: Kind
    module: Module | None
    name: str
    used: int = 0
    installed: bool = True

    @property
    def unit(self) -> Key | None:
        return Key(self.module, self.name) if self.kind == "unit" and self.module is not None else None


class Resolver:
    """Modules parsed once, for its lifetime: it fingerprints the source as first read."""

    def __init__(self) -> None:
        self.locator = Locator()
        self._sources = SourceCache()
        self._modules: dict[Path, Module] = {}
        self._loaded: dict[tuple[Target, Path], tuple[Module, ...]] = {}
        self._definitions: dict[tuple[Module, str, tuple[str, ...], Target | None], list[Definition]] = {}

    def module(self, path: Path) -> Module:
        """Return a parsed module. Raises ExperimentError for a file that Python could not import either."""
        if path not in self._modules:
            name = self.locator.name_of(path)
            if path.suffix != ".py":  # a namespace folder, or compiled
                self._modules[path] = Module(name, path)
                return self._modules[path]
            try:
                source = self._sources.read(path, name)
            except (SyntaxError, ValueError, OSError) as error:
                line = f":{error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
                raise ExperimentError(
                    f"{path}{line}: a step's code leads here, but it cannot be read: {error}; fix it and try again"
                ) from error
            self._modules[path] = Module(name, path, source)
        return self._modules[path]

    def loaded(self, target: Target, importer: Module) -> tuple[Module, ...]:
        """Return the local modules that Python executes for one import, parents first."""
        key = (target, importer.folder)
        if key not in self._loaded:
            names = target.module.split(".")
            paths = [self.locator.find(".".join(names[: end + 1]), importer.folder) for end in range(len(names))]
            if target.symbol and isinstance(paths[-1], Path):
                paths.append(self.locator.submodule(paths[-1], target.symbol) or "absent")
            self._loaded[key] = tuple(self.module(path) for path in paths if isinstance(path, Path))
        return self._loaded[key]

    def whole(self, module: Module, seen: set[Module] | None = None) -> Iterator[Definition]:
        """Yield everything that a module offers by any name: its own names, its imports, and the imports' names."""
        seen = {module} if seen is None else seen
        if is_engine(module.name):
            return
        yield from (_unit(module, name, 0) for name in module.source.bindings if name != "__doc__")
        named = [target for name, held in module.source.imports.items() if name != STAR for _, target in held]
        for target in [*named, *map(Target, _stars(module))]:
            for found in self._follow(target, module, (), 0, set()):
                if found.kind == "module" and found.module is not None:
                    if found.module not in seen:
                        seen.add(found.module)
                        yield from self.whole(found.module, seen)
                elif found.kind != "missing":
                    yield found

    def definitions(self, reference: Reference, module: Module) -> list[Definition]:
        """Return every definition that the reference may mean.

        Builtins have none, and neither have names that Python gives to each module or class (``__file__``).
        """
        key = (module, reference.name, reference.attributes, reference.start)
        if key not in self._definitions:
            self._definitions[key] = self._find(reference, module)
        return self._definitions[key]

    def _find(self, reference: Reference, module: Module) -> list[Definition]:
        if reference.start is not None:
            return self._follow(reference.start, module, reference.attributes, 0, set())
        name = reference.name
        found = self._named(module, name, reference.attributes, 0, set())
        known = name in _BUILTINS or name in module.source.imports or _is_given(name)
        return found if found or known else self._unbound(module, name)

    def _unbound(self, module: Module, name: str) -> list[Definition]:
        places = {star: self.locator.find(star, module.folder) for star in _stars(module)}
        elsewhere = {star: place for star, place in places.items() if not isinstance(place, Path)}
        if elsewhere:
            return [
                Definition("package", None, f"{star}.{name}", installed=place == "external")
                for star, place in elsewhere.items()
                if place != "stdlib"
            ]
        return [Definition("dynamic" if module.source.conjures else "unbound", module, name)]

    def _named(
        self, module: Module, name: str, attributes: tuple[str, ...], used: int, seen: set[tuple[Path, str]]
    ) -> list[Definition]:
        """Follow a top-level name of a local module. If several statements bind the name, the last one wins."""
        if (module.path, name) in seen:
            return []
        seen = seen | {(module.path, name)}
        source = module.source
        found: list[tuple[int, list[Definition]]] = []
        if name in source.bindings:
            found.append((source.bindings[name][-1][0], [_unit(module, name, used)]))
        for line, target in source.imports.get(name, ()):
            found.append((line, self._follow(target, module, attributes, used, seen)))
        for line, target in source.imports.get(STAR, ()):
            found.append((line, self._of_star(target.module, module, name, attributes, used, seen)))
        return [each for _, some in sorted(found, key=lambda bound: bound[0]) for each in some]

    def _of_star(
        self, star: str, module: Module, name: str, attributes: tuple[str, ...], used: int, seen: set[tuple[Path, str]]
    ) -> list[Definition]:
        where = self.locator.find(star, module.folder)
        if not isinstance(where, Path):
            return []
        other = self.module(where)
        held = other.source
        if is_engine(other.name):
            return [Definition("engine", other, name, used)] if name in held.bindings or name in held.imports else []
        offered = (
            name in held.exports if held.exports is not None else "__all__" in held.bindings or not name.startswith("_")
        )
        return self._named(other, name, attributes, used, seen) if offered else []

    def _follow(
        self,
        target: Target,
        importer: Module,
        attributes: tuple[str, ...],
        used: int,
        seen: set[tuple[Path, str]],
    ) -> list[Definition]:
        where = self.locator.find(target.module, importer.folder)
        if not isinstance(where, Path):
            dotted = ".".join(filter(None, target))
            if where == "absent":
                return [Definition("missing", importer, dotted, used)]
            kind = "stdlib" if where == "stdlib" else "package"
            return [Definition(kind, None, dotted, used, where != "nowhere")]
        module = self.module(where)
        if not target.symbol:
            return self._attributes(module, attributes, used, seen)
        return self._attributes(module, (target.symbol, *attributes), used - 1, seen)

    def _attributes(
        self, module: Module, attributes: tuple[str, ...], used: int, seen: set[tuple[Path, str]]
    ) -> list[Definition]:
        """Follow ``module.a.b.c``."""
        if is_engine(module.name):
            return [Definition("engine", module, attributes[0] if attributes else "", used + bool(attributes))]
        if module.path.suffix in COMPILED:
            return [Definition("compiled", module, "", used + len(attributes))]
        if not attributes:
            return [Definition("module", module, "", used)]
        name, *rest = attributes
        if name in (ANY, "__dict__") or name.startswith(FIELD):
            return [Definition("dynamic", module, name, used)]
        if name == SCRIPT:
            return [Definition("script", module, "", used)]
        found = self._named(module, name, tuple(rest), used + 1, seen)
        if found:
            return found
        below = self.locator.submodule(module.path, name)
        if below is not None:
            return self._attributes(self.module(below), tuple(rest), used + 1, seen)
        if _is_given(name):
            return []
        if "__getattr__" in module.source.bindings:
            return [_unit(module, "__getattr__", used + 1)]
        if module.source.conjures:
            return [Definition("dynamic", module, "", used)]
        return [Definition("missing", module, name, used + 1)]


def _stars(module: Module) -> list[str]:
    return [target.module for _, target in module.source.imports.get(STAR, ())]


def _is_given(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _unit(module: Module, name: str, used: int) -> Definition:
    return Definition("engine" if is_engine(module.name) else "unit", module, name, used)
