"""Resolves every name in a unit: from what its source says to what it leads to."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from marin.fingerprint.lookup.definitions import Definition, Resolver
from marin.fingerprint.lookup.packages import versions
from marin.fingerprint.lookup.unit import CONTENT, INDIFFERENT, Key, Unit, Weight
from marin.fingerprint.source.module import Chain, Module
from marin.fingerprint.source.references import Trait
from marin.fingerprint.source.scopes import Reference, Role
from marin.fingerprint.source.unit_source import AS_SCRIPT, UnitSource, analyse

SHOWN = 64 << 10  # larger files are known by their checksum alone


class Units:
    """Makes units; each is analysed once."""

    def __init__(self) -> None:
        self.resolver = Resolver()
        self._units: dict[Key, Unit] = {}
        self._pieces: dict[Key, UnitSource] = {}
        self._steps: dict[Key, bool] = {}
        self._files: dict[Path, Module] = {}

    def __getitem__(self, key: Key) -> Unit:
        if key not in self._units:
            self._units[key] = _file_unit(key.module.path) if key.name == CONTENT else _Resolved(self, key).unit()
        return self._units[key]

    def piece(self, key: Key) -> UnitSource:
        if key not in self._pieces:
            self._pieces[key] = analyse(key.module, key.name)
        return self._pieces[key]

    def is_step(self, key: Key) -> bool:
        """Whether a unit is a class that derives from ExecutorStep."""
        if key not in self._steps:
            self._steps[key] = False  # for a class that names itself in its bases
            self._steps[key] = any(
                (found.kind == "engine" and found.name == "ExecutorStep")
                or (found.kind == "unit" and found.module is not None and self.is_step(Key(found.module, found.name)))
                for found in self.bases(key)
            )
        return self._steps[key]

    def is_class(self, key: Key) -> bool:
        return bool(self.piece(key).traits & Trait.CLASS)

    def bases(self, key: Key) -> list[Definition]:
        announced = key.module.announced.get(key.name)
        return [found for chain in (announced.bases if announced else ()) for found in self.chain(chain, key.module)]

    def chain(self, chain: Chain, module: Module) -> list[Definition]:
        """What ``a.b.c`` at the top level of a module means."""
        return self.resolver.definitions(Reference(chain[0], chain[1:], None, "", 0), module)

    def classes(self, references: Iterable[Reference], module: Module) -> Iterator[Key]:
        """The local classes among what the references mean."""
        for reference in references:
            for found in self.resolver.definitions(reference, module):
                if found.kind == "unit" and found.module is not None:
                    key = Key(found.module, found.name)
                    if self.is_class(key):
                        yield key

    def file(self, path: Path) -> Key:
        """The unit of a file as it is: a compiled module, or source that code looks into."""
        if path not in self._files:
            self._files[path] = Module(self.resolver.locator.place_of(path).as_posix(), path, "")
        return Key(self._files[path], CONTENT)


def _file_unit(path: Path) -> Unit:
    try:
        held = path.read_bytes()
    except OSError:
        held = b"not there"
    try:
        text = (held.decode() or "empty") if len(held) <= SHOWN else ""
    except UnicodeDecodeError:
        text = ""
    text = text or f"{len(held)} bytes, sha256 {hashlib.sha256(held).hexdigest()}"
    return Unit(text, UnitSource(text))


class _Resolved:
    """One unit in the making."""

    def __init__(self, units: Units, key: Key) -> None:
        self._units, self._key = units, key
        self._piece = units.piece(key)
        self._leads: dict[Key, None] = {}
        self._handed: dict[Key, None] = {}
        self._labels: dict[str, None] = {}
        self._loads: dict[Module, None] = {}
        self._packages: dict[tuple[str, str], None] = {}
        self._tops: set[str] = set()
        self._notes: dict[tuple[str, Weight], None] = {}
        self._inspected = False

    def unit(self) -> Unit:
        piece, module = self._piece, self._key.module
        for line, what, refused in piece.notes:
            self._note(line, what, refused=refused)
        for reference in piece.references:
            self._reference(reference)
        for text, line in piece.mentions:
            for found in self._units.resolver.find_mention(text, module):
                self._enter(found, aside=False)
                if found.kind == "module":
                    self._note(line, f"names {text} in a string; all of it is counted")
        for target in piece.loads:
            self._loads.update(dict.fromkeys(self._units.resolver.loaded(target, module)))
        text = piece.text
        if self._labels:
            text += "\n# " + "\n# ".join(self._labels)
        return Unit(
            text=text,
            piece=piece,
            leads=tuple(self._leads),
            named=tuple(dict.fromkeys(self._units.classes(piece.named, module))),
            handed=tuple(self._handed),
            loads=tuple(self._loads),
            packages=tuple(self._packages),
            tops=frozenset(self._tops),
            notes=tuple(self._notes),
            inspected=self._inspected,
        )

    def _reference(self, reference: Reference) -> None:
        module = self._key.module
        for found in self._units.resolver.definitions(reference, module):
            self._label(reference, found)
            self._judge(reference, found)
            aside = (
                reference.role is not Role.BASE
                and len(reference.attributes) == found.used
                and not self._piece.traits & Trait.CALLS_RUN
            )
            self._enter(found, aside=aside)
            if found.kind == "unit" and found.module is not None:
                key = Key(found.module, found.name)
                if reference.role is Role.ARGUMENT and len(reference.attributes) == found.used:
                    self._handed[key] = None

    def _enter(self, found: Definition, *, aside: bool) -> None:
        """aside: another step's class is only built or recognised, not run."""
        if found.kind == "package":
            top = found.name.split(".")[0]
            self._tops.add(top)
            self._packages.update((item, None) for item in versions(top, found.installed).items())
        if found.module is None:
            return
        if found.kind == "unit":
            to = Key(found.module, found.name)
            if not (aside and self._units.is_step(to)):
                self._leads[to] = None
        elif found.kind == "compiled":
            self._leads[self._units.file(found.module.path)] = None
        elif found.kind in ("module", "dynamic", "script"):
            self._loads[found.module] = None
            for held in self._units.resolver.whole(found.module):
                self._enter(held, aside=True)
            if found.kind == "script":
                self._leads[Key(found.module, AS_SCRIPT)] = None

    def _label(self, reference: Reference, found: Definition) -> None:
        """A chain leads somewhere else than it says only through imports: then that counts too."""
        chain = ".".join((reference.name, *reference.attributes[: found.used]))
        label = _named(found)
        if found.module is not self._key.module and label != chain:
            scope = f"{reference.scope}: " if reference.start is not None and reference.scope else ""
            self._labels[f"{scope}{chain} is {label}"] = None

    def _judge(self, reference: Reference, found: Definition) -> None:
        chain = ".".join((reference.name, *reference.attributes[: found.used]))
        if found.kind == "dynamic":
            self._note(reference.line, f"takes a computed name from {_named(found)}; all of it is counted")
        elif found.kind == "missing":
            what = f"uses {chain}, whose source is not found"
            self._note(reference.line, what, refused=found.sure and not reference.declared)
        elif found.kind == "unbound":
            what = f"uses {chain}, which nothing in {self._key.module.name} binds"
            self._note(reference.line, what, refused=not reference.declared)
        elif found.kind == "package" and reference.role in (Role.BASE, Role.DECORATOR):
            self._inspected |= found.name.split(".")[0] not in INDIFFERENT
        elif reference.role is Role.DECORATOR:
            beyond = len(reference.attributes) > found.used  # show.register, which reads annotations
            self._inspected |= beyond and found.kind == "unit"

    def _note(self, line: int, what: str, *, refused: bool = False) -> None:
        weight = Weight.REFUSED if refused else Weight.NOTED
        self._notes[f"{_place(self._key.module)}:{line}: {self._key.name} {what}", weight] = None


def _named(found: Definition) -> str:
    """How a digest names a definition: the engine's inner layout must not show."""
    if found.module is None:
        return found.name
    if found.kind == "engine":
        return f"marin.{found.name}" if found.name else found.module.name
    return Key(found.module, found.name).qualified if found.kind == "unit" else found.module.name


def _place(module: Module) -> str:
    return module.name.replace(".", "/") + (".py" if module.path.name != "__init__.py" else "/__init__.py")
