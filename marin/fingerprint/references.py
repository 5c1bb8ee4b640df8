"""Which names outside itself a unit of code uses, by Python's scoping rules."""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal, NamedTuple, cast

from marin.fingerprint.modules import Module, Target, bound_names

ANY = "*"  # as an attribute: one that only running the code would tell
SCRIPT = "__main__"  # as an attribute: the module is run with -m

_UNSEEN = {
    "eval": "evaluates a string",
    "exec": "executes a string",
    "compile": "compiles a string",
    "runpy.run_path": "runs a file by path",
    "runpy.run_module": "runs a module by name",
    "importlib.util.spec_from_file_location": "imports a file by path",
    "importlib.metadata.entry_points": "finds code through entry points",
    "pkgutil.iter_modules": "lists modules",
    "pkgutil.walk_packages": "lists modules",
    "pkgutil.get_data": "reads a file beside the code; only code is fingerprinted",
    "importlib.resources.files": "reads files beside the code; only code is fingerprinted",
    "inspect.getsource": "reads source text; comments and docstrings are not in the fingerprint",
    "inspect.getdoc": "reads docstrings; they are not in the fingerprint",
}
_IMPORTERS = {"importlib.import_module", "__import__"}


class Reference(NamedTuple):
    """``name.attributes`` is used. start: where the name leads if the unit imports it itself.

    scope: the function or class in the unit that uses it. base: it is the base of a class.
    """

    name: str
    attributes: tuple[str, ...]
    start: Target | None
    scope: str
    line: int
    base: bool


@dataclass
class Uses:
    """references in source order; loads: modules imported inside functions; notes: (line, what is not seen)."""

    references: list[Reference] = field(default_factory=list[Reference])
    loads: list[Target] = field(default_factory=list[Target])
    notes: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    calls_run: bool = False


@dataclass
class _Scope:
    kind: Literal["function", "class"]
    label: str
    bound: set[str] = field(default_factory=set[str])
    imports: dict[str, list[Target]] = field(default_factory=dict[str, list[Target]])
    outer: set[str] = field(default_factory=set[str])  # declared global


def uses(statements: list[ast.stmt], module: Module) -> Uses:
    """What normalised top-level statements use."""
    walker = _Walker(module)
    for node in statements:
        walker.visit(node)
    return walker.found


def annotation_uses(annotations: list[ast.expr], module: Module) -> list[Reference]:
    """The names in annotations, string annotations included."""
    walker = _Walker(module)
    for node in annotations:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node = ast.parse(node.value, mode="eval").body
        walker.visit(node)
    return walker.found.references


