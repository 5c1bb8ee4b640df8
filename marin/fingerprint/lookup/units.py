"""Units: the code that a top-level name stands for, with every name in it resolved to the definition that it means."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct, field

from marin.errors import ExperimentError
from marin.fingerprint.lookup.definitions import CONTENT, Definition, Key, Resolver
from marin.fingerprint.lookup.import_path import versions
from marin.fingerprint.source.module import (
    AS_SCRIPT,
    FIELD,
    Annotation,
    Announcement,
    Chain,
    Module,
    Reference,
    Role,
    Trait,
    UnitSource,
)

SHOWN = 64 << 10  # larger files are known by their checksum alone
_EMPTY = UnitSource()
_NO_VALUES: Mapping[str, str] = {}
HERE = "bound here"  # the target of a name that its module both binds and imports

# Packages that build on annotations and docstrings wherever they find them.
READERS = frozenset(
    """
    apischema attr attrs beartype cattr cattrs dacite dataclasses_json draccus dspy fastapi fire hydra instructor
    jsonargparse langchain langchain_core mashumaro marshmallow marshmallow_dataclass msgspec omegaconf pandera plum
    pydantic pydantic_settings simple_parsing sqlmodel strawberry tyro typeguard typer
    """.split()  # noqa: SIM905
)
# Packages whose base classes and decorators ask at most whether an attribute is annotated.
INDIFFERENT = frozenset(
    """
    datatrove equinox flax haliax jax joblib levanter lm_eval matplotlib networkx numba numpy optax pytest ray scipy
    tokenizers torch tqdm transformers
    """.split()  # noqa: SIM905
)
# Packages whose C, C++ or Rust code opens files itself, which Python does not hear.
READ_WITHOUT_PYTHON = frozenset(
    """
    deltalake duckdb h5py lance lancedb netCDF4 polars pyarrow safetensors sentencepiece tables tensorflow tokenizers
    zarr
    """.split()  # noqa: SIM905
)


class Unit(Struct):
    """The code of a top-level name, with its names resolved.

    text: normalised source, and where imported names lead.
    leads: the units it uses directly.
    handed: classes given to calls that may look into them.
    loads: modules that it imports.
    packages: versions by distribution. tops: the modules of these packages.
    inspected: a base or decorator of a package may read its annotations and docstrings.
    notes: code that the analysis does not see, or covers only by counting much.
    """

    text: str
    piece: UnitSource
    leads: dict[Key, None] = field(default_factory=dict[Key, None])
    handed: dict[Key, None] = field(default_factory=dict[Key, None])
    loads: dict[Module, None] = field(default_factory=dict[Module, None])
    packages: dict[str, str] = field(default_factory=dict[str, str])
    tops: set[str] = field(default_factory=set[str])
    notes: dict[str, None] = field(default_factory=dict[str, None])
    inspected: bool = False


class Units:
    """A maker of units that analyses each once."""

    def __init__(self) -> None:
        self.resolver = Resolver()
        self._units: dict[Key, Unit] = {}
        self._steps: dict[Key, bool] = {}
        self.chain = functools.cache(self._of_chain)
        self.is_ours = functools.cache(self._is_ours)
        self._files: dict[Path, Module] = {}
        self._everything: dict[Key, frozenset[Key]] = {}
        self._ancestors: dict[Key, frozenset[Key]] = {}

    def __getitem__(self, key: Key) -> Unit:
        if key not in self._units:
            self._units[key] = _file_unit(key.module) if key.name == CONTENT else self._resolved(key)
        return self._units[key]

    def named(self, key: Key, values: Mapping[str, str]) -> Unit:
        """Return a unit that takes names from fields (``getattr(module, self.rule)``), with the values of these."""
        return self._resolved(key, values)

    def asked_fields(self, key: Key) -> set[str]:
        """Return the fields of ``self`` whose values a unit uses as names."""
        attributes = (each for reference in self.piece(key).references for each in reference.attributes)
        return {each.removeprefix(FIELD) for each in attributes if each.startswith(FIELD)}

    def piece(self, key: Key) -> UnitSource:
        """Return the source of a unit; empty for a name that its module does not bind."""
        held = key.module.source
        if key.name in held.bindings and key.name not in held.units:
            raise ExperimentError(f"{key.module.path}: {key.name} is nested too deeply to be read; split it up")
        return held.units.get(key.name, _EMPTY)

    def is_step(self, key: Key) -> bool:
        """Return whether a unit is a class that derives from ExecutorStep."""
        if key not in self._steps:
            self._steps[key] = False  # for a class that names itself in its bases
            self._steps[key] = any(
                (found.kind == "engine" and found.name == "ExecutorStep")
                or (found.unit is not None and self.is_step(found.unit))
                for found in self.bases(key)
            )
        return self._steps[key]

    def _is_ours(self, key: Key) -> bool:
        """Return whether a class is a step or a ``@value``, whose fields the engine defines."""
        decorators = key.module.source.announced.get(key.name, Announcement()).decorators
        marks = (found for chain in decorators for found in self.chain(chain, key.module))
        return self.is_step(key) or any(found.kind == "engine" and found.name == "value" for found in marks)

    def bases(self, key: Key) -> list[Definition]:
        bases = key.module.source.announced.get(key.name, Announcement()).bases
        return [found for chain in bases for found in self.chain(chain, key.module)]

    def ancestors(self, key: Key) -> frozenset[Key]:
        """Return a class and the local classes that it derives from."""
        if key not in self._ancestors:
            self._ancestors[key] = frozenset({key})  # for a class that names itself in its bases
            found = (self.ancestors(base.unit) for base in self.bases(key) if base.unit is not None)
            self._ancestors[key] = frozenset({key}).union(*found)
        return self._ancestors[key]

    def _of_chain(self, chain: Chain, module: Module) -> list[Definition]:
        """Return the definitions that ``a.b.c`` at the top level of a module means."""
        return self.resolver.definitions(Reference(chain[0], chain[1:], None, "", 0), module)

    def classes(self, annotations: Iterable[Annotation], module: Module) -> Iterator[Key]:
        """Yield the local classes that annotations name, without steps."""
        for reference in (name for each in annotations for name in each.names):
            for found in self.resolver.definitions(reference, module):
                key = found.unit
                if key is not None and Trait.CLASS in self.piece(key).traits and not self.is_step(key):
                    yield key

    def everything(self, key: Key) -> frozenset[Key]:
        """Return a unit and all units that it leads to."""
        if key not in self._everything:
            seen: set[Key] = set()
            queue = [key]
            while queue:
                at = queue.pop()
                if at not in seen:
                    seen.add(at)
                    queue.extend(self[at].leads)
            self._everything[key] = frozenset(seen)
        return self._everything[key]

    def file(self, path: Path) -> Key:
        """Return the unit of a whole file: a compiled module, or source that code looks into."""
        if path not in self._files:
            self._files[path] = Module(self.resolver.locator.place_of(path).as_posix(), path)
        return Key(self._files[path], CONTENT)

    def _resolved(self, key: Key, values: Mapping[str, str] = _NO_VALUES) -> Unit:
        piece, module = self.piece(key), key.module
        unit = Unit(piece.text, piece)
        for line, what in piece.notes:
            _note(unit, key, line, what)
        labels: dict[str, None] = {}
        for written in piece.references:
            reference = _with_values(written, values) if values else written
            definitions = self.resolver.definitions(reference, module)
            for found in definitions:
                self._use(unit, key, reference, found)
                if label := _label(reference, found, module, alone=len(definitions) == 1):
                    labels[label] = None
        for target in piece.loads:
            unit.loads.update(dict.fromkeys(self.resolver.loaded(target, module)))
        unit.text = "\n# ".join([piece.text, *labels])
        return unit

    def _use(self, unit: Unit, key: Key, reference: Reference, found: Definition) -> None:
        chain, whole = _chain(reference, found), len(reference.attributes) == found.used
        if found.kind == "dynamic":
            _note(unit, key, reference.line, f"takes a computed name from {_named(found)}; all of it is counted")
        elif found.kind == "missing":
            _note(unit, key, reference.line, f"uses {chain}, whose source is not found")
        elif found.kind == "unbound":
            _note(unit, key, reference.line, f"uses {chain}, which nothing in {key.module.name} binds")
        elif found.kind == "package" and reference.role in (Role.BASE, Role.DECORATOR):
            unit.inspected |= found.name.split(".")[0] not in INDIFFERENT
        elif found.unit is not None and reference.role is Role.DECORATOR:
            unit.inspected |= not whole  # show.register, which reads annotations
        elif found.unit is not None and reference.role is Role.ARGUMENT and whole:
            unit.handed[found.unit] = None
        aside = reference.role is not Role.BASE and whole and Trait.CALLS_RUN not in unit.piece.traits
        self._enter(unit, found, aside=aside)

    def _enter(self, unit: Unit, found: Definition, *, aside: bool) -> None:
        """Enter a definition that a unit uses. aside: the unit only builds or recognises another step's class."""
        if found.kind == "package":
            top = found.name.split(".")[0]
            unit.tops.add(top)
            unit.packages |= versions(top, found.installed)
        if found.module is None:
            return
        if found.unit is not None:
            if not (aside and self.is_step(found.unit)):
                unit.leads[found.unit] = None
        elif found.kind == "compiled":
            unit.leads[self.file(found.module.path)] = None
        elif found.kind in ("module", "dynamic", "script"):
            unit.loads[found.module] = None
            for each in self.resolver.whole(found.module):
                self._enter(unit, each, aside=True)
            if found.kind == "script":
                unit.leads[Key(found.module, AS_SCRIPT)] = None


