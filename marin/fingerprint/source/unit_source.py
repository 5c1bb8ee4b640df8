"""Read the source of one unit before any name in it is resolved: a function of one file's text alone."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator

from marin.fingerprint.origin import is_engine
from marin.fingerprint.source.bindings import CONTAINERS, FUNCTIONS, branches, defaults, holds_container, leaves, plain
from marin.fingerprint.source.keeping import keeping
from marin.fingerprint.source.module import (
    ANYTHING,
    AS_SCRIPT,
    ON_IMPORT,
    Annotation,
    Keeping,
    Reference,
    Trait,
    UnitSource,
)
from marin.fingerprint.source.names import Reader
from marin.fingerprint.source.normalize import normalise
from marin.fingerprint.source.syntax import Syntax

_ASKS = frozenset({"get", "setdefault", "pop", "__getitem__", "__contains__"})
_MAPPING = frozenset({"os.environ", "environ", "os.environb"})
_GETTERS = frozenset({"os.getenv", "getenv", "os.getenvb"})
_EXPANDERS = frozenset({"os.path.expandvars", "expandvars"})
_VARIABLE = re.compile(r"\$\{?(\w+)")
_ENVIRONMENT = re.compile("env|expandvars")


# Functions that show the docstring, annotations or source of a function or class to the code that calls them.
_BY_IMPORT = {
    Trait.READS_ANNOTATIONS: {
        "typing.get_type_hints",
        "typing_extensions.get_type_hints",
        "inspect.Signature.from_callable",
        *(f"inspect.{name}" for name in ("signature", "getfullargspec", "get_annotations", "getargspec")),
    },
    Trait.READS_DOCS: {"inspect.getdoc", "pydoc.getdoc", "pydoc.render_doc", "doctest.testmod"},
    Trait.READS_SOURCE: {
        "linecache.getlines",
        *(f"inspect.{name}" for name in ("getsource", "getsourcelines", "findsource", "getcomments")),
    },
    Trait.DISPATCHES: {"functools.singledispatch", "functools.singledispatchmethod"},
}
_BY_ATTRIBUTE = {
    Trait.CALLS_RUN: "run",
    Trait.READS_DOCS: "__doc__",
    Trait.READS_SOURCE: "__code__",
    Trait.LISTS_SUBCLASSES: "__subclasses__",
}
# By these names annotations, and what follows from them, are looked up: as attributes, keys or strings.
_ANNOTATIONS = ("__annotations__", "__annotate__", "__type_params__", "__required_keys__", "__optional_keys__")
_BY_WORD = {
    Trait.READS_ANNOTATIONS: _ANNOTATIONS,
    Trait.HOOKS: ("def __init_subclass__", "metaclass="),
    Trait.REGISTERS: ("register",),
}


def read_unit(module: Syntax, name: str) -> UnitSource:
    """Return the source of one of the module's bindings, or of ON_IMPORT or AS_SCRIPT; empty for any other name."""
    statements = normalise(_statements(module, name), module)
    reader = Reader(module)
    reader.read(statements)
    text = ast.unparse(ast.Module(statements, []))
    binds = name not in (ON_IMPORT, AS_SCRIPT)
    return UnitSource(
        text="\n".join([text, *_order(module, name, reader)]) if text else "",
        references=tuple(reader.references),
        loads=tuple(reader.loads),
        notes=tuple(reader.notes),
        methods=frozenset(reader.methods),
        annotations=tuple(_annotation(*each) for each in reader.annotated),
        docs=tuple(reader.docs),
        traits=_traits(statements, text, reader, binds=binds),
        environment=_asked_for(statements, reader) if _may_ask(text, module) else (),
        keeping=keeping(name, module) if binds else Keeping(),
    )


def _may_ask(text: str, module: Syntax) -> bool:
    """Return whether text may read an environment variable, also after ``from os import getenv as get``."""
    targets = (target for each in module.imports.values() for target in each if target.module == "os")
    return _ENVIRONMENT.search(text) is not None or any(_ENVIRONMENT.search(target.symbol) for target in targets)


def _statements(module: Syntax, name: str) -> list[ast.stmt]:
    if name == AS_SCRIPT:
        return list(module.script)
    if name == ON_IMPORT:
        return [node for node in module.effects if not _only_calls_engine(node, module)]
    return list(module.bindings.get(name, ()))


def _only_calls_engine(node: ast.stmt, module: Syntax) -> bool:
    """Return whether a statement only calls the engine, as an experiment's ``executor_main(build)`` does."""
    if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
        return False
    return is_engine(module.dotted(node.value.func).rpartition(".")[0])


def _order(module: Syntax, name: str, reader: Reader) -> list[str]:
    """Return lines for statements whose order matters: one on import may run between two changes of its operands."""
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
    """Return an annotation with its names. A string annotation is parsed as code."""
    names: list[Reference] = []
    parts = list(ast.walk(plain(node)))
    for part in parts:
        if isinstance(part, ast.Constant) and (inner := plain(part)) is not part:
            parts += ast.walk(inner)
        elif isinstance(part, ast.Name):
            names.append(Reference(part.id, (), None, "", part.lineno))
    return Annotation(f"{label}: {ast.unparse(plain(node))}", tuple(names), of_field)