class _Walker:
    def __init__(self, module: Module) -> None:
        self._module = module
        self._scopes: list[_Scope] = []
        self.found = Uses()
        # Any: each method takes the one kind of node that it is entered for.
        self._known: dict[type[ast.AST], Callable[[Any], None]] = {
            ast.Name: self._name,
            ast.Attribute: self._attribute,
            ast.Call: self._call,
            ast.Constant: lambda _: None,
            ast.FunctionDef: self._function,
            ast.AsyncFunctionDef: self._function,
            ast.Lambda: self._function,
            ast.ClassDef: self._class,
            ast.Global: lambda node: self._scopes[-1].outer.update(node.names),  # Python has it stand before any use
            ast.AnnAssign: lambda node: self._children(node.target, node.value),
            **dict.fromkeys((ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp), self._comprehension),
            **dict.fromkeys((ast.List, ast.Tuple), self._sequence),
        }

    def visit(self, node: ast.AST) -> None:
        kind = type(node)
        known = self._known.get(kind)
        if known is not None:
            known(node)
            return
        for name in _fields(kind):
            held = getattr(node, name)
            if type(held) is list:
                for child in cast(list[object], held):
                    if isinstance(child, ast.AST):
                        self.visit(child)
            elif isinstance(held, ast.AST):
                self.visit(held)

    def _children(self, *nodes: ast.AST | None) -> None:
        for node in nodes:
            if node is not None:
                self.visit(node)

    # Names

    def _leads(self, name: str) -> list[Target] | None:
        """Targets of an import in an enclosing function; [] for a local name; None for a global one."""
        for depth, scope in enumerate(reversed(self._scopes)):
            if name in scope.outer:
                return None
            if scope.kind == "class" and depth:
                continue
            if name in scope.imports:
                return scope.imports[name]
            if name in scope.bound and scope.kind == "function":
                return []
        return None

    def _refer(self, node: ast.Name, attributes: tuple[str, ...] = (), *, base: bool = False) -> None:
        scope = self._scopes[-1].label if self._scopes else ""
        leads = self._leads(node.id)
        for target in [None] if leads is None else leads:
            self.found.references.append(Reference(node.id, attributes, target, scope, node.lineno, base))

    def _name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load) or any(node.id in scope.outer for scope in self._scopes):
            self._refer(node)
            if node.id == "__file__":
                self._note(node, "uses __file__; files beside the code are not in the fingerprint")

    def _attribute(self, node: ast.Attribute, *extra: str, base: bool = False) -> None:
        attributes = list(extra)
        inner: ast.expr = node
        while isinstance(inner, ast.Attribute):
            attributes.insert(0, inner.attr)
            inner = inner.value
        if "run" in attributes and not (isinstance(inner, ast.Call) and _plain_name(inner.func) == "super"):
            self.found.calls_run = True
        if "__doc__" in attributes:
            self._note(node, "reads __doc__; docstrings are not in the fingerprint")
        if isinstance(inner, ast.Name):
            self._refer(inner, tuple(attributes), base=base)
        else:
            imported = self._imported_by_call(inner) if isinstance(inner, ast.Call) else None
            if imported is not None:
                self._import_by_name(node, imported, tuple(attributes))
            else:
                self.visit(inner)

    # Calls that analysis must know

    def _dotted(self, func: ast.expr) -> str:
        """What a called expression is, as far as imports tell: "importlib.import_module"; "" if local."""
        attributes: list[str] = []
        while isinstance(func, ast.Attribute):
            attributes.insert(0, func.attr)
            func = func.value
        if not isinstance(func, ast.Name):
            return ""
        leads = self._leads(func.id)
        if leads is None:
            leads = self._module.imports.get(func.id) or []
            if not leads and func.id not in self._module.bindings:
                return ".".join([func.id, *attributes])
        return ".".join([leads[0].module, *filter(None, [leads[0].symbol]), *attributes]) if leads else ""

    def _call(self, node: ast.Call) -> None:
        called = self._dotted(node.func)
        if called in _UNSEEN:
            self._note(node, f"{_UNSEEN[called]} ({called})")
        elif called == "globals":
            self._note(node, "uses globals(); everything in the module is counted")
            self._import_by_name(node, self._module.name, ())
        elif isinstance(node.func, ast.Attribute) and node.func.attr == "__subclasses__":
            self._note(node, "uses __subclasses__(); subclasses that nothing else names are not seen")
        elif called in _IMPORTERS:
            name = self._imported_by_call(node)
            if name is None:
                self._note(node, f"imports a module whose name is computed ({called})")
            else:
                self._import_by_name(node, name, ())
                return
        elif called == "getattr" and len(node.args) >= 2 and self._getattr(node):
            return
        self._children(node.func, *node.args, *node.keywords)

    def _getattr(self, node: ast.Call) -> bool:
        """Treat ``getattr(a.b, "c")`` as ``a.b.c``. False if the object is no plain chain of names."""
        held, wanted, *rest = node.args
        name = wanted.value if isinstance(wanted, ast.Constant) and isinstance(wanted.value, str) else ANY
        inner = held
        while isinstance(inner, ast.Attribute):
            inner = inner.value
        if not isinstance(inner, ast.Name):
            return False
        self._attribute(ast.Attribute(held, name, ast.Load(), lineno=node.lineno))
        self._children(wanted, *rest)
        return True

    def _imported_by_call(self, node: ast.Call) -> str | None:
        """The module that ``import_module("…")`` imports, if its name is a constant."""
        if self._dotted(node.func) not in _IMPORTERS or not node.args:
            return None
        name = node.args[0]
        if not (isinstance(name, ast.Constant) and isinstance(name.value, str)):
            return None
        return self._module.absolute(name.value)

    def _import_by_name(self, node: ast.expr, module: str, attributes: tuple[str, ...]) -> None:
        target = Target(module)
        self.found.loads.append(target)
        scope = self._scopes[-1].label if self._scopes else ""
        self.found.references.append(Reference(module, attributes, target, scope, node.lineno, False))

    def _sequence(self, node: ast.List | ast.Tuple) -> None:
        """``[sys.executable, "-m", "package.module"]`` runs that module."""
        self._children(*node.elts)
        words = [e.value if isinstance(e, ast.Constant) else None for e in node.elts]
        for flag, module in pairwise(words):
            if flag == "-m" and isinstance(module, str):
                self._import_by_name(node, module, (SCRIPT,))
            elif flag == "-m":
                self._note(node, "runs a module whose name is computed (-m)")

    def _note(self, node: ast.AST, what: str) -> None:
        self.found.notes.append((getattr(node, "lineno", 0), what))

    # Scopes

    def _enter(self, node: ast.AST, kind: Literal["function", "class"], name: str, body: list[ast.stmt]) -> _Scope:
        outer = self._scopes[-1].label + "." if self._scopes and self._scopes[-1].label else ""
        scope = _Scope(kind, outer + name)
        for statement in self._module.local_imports.get(node, ()):
            self.found.loads.extend(self._module.loaded_by(statement))
            for bound, target in self._module.import_targets(statement):
                scope.imports.setdefault(bound, []).append(target)
        for statement in body:
            scope.bound.update(bound_names(statement, walrus=self._module.walrus))
        return scope

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> None:
        arguments = node.args
        named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        named += [extra for extra in (arguments.vararg, arguments.kwarg) if extra]
        self._children(*arguments.defaults, *arguments.kw_defaults, *(argument.annotation for argument in named))
        body: list[ast.stmt] = []
        if not isinstance(node, ast.Lambda):
            self._children(*node.decorator_list)
            body = node.body
        scope = self._enter(node, "function", "" if isinstance(node, ast.Lambda) else node.name, body)
        scope.bound.update(argument.arg for argument in named)
        self._scopes.append(scope)
        self._children(*(body if not isinstance(node, ast.Lambda) else [node.body]))
        self._scopes.pop()

    def _class(self, node: ast.ClassDef) -> None:
        self._children(*node.decorator_list, *node.keywords)
        for base in node.bases:
            plain = base.value if isinstance(base, ast.Subscript) else base
            if isinstance(plain, ast.Name):
                self._refer(plain, base=True)
            elif isinstance(plain, ast.Attribute):
                self._attribute(plain, base=True)
            else:
                self.visit(plain)
            if isinstance(base, ast.Subscript):
                self.visit(base.slice)
        self._scopes.append(self._enter(node, "class", node.name, node.body))
        self._children(*node.body)
        self._scopes.pop()

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> None:
        first, *_ = node.generators
        self.visit(first.iter)  # evaluated outside
        scope = _Scope("function", self._scopes[-1].label if self._scopes else "")
        for generator in node.generators:
            scope.bound.update(n.id for n in ast.walk(generator.target) if isinstance(n, ast.Name))
        self._scopes.append(scope)
        for generator in node.generators:
            self._children(*(() if generator is first else (generator.iter,)), generator.target, *generator.ifs)
        self._children(*((node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,)))
        self._scopes.pop()


@functools.cache
def _fields(kind: type[ast.AST]) -> tuple[str, ...]:
    """The fields of a node that can hold names."""
    return tuple(name for name in kind._fields if name not in ("ctx", "op", "ops", "type_comment", "type_ignores"))


def _plain_name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""
