"""What the source says about one unit, before any name in it is resolved: a function of one file's text alone."""

from __future__ import annotations

import ast
import re
from typing import NamedTuple

from marin.fingerprint.observation.environment import environment_names
from marin.fingerprint.origin import is_engine
from marin.fingerprint.source.bindings import plain
from marin.fingerprint.source.module import Module, Target
from marin.fingerprint.source.names import Note, Reader, Reference
from marin.fingerprint.source.normalize import normalise
from marin.fingerprint.source.traits import Trait, traits_of

_ENVIRONMENT = re.compile("env|expandvars")
ON_IMPORT = "<on import>"
AS_SCRIPT = "<as script>"


class Annotation(NamedTuple):
    """text: with what it annotates. names: that are in it. of_field: of a class's attribute."""

    text: str
    names: tuple[Reference, ...]
    of_field: bool


class UnitSource(NamedTuple):
    """text: normalised source. annotations, docs: which count where they are read. environment: variables that it
    asks for.
    """

    text: str
    annotations: tuple[Annotation, ...] = ()
    docs: tuple[str, ...] = ()
    references: tuple[Reference, ...] = ()
    loads: tuple[Target, ...] = ()
    notes: tuple[Note, ...] = ()
    methods: frozenset[str] = frozenset()
    traits: Trait = Trait.NONE
    environment: tuple[str, ...] = ()


def analyse(module: Module, name: str) -> UnitSource:
    """One of the module's bindings, or ON_IMPORT, or AS_SCRIPT."""
    statements = normalise(_statements(module, name), module)
    reader = Reader(module)
    for node in statements:
        reader.visit(node)
    text = ast.unparse(ast.Module(statements, []))
    order = _order(module, name, reader)
    return UnitSource(
        text="\n".join([text, *order]) if text else "",
        annotations=tuple(_annotation(*each) for each in reader.annotations),
        docs=tuple(reader.docs),
        references=tuple(reader.references),
        loads=tuple(dict.fromkeys(reader.loads)),
        notes=tuple(dict.fromkeys(reader.notes)),
        methods=frozenset(reader.methods),
        traits=traits_of(statements, text, reader, binds=name not in (ON_IMPORT, AS_SCRIPT)),
        environment=environment_names(statements, reader.dotted, reader.text_of) if _may_ask(text, module) else (),
    )


def _may_ask(text: str, module: Module) -> bool:
    """For a variable; ``from os import getenv as get`` too."""
    targets = (target for each in module.imports.values() for target in each if target.module == "os")
    return _ENVIRONMENT.search(text) is not None or any(_ENVIRONMENT.search(target.symbol) for target in targets)


def _statements(module: Module, name: str) -> list[ast.stmt]:
    if name == AS_SCRIPT:
        return list(module.script)
    if name == ON_IMPORT:
        return [node for node in module.effects if not _only_calls_engine(node, module)]
    return list(module.bindings[name])


def _only_calls_engine(node: ast.stmt, module: Module) -> bool:
    """``executor_main(build)`` at the top level of an experiment."""
    if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
        return False
    return is_engine(module.dotted(node.value.func).rpartition(".")[0])


def _order(module: Module, name: str, reader: Reader) -> list[str]:
    """Where the order of statements matters: a value computed on import between two changes of what it uses."""
    if name == AS_SCRIPT:
        return []
    if name == ON_IMPORT:
        return [
            f"# statement {number} runs after importing {', '.join(before)}"
            for number, node in enumerate(module.effects)
            if "environ" in ast.unparse(node) and (before := module.packages_before(module.places[node]))
        ]
    place = module.places[module.bindings[name][-1]]

    def earlier(statements: list[ast.stmt]) -> int:
        return sum(module.places[each] < place for each in statements)

    used = {ref.name for ref in reader.references if ref.at_import and ref.start is None and ref.name != name}
    lines = [
        f"# {other} as of its statement {earlier(module.bindings[other])}"
        for other in sorted(used)
        if len(module.bindings.get(other, ())) > 1
    ]
    if used and module.effects:
        lines.append(f"# after {earlier(module.effects)} statements that run on import")
    return lines


def _annotation(label: str, node: ast.expr, of_field: bool) -> Annotation:
    """String annotations are taken for what they say."""
    names: list[Reference] = []
    parts = list(ast.walk(plain(node)))
    for part in parts:
        if isinstance(part, ast.Constant) and (inner := plain(part)) is not part:
            parts += ast.walk(inner)
        elif isinstance(part, ast.Name):
            names.append(Reference(part.id, (), None, "", part.lineno))
    return Annotation(f"{label}: {ast.unparse(plain(node))}", tuple(names), of_field)
