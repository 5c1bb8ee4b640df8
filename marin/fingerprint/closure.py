"""Everything project-local that a piece of code reaches.

A unit is what one top-level name of a module stands for: the statements that bind it. From a unit
the closure goes to every unit that a name in it leads to. Importing a module also runs its other
statements, so for every local module that reached code imports:

- statements that bind nothing (``jax.config.update(...)``, ``FILTERS["x"] = ...``) count, as the
  pseudo-unit ``module.<on import>``, unless they only call the engine;
- a decorated definition, or a class whose base has ``__init_subclass__`` or a metaclass, counts
  when that decorator or base can write to a variable that reached code uses: a registry. A
  decorator without such state registers nothing, and what it decorates counts only if it is reached.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import NamedTuple

from marin.fingerprint.boundary import is_engine
from marin.fingerprint.modules import Module
from marin.fingerprint.normal import normalise
from marin.fingerprint.packages import versions
from marin.fingerprint.references import Reference, annotation_uses, uses
from marin.fingerprint.resolve import Definition, Resolver
from marin.value import digest

ON_IMPORT = "<on import>"
AS_SCRIPT = "<as script>"
_MUTABLE = (ast.Dict, ast.List, ast.Set, ast.Call, ast.ListComp, ast.DictComp, ast.SetComp)
_DIGITS = 24  # hexadecimal: 96 bits are far beyond an accidental collision


class Key(NamedTuple):
    """A unit: a module and one of its top-level names, or ON_IMPORT, or AS_SCRIPT."""

    module: Module
    name: str

    @property
    def qualified(self) -> str:
        return f"{self.module.name}.{self.name}"


@dataclass(frozen=True)
class Unit:
    """text: normalised source, and where imported names lead. leads: the units it uses directly.

    state: a variable that can change after import. hooks: a class whose subclasses are announced to it.
    """

    text: str
    digest: str
    leads: tuple[Key, ...]
    loads: tuple[Module, ...]
    packages: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]
    state: bool
    hooks: bool


@dataclass
class Reach:
    """loaded: local modules that are imported. announced: definitions in them with decorators or bases."""

    units: dict[Key, Unit] = field(default_factory=dict[Key, Unit])
    loaded: dict[Module, None] = field(default_factory=dict[Module, None])
    announced: dict[Key, None] = field(default_factory=dict[Key, None])


class Closures:
    """Computes closures; every unit is analysed once."""

    def __init__(self) -> None:
        self.resolver = Resolver()
        self._units: dict[Key, Unit] = {}
        self._steps: dict[Key, bool] = {}
        self._loads: dict[Module, tuple[Module, ...]] = {}

    def reach(self, roots: list[Key]) -> dict[Key, Unit]:
        """The units that the roots reach, the roots among them."""
        reach = Reach()
        queue = list(roots)
        while queue:
            self._walk(queue, reach)
            queue = self._on_import(reach) or self._registrations(reach)
        return reach.units

    def field_annotations(self, key: Key) -> list[Key]:
        """Local classes named in the annotations of a step class's fields, other steps left out."""
        self.unit(key)
        found: list[Key] = []
        for node in key.module.bindings[key.name]:
            references = annotation_uses(key.module.annotations.get(node, []), key.module)
            for definition in self._definitions(references, key.module):
                if definition.kind == "unit" and definition.module is not None:
                    named = Key(definition.module, definition.name)
                    if _classes(named) and not self._is_step(named):
                        found.append(named)
        return found

    def unit(self, key: Key) -> Unit:
        if key not in self._units:
            self._units[key] = self._analyse(key)
        return self._units[key]

    def _walk(self, queue: list[Key], reach: Reach) -> None:
        while queue:
            key = queue.pop()
            if key in reach.units:
                continue
            unit = reach.units[key] = self.unit(key)
            queue.extend(unit.leads)
            self._load(key.module, reach)
            for module in unit.loads:
                self._load(module, reach)

    def _load(self, module: Module, reach: Reach) -> None:
        """Add a module and all that importing it imports, the engine and everything beyond it left out."""
        pending = [module]
        while pending:
            module = pending.pop()
            if module in reach.loaded or is_engine(module.name):
                continue
            reach.loaded[module] = None
            reach.announced.update((Key(module, name), None) for name in (*module.decorators, *module.bases))
            if module not in self._loads:
                loads = [loaded for target in module.loads for loaded in self.resolver.loaded(target, module)]
                self._loads[module] = tuple(dict.fromkeys(loads))
            pending.extend(self._loads[module])

    def _on_import(self, reach: Reach) -> list[Key]:
        keys = [Key(module, ON_IMPORT) for module in reach.loaded if module.effects]
        return [key for key in keys if key not in reach.units and self.unit(key).text]

    def _registrations(self, reach: Reach) -> list[Key]:
        pending = [key for key in reach.announced if key not in reach.units]
        if not pending:
            return []
        state = {key for key, unit in reach.units.items() if unit.state}
        return [key for key in pending if self._registers(key, state, reach)]

    def _registers(self, key: Key, state: set[Key], reach: Reach) -> bool:
        """Whether defining ``key`` can write to a reached variable, or tell a reached object about it."""
        for reference in annotation_uses(key.module.decorators.get(key.name, []), key.module):
            for found in self.resolver.definitions(reference, key.module):
                if found.kind == "unit" and found.module is not None:
                    by = Key(found.module, found.name)
                    method = len(reference.attributes) > found.used  # TABLE.register, function.register
                    if by in reach.units and (method or self.unit(by).state):
                        return True
                    if not state.isdisjoint(self._everything(by)):
                        return True
        hooked = [base for base in self._ancestors(key, {key}) if self.unit(base).hooks]
        return any(base in reach.units or not state.isdisjoint(self._everything(base)) for base in hooked)

    def _ancestors(self, key: Key, seen: set[Key]) -> set[Key]:
        """The local classes that a class derives from, itself included."""
        for found in self._definitions(annotation_uses(key.module.bases.get(key.name, []), key.module), key.module):
            if found.kind == "unit" and found.module is not None:
                base = Key(found.module, found.name)
                if base not in seen and _classes(base):
                    seen |= self._ancestors(base, seen | {base})
        return seen

    def _everything(self, key: Key) -> set[Key]:
        seen: set[Key] = set()
        queue = [key]
        while queue:
            at = queue.pop()
            if at not in seen:
                seen.add(at)
                queue.extend(self.unit(at).leads)
        return seen

    def _definitions(self, references: list[Reference], module: Module) -> list[Definition]:
        return [found for reference in references for found in self.resolver.definitions(reference, module)]

    def _is_step(self, key: Key) -> bool:
        """Whether a unit is a class that derives from ExecutorStep."""
        if key not in self._steps:
            self._steps[key] = False  # for a class that names itself in its bases
            bases = [base for node in _classes(key) for base in node.bases]
            plain: list[ast.expr] = [base.value if isinstance(base, ast.Subscript) else base for base in bases]
            self._steps[key] = any(
                (found.kind == "engine" and found.name == "ExecutorStep")
                or (found.kind == "unit" and found.module is not None and self._is_step(Key(found.module, found.name)))
                for found in self._definitions(annotation_uses(plain, key.module), key.module)
            )
        return self._steps[key]

    def _statements(self, key: Key) -> list[ast.stmt]:
        if key.name == ON_IMPORT:
            return [node for node in key.module.effects if not self._only_calls_engine(node, key.module)]
        if key.name == AS_SCRIPT:
            return key.module.script
        return key.module.bindings[key.name]

    def _only_calls_engine(self, node: ast.stmt, module: Module) -> bool:
        """``executor_main(EXPERIMENT)`` at the top level of an experiment."""
        if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
            return False
        found = self._definitions(annotation_uses([node.value.func], module), module)
        return bool(found) and all(definition.kind == "engine" for definition in found)

    def _analyse(self, key: Key) -> Unit:
        module = key.module
        statements = normalise(self._statements(key), module)
        used = uses(statements, module)
        leads: dict[Key, None] = {}
        table: dict[str, None] = {}
        packages: dict[tuple[str, str], None] = {}
        notes = [f"{_place(module)}:{line}: {key.name} {what}" for line, what in used.notes]

        for reference in used.references:
            for found in self.resolver.definitions(reference, module):
                chain = ".".join((reference.name, *reference.attributes[: found.used]))
                label = self._label(found)
                # A chain leads somewhere else than it says only through imports.
                if found.module is not module and label != chain:
                    scope = f"{reference.scope}: " if reference.start is not None and reference.scope else ""
                    table[f"{scope}{chain} is {label}"] = None
                self._enter(found, reference, used.calls_run, leads, packages)
                at = f"{_place(module)}:{reference.line}: {key.name}"
                if found.kind == "dynamic":
                    notes.append(f"{at} takes a computed name from {label}; all of it is counted")
                elif found.kind == "missing":
                    notes.append(f"{at} uses {chain}, whose source is not found")

        text = ast.unparse(ast.Module(statements, []))
        if table:
            text += "\n# " + "\n# ".join(table)
        loads = [loaded for target in used.loads for loaded in self.resolver.loaded(target, module)]
        return Unit(
            text=text,
            digest=digest(text.encode())[:_DIGITS],
            leads=tuple(leads),
            loads=tuple(dict.fromkeys(loads)),
            packages=tuple(packages),
            notes=tuple(dict.fromkeys(notes)),
            state=_is_state(statements, key),
            hooks="def __init_subclass__" in text or "metaclass=" in text,
        )

    def _enter(
        self,
        found: Definition,
        reference: Reference,
        calls_run: bool,
        leads: dict[Key, None],
        packages: dict[tuple[str, str], None],
    ) -> None:
        if found.kind == "package":
            packages.update((item, None) for item in versions(found.name.split(".")[0], found.installed).items())
        if found.module is None:
            return
        if found.kind == "unit":
            to = Key(found.module, found.name)
            # Naming another step only builds or recognises it, unless somebody runs it or calls its methods.
            aside = not reference.base and len(reference.attributes) == found.used and not calls_run
            if not (aside and self._is_step(to)):
                leads[to] = None
        elif found.kind in ("module", "dynamic", "script"):
            leads.update((Key(found.module, name), None) for name in found.module.bindings)
            if found.kind == "script":
                leads[Key(found.module, AS_SCRIPT)] = None

    def _label(self, found: Definition) -> str:
        """How a digest names a definition: the engine's inner layout must not show."""
        if found.module is None:
            return found.name
        if found.kind == "engine":
            return f"marin.{found.name}" if found.name else found.module.name
        return Key(found.module, found.name).qualified if found.kind == "unit" else found.module.name


def _place(module: Module) -> str:
    return module.name.replace(".", "/") + (".py" if module.path.name != "__init__.py" else "/__init__.py")


def _classes(key: Key) -> list[ast.ClassDef]:
    return [node for node in key.module.bindings.get(key.name, ()) if isinstance(node, ast.ClassDef)]


def _is_state(statements: list[ast.stmt], key: Key) -> bool:
    """A variable whose value is more than constants. A logger is no state that matters."""
    if key.name in (ON_IMPORT, AS_SCRIPT):
        return False
    for node in statements:
        value = getattr(node, "value", None) if isinstance(node, (ast.Assign, ast.AugAssign)) else None
        if value is None or _is_logger(value):
            continue
        if any(isinstance(inner, _MUTABLE) for inner in ast.walk(value)):
            return True
    return False


def _is_logger(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and ast.unparse(value.func) in ("logging.getLogger", "getLogger")
