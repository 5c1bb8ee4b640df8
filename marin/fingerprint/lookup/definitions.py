"""Follow a name through imports and re-exports to the statement that defines it."""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from marin.errors import ExperimentError
from marin.fingerprint.lookup.import_path import COMPILED, Locator
from marin.fingerprint.origin import is_engine
from marin.fingerprint.source.module import Module, Target, parse
from marin.fingerprint.source.names import ANY, FIELD, SCRIPT, Reference

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
        self._modules: dict[Path, Module] = {}

    def module(self, path: Path) -> Module:
        """Return a parsed module. Raises ExperimentError for a file that Python could not import either."""
        if path not in self._modules:
            name = self.locator.name_of(path)
            if path.suffix != ".py":  # a namespace folder, or compiled
                is_folder = path.is_dir()
                self._modules[path] = Module(name, path, name if is_folder else name.rpartition(".")[0])
                return self._modules[path]
            try:
                parsed = parse(path.read_bytes(), name, path, is_package=path.name == "__init__.py")
            except (SyntaxError, ValueError, OSError) as error:
                line = f":{error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
                raise ExperimentError(
                    f"{path}{line}: a step's code leads here, but it cannot be read: {error}; fix it and try again"
                ) from error
            self._modules[path] = parsed
        return self._modules[path]

    def loaded(self, target: Target, importer: Module) -> Iterator[Module]:
        """Return the local modules that Python executes for one import, parents first."""
        names = target.module.split(".")
        paths = [self.locator.find(".".join(names[: end + 1]), importer.path) for end in range(len(names))]
        if target.symbol and isinstance(paths[-1], Path):
            paths.append(self.locator.submodule(paths[-1], target.symbol) or "absent")
        for path in paths:
            if isinstance(path, Path):
                yield self.module(path)

    def whole(self, module: Module, seen: set[Module] | None = None) -> Iterator[Definition]:
        """Yield everything that a module offers by any name: its own names, its imports, and the imports' names."""
        seen = {module} if seen is None else seen
        if is_engine(module.name):
            return
        yield from (_unit(module, name, 0) for name in module.bindings if name != "__doc__")
        targets = [target for held in module.imports.values() for target in held]
        for target in [*targets, *map(Target, module.stars)]:
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
        if reference.start is not None:
            return self._follow(reference.start, module, reference.attributes, 0, set())
        name = reference.name
        found = self._named(module, name, reference.attributes, 0, set())
        known = name in _BUILTINS or name in module.imports or _is_given(name)
        return found if found or known else self._unbound(module, name)

    def _unbound(self, module: Module, name: str) -> list[Definition]:
        places = {star: self.locator.find(star, module.path) for star in module.stars}
        elsewhere = {star: place for star, place in places.items() if not isinstance(place, Path)}
        if elsewhere:
            return [
                Definition("package", None, f"{star}.{name}", installed=place == "external")
                for star, place in elsewhere.items()
                if place != "stdlib"
            ]
        return [Definition("dynamic" if module.conjures else "unbound", module, name)]

    def _named(
        self, module: Module, name: str, attributes: tuple[str, ...], used: int, seen: set[tuple[Path, str]]
    ) -> list[Definition]:
        """Follow a top-level name of a local module. If several statements bind the name, the last one wins."""
        if (module.path, name) in seen:
            return []
        seen = seen | {(module.path, name)}
        found: list[tuple[int, list[Definition]]] = []
        if name in module.bindings:
            found.append((module.bindings[name][-1].lineno, [_unit(module, name, used)]))
        for each in module.imported if name in module.imports or module.stars else ():
            for bound, target in each.binds:
                if bound == name:
                    found.append((each.lines.start, self._follow(target, module, attributes, used, seen)))
                elif bound == "*":
                    found.append((each.lines.start, self._of_star(target.module, module, name, attributes, used, seen)))
        return [each for _, some in sorted(found, key=lambda bound: bound[0]) for each in some]

    def _of_star(
        self, star: str, module: Module, name: str, attributes: tuple[str, ...], used: int, seen: set[tuple[Path, str]]
    ) -> list[Definition]:
        where = self.locator.find(star, module.path)
        if not isinstance(where, Path):
            return []
        other = self.module(where)
        if is_engine(other.name):
            return [Definition("engine", other, name, used)] if name in other.bindings or name in other.imports else []
        exports = other.exports
        offered = name in exports if exports is not None else "__all__" in other.bindings or not name.startswith("_")
        return self._named(other, name, attributes, used, seen) if offered else []

    def _follow(
        self,
        target: Target,
        importer: Module,
        attributes: tuple[str, ...],
        used: int,
        seen: set[tuple[Path, str]],
    ) -> list[Definition]:
        where = self.locator.find(target.module, importer.path)
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
        if "__getattr__" in module.bindings:
            return [_unit(module, "__getattr__", used + 1)]
        if module.conjures:
            return [Definition("dynamic", module, "", used)]
        return [Definition("missing", module, name, used + 1)]


def _is_given(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _unit(module: Module, name: str, used: int) -> Definition:
    return Definition("engine" if is_engine(module.name) else "unit", module, name, used)
