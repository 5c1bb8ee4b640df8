"""Where a name leads: through imports and re-exports to the statement that defines it."""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from marin.errors import ExperimentError
from marin.fingerprint.boundary import is_engine
from marin.fingerprint.locate import Locator
from marin.fingerprint.modules import Module, Target, parse
from marin.fingerprint.references import ANY, SCRIPT, Reference

_BUILTINS = frozenset(dir(builtins))


class Definition(NamedTuple):
    """What a reference arrives at.

    unit: a top-level name of a local module. module: a local module as a whole. dynamic: the same,
    by a computed name. script: the same, run with -m. package: outside the project; name is dotted.
    engine: name is the symbol. missing: a local module has no such name, or no such source.
    used: how many attributes of the reference were consumed on the way.
    """

    kind: Literal["unit", "module", "dynamic", "script", "package", "stdlib", "engine", "missing"]
    module: Module | None
    name: str
    used: int = 0
    installed: bool = True


class Resolver:
    """Modules parsed once, for its lifetime: it fingerprints the source as first read."""

    def __init__(self) -> None:
        self.locator = Locator()
        self._modules: dict[Path, Module] = {}

    def module(self, path: Path) -> Module:
        """Raises ExperimentError for a file that Python could not import either."""
        if path not in self._modules:
            name = self.locator.name_of(path)
            is_folder = path.suffix != ".py" and path.is_dir()
            try:
                source = b"" if is_folder else path.read_bytes()
                parsed = parse(source, name, path, is_package=is_folder or path.name == "__init__.py")
            except (SyntaxError, OSError) as error:
                line = f":{error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
                raise ExperimentError(
                    f"{path}{line}: a step's code leads here, but it cannot be read: {error}; fix it and try again"
                ) from error
            self._modules[path] = parsed
        return self._modules[path]

    def loaded(self, target: Target, importer: Module) -> Iterator[Module]:
        """The local modules that Python executes for one import, parents first."""
        names = target.module.split(".")
        paths = [self.locator.find(".".join(names[: n + 1]), importer.path) for n in range(len(names))]
        if target.symbol and isinstance(paths[-1], Path):
            below = self.locator.submodule(paths[-1], target.symbol)
            paths.append(below if below is not None else "nowhere")
        for path in paths:
            if isinstance(path, Path):
                yield self.module(path)

    def definitions(self, reference: Reference, module: Module) -> list[Definition]:
        """Every definition that the reference may mean; none for a builtin or a name that nothing binds."""
        if reference.start is not None:
            return self._follow(reference.start, module, reference.attributes, 0, set())
        found = self._named(module, reference.name, reference.attributes, 0, set())
        if not found and reference.name not in _BUILTINS:
            # Perhaps from a star import of an installed package.
            for star in module.stars:
                where = self.locator.find(star, module.path)
                if where in ("external", "nowhere"):
                    found.append(Definition("package", None, f"{star}.{reference.name}", installed=where == "external"))
        return found

    def _named(
        self, module: Module, name: str, attributes: tuple[str, ...], used: int, seen: set[tuple[Path, str]]
    ) -> list[Definition]:
        """A top-level name of a local module."""
        if (module.path, name) in seen:
            return []
        seen = seen | {(module.path, name)}
        found: list[Definition] = []
        if name in module.bindings:
            found.append(_unit(module, name, used))
        for target in module.imports.get(name, ()):
            found += self._follow(target, module, attributes, used, seen)
        if not found:
            for star in module.stars:
                where = self.locator.find(star, module.path)
                if isinstance(where, Path):
                    other = self.module(where)
                    exports = other.exports
                    if name in exports if exports is not None else not name.startswith("_"):
                        found += self._named(other, name, attributes, used, seen)
        return found

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
        """``module.a.b.c``."""
        if is_engine(module.name):
            return [Definition("engine", module, attributes[0] if attributes else "", used + bool(attributes))]
        if not attributes:
            return [Definition("module", module, "", used)]
        name, *rest = attributes
        if name == ANY or name == "__dict__":
            return [Definition("dynamic", module, "", used)]
        if name == SCRIPT:
            return [Definition("script", module, "", used)]
        found = self._named(module, name, tuple(rest), used + 1, seen)
        if found:
            return found
        below = self.locator.submodule(module.path, name)
        if below is not None:
            return self._attributes(self.module(below), tuple(rest), used + 1, seen)
        if name.startswith("__") and name.endswith("__"):
            return []
        if "__getattr__" in module.bindings:
            return [_unit(module, "__getattr__", used + 1)]
        return [Definition("missing", module, name, used + 1)]


def _unit(module: Module, name: str, used: int) -> Definition:
    return Definition("engine" if is_engine(module.name, name) else "unit", module, name, used)