def _traits(statements: list[ast.stmt], text: str, reader: Reader, *, binds: bool) -> frozenset[Trait]:
    """Return the traits of statements. binds: whether a name stands for the statements."""
    imported = _imported_names(reader)
    attributes = reader.methods.union(*(reference.attributes for reference in reader.references))
    found = {trait for trait, names in _BY_IMPORT.items() if not imported.isdisjoint(names)}
    found |= {trait for trait, name in _BY_ATTRIBUTE.items() if name in attributes}
    found |= {trait for trait, words in _BY_WORD.items() if any(word in text for word in words)}
    if ("fields" in text and ".type" in text) or ("dataclasses.fields" in imported and "'type'" in text):
        found.add(Trait.READS_ANNOTATIONS)
    if any(isinstance(inner, ast.ClassDef) for node in statements for inner in leaves(node)):
        found.add(Trait.CLASS)
    if binds and any(map(_can_change, statements)):
        found.add(Trait.STATE)
    if binds and any(map(_holds_result, statements)):
        found.add(Trait.HOLDS_RESULT)
    return frozenset(found)


def _imported_names(reader: Reader) -> set[str]:
    """Return the dotted names of other modules that are used, under any name: "inspect.signature"."""
    found: set[str] = set()
    for reference in reader.references:
        imports = reader.module.imports.get(reference.name, ())
        starts = [".".join(filter(None, target)) for target in ([reference.start] if reference.start else imports)]
        for start in starts or [f"{star}.{reference.name}" for star in reader.module.stars]:
            found.update(".".join([start, *reference.attributes[:end]]) for end in range(3))
    return found


def _can_change(node: ast.stmt) -> bool:
    """Return whether a statement makes a variable, class attribute or default argument that can change later.

    A logger does not count.
    """
    if isinstance(node, FUNCTIONS):
        return any(map(holds_container, defaults(node.args)))
    if isinstance(node, ast.ClassDef):
        values = [
            getattr(inner, "value", None) for inner in node.body if isinstance(inner, (ast.Assign, ast.AnnAssign))
        ]
        return any(value is not None and holds_container(value) for value in values)
    if isinstance(node, (ast.Assign, ast.AugAssign)):
        called = ast.unparse(node.value.func) if isinstance(node.value, ast.Call) else ""
        if called in ("logging.getLogger", "getLogger"):
            return False
        return any(isinstance(inner, (*CONTAINERS, ast.Call)) for inner in ast.walk(node.value))
    return any(_can_change(inner) for body in branches(node) for inner in body)


def _holds_result(node: ast.stmt) -> bool:
    """Return whether a class attribute or a default argument is the result of a call."""
    given = (each for inner in ast.walk(node) if isinstance(inner, FUNCTIONS) for each in defaults(inner.args))
    held = [inner.value for inner in getattr(node, "body", ()) if isinstance(inner, ast.Assign)]
    return any(isinstance(inner, ast.Call) for value in (*given, *held) for inner in ast.walk(value))


def _asked_for(statements: list[ast.stmt], reader: Reader) -> tuple[str, ...]:
    """Return the names of variables, with ``*`` for a computed name or for all variables."""
    found: dict[str, None] = {}
    known: set[ast.expr] = set()
    nodes = [node for statement in statements for node in ast.walk(statement)]
    for node in nodes:
        if isinstance(node, ast.Call) and node.args and reader.dotted(node.func) in _EXPANDERS:
            text = reader.text_of(node.args[0])
            found |= dict.fromkeys([ANYTHING] if text is None else _VARIABLE.findall(text))
        for mapping, name in _uses(node, reader.dotted):
            known.add(mapping)
            if name is not None:
                found[reader.text_of(name) or ANYTHING] = None
    for node in nodes:
        if isinstance(node, (ast.Name, ast.Attribute)) and node not in known and reader.dotted(node) in _MAPPING:
            found[ANYTHING] = None
    return tuple(found)


def _uses(node: ast.AST, dotted: Callable[[ast.expr], str]) -> Iterator[tuple[ast.expr, ast.expr | None]]:
    """Return the mapping or the called function, and the name that is asked for; None if a name is set."""
    match node:
        case ast.Call(func=func, args=[name, *_]) if dotted(func) in _GETTERS:
            yield func, name
        case ast.Call(func=ast.Attribute(value=mapping, attr=way), args=[name, *_]) if (
            way in _ASKS and dotted(mapping) in _MAPPING
        ):
            yield mapping, name
        case ast.Subscript(value=mapping, slice=name, ctx=context) if dotted(mapping) in _MAPPING:
            yield mapping, name if isinstance(context, ast.Load) else None
        case ast.Compare(left=name, ops=[ast.In() | ast.NotIn()], comparators=[mapping]) if dotted(mapping) in _MAPPING:
            yield mapping, name
        case _:
            return