def _with_values(reference: Reference, values: Mapping[str, str]) -> Reference:
    """Return a reference with the fields that name an attribute replaced by their values."""
    named = {f"{FIELD}{field}": value for field, value in values.items()}
    return reference._replace(attributes=tuple(named.get(each, each) for each in reference.attributes))


def _file_unit(module: Module) -> Unit:
    try:
        held = module.path.read_bytes()
    except OSError:
        held = b"not there"
    try:
        text = (held.decode() or "empty") if len(held) <= SHOWN else ""
    except UnicodeDecodeError:
        text = ""
    text = text or f"{len(held)} bytes, sha256 {hashlib.sha256(held).hexdigest()}"
    return Unit(text, _EMPTY)


def _note(unit: Unit, key: Key, line: int, what: str) -> None:
    unit.notes[f"{_place(key.module)}:{line}: {key.name} {what}"] = None


def _chain(reference: Reference, found: Definition) -> str:
    """Return the part of a reference that led to the definition."""
    return ".".join((reference.name, *reference.attributes[: found.used]))


def _label(reference: Reference, found: Definition, module: Module, *, alone: bool) -> str:
    """Return the target of a chain if an import leads it elsewhere, because the target then counts too; else "".

    alone: whether nothing else binds the name, before or after.
    """
    chain, target = _chain(reference, found), _named(found)
    if found.module is module or target == chain:
        return "" if alone or found.module is not module else f"{chain} is {HERE}"
    scope = f"{reference.scope}: " if reference.start is not None and reference.scope else ""
    return f"{scope}{chain} is {target}"


def _named(found: Definition) -> str:
    """Return the name of a definition in digests, which must not show the engine's inner layout."""
    if found.module is None:
        return found.name
    if found.kind == "engine":
        return f"marin.{found.name}" if found.name else found.module.name
    return found.unit.qualified if found.unit is not None else found.module.name


def _place(module: Module) -> str:
    return module.name.replace(".", "/") + (".py" if module.path.name != "__init__.py" else "/__init__.py")
