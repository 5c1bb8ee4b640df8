"""Walks code by Python's scoping rules and lists the names outside itself that it uses."""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Literal, NamedTuple, cast

from marin.fingerprint.source.bindings import bound_names
from marin.fingerprint.source.module import Module, Target


class Role(IntEnum):
    """As what a name is used. ARGUMENT: handed to a call that may look into it."""

    USE = 0
    BASE = 1
    DECORATOR = 2
    ARGUMENT = 3


class Reference(NamedTuple):
    """``name.attributes`` is used. start: where the name leads if the unit imports it itself.

    scope: the function or class in the unit that uses it.
    at_import: used when the module is imported, not when a function is called.
    """

    name: str
    attributes: tuple[str, ...]
    start: Target | None
    scope: str
    line: int
    role: Role = Role.USE
    at_import: bool = False


@dataclass
class Scope:
    """bound: its own names, parameters among them. outer: names declared global. body: its statements.

    inner: of a comprehension or of type parameters.
    """

    kind: Literal["function", "class", "inner"]
    label: str
    body: list[ast.stmt] = field(default_factory=list[ast.stmt])
    bound: set[str] = field(default_factory=set[str])
    parameters: set[str] = field(default_factory=set[str])
    imports: dict[str, list[Target]] = field(default_factory=dict[str, list[Target]])
    outer: set[str] = field(default_factory=set[str])


class ScopeWalker:
    """references in source order; loads: modules imported inside functions.

    annotations, docs: of every function and class on the way; fields: the annotations of classes' attributes.
    declared: how many of the enclosing definitions say with ``@reaches`` what they find.
    """

    def __init__(self, module: Module) -> None:
        self.module = module
        self.scopes: list[Scope] = []
        self.references: list[Reference] = []
        self.loads: list[Target] = []
        self.annotations: list[tuple[str, ast.expr]] = []
        self.fields: list[ast.expr] = []
        self.docs: list[str] = []
        self.role = Role.USE
        self.declared = 0
        # Any: each method takes the one kind of node that it is entered for.
        self._known: dict[type[ast.AST], Callable[[Any], None]] = {
            ast.Name: self._name,
            ast.FunctionDef: self._function,
            ast.AsyncFunctionDef: self._function,
            ast.Lambda: self._function,
            ast.ClassDef: self._class,
            ast.Global: self._global,
            ast.AnnAssign: lambda node: self.children(node.target, node.value),
            **dict.fromkeys((ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp), self._comprehension),
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

    def children(self, *nodes: ast.AST | None) -> None:
        for node in nodes:
            if node is not None:
                self.visit(node)

    def as_role(self, role: Role, nodes: Iterable[ast.AST]) -> None:
        before, self.role = self.role, role
        for node in nodes:
            self.visit(node)
        self.role = before

    # Names

    @property
    def label(self) -> str:
        return self.scopes[-1].label if self.scopes else ""

    @property
    def at_import(self) -> bool:
        """Whether what is visited runs when the module is imported."""
        return all(scope.kind != "function" for scope in self.scopes)

    def leads(self, name: str) -> list[Target] | None:
        """Targets of an import in an enclosing function; [] for a local name; None for a global one."""
        for depth, scope in enumerate(reversed(self.scopes)):
            if name in scope.outer:
                return None
            if scope.kind == "class" and depth:
                continue
            if name in scope.imports:
                return scope.imports[name]
            if name in scope.bound and scope.kind != "class":
                return []
        return None

    def dotted(self, func: ast.expr) -> str:
        """What an expression is, as far as imports tell: "importlib.import_module"; "" if local."""
        attributes: list[str] = []
        while isinstance(func, ast.Attribute):
            attributes.insert(0, func.attr)
            func = func.value
        if not isinstance(func, ast.Name):
            return ""
        leads = self.leads(func.id)
        if leads is None:
            leads = self.module.imports.get(func.id) or []
            if not leads and func.id not in self.module.bindings:
                return ".".join([func.id, *attributes])
        return ".".join([leads[0].module, *filter(None, [leads[0].symbol]), *attributes]) if leads else ""

    def _name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load) or any(node.id in scope.outer for scope in self.scopes):
            self.refer(node)

    def refer(self, node: ast.Name, attributes: tuple[str, ...] = ()) -> None:
        leads = self.leads(node.id)
        if leads is None and self._is_class_name(node.id):
            leads = []
        for target in [None] if leads is None else leads:
            self._add(node.id, attributes, target, node.lineno)

    def refer_to(self, module: str, line: int, attributes: tuple[str, ...] = ()) -> None:
        """A module by its name."""
        target = Target(module)
        self.loads.append(target)
        self._add(module, attributes, target, line)

    def _add(self, name: str, attributes: tuple[str, ...], target: Target | None, line: int) -> None:
        self.references.append(Reference(name, attributes, target, self.label, line, self.role, self.at_import))

    def _global(self, node: ast.Global) -> None:
        """Python has it stand before any use. What is imported under such a name is used from elsewhere."""
        scope = self.scopes[-1]
        for name in node.names:
            for target in scope.imports.get(name, ()):
                self._add(name, (), target, node.lineno)
        scope.outer.update(node.names)

    def _is_class_name(self, name: str) -> bool:
        """``x = 1; y = x`` in a class body, where nothing outside is called x."""
        scope = self.scopes[-1] if self.scopes else None
        if scope is None or scope.kind != "class" or name not in scope.bound:
            return False
        return name not in self.module.bindings and name not in self.module.imports

    # Scopes

    def enter(self, node: ast.AST, kind: Literal["function", "class"], name: str, body: list[ast.stmt]) -> Scope:
        outer = self.scopes[-1].label + "." if self.scopes and self.scopes[-1].label else ""
        scope = Scope(kind, outer + name, body)
        for statement in self.module.aside[node].imports:
            self.loads.extend(self.module.loaded_by(statement))
            for bound, target in self.module.import_targets(statement):
                scope.imports.setdefault(bound, []).append(target)
        for statement in body:
            scope.bound.update(bound_names(statement, walrus=self.module.walrus))
        if kind == "function" and self.scopes and self.scopes[-1].kind == "class":
            scope.bound.add("__class__")
        return scope

    def _set_aside(self, node: ast.AST, label: str) -> None:
        aside = self.module.aside[node]
        for what, annotation in aside.annotations:
            self.annotations.append((f"{label}.{what}" if label else what, annotation))
            if isinstance(node, ast.ClassDef):
                self.fields.append(annotation)
        if aside.docstring is not None:
            self.docs.append(f"{label}: {aside.docstring!r}")

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> None:
        arguments = node.args
        named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        named += [extra for extra in (arguments.vararg, arguments.kwarg) if extra]
        self.as_role(Role.USE, filter(None, [*arguments.defaults, *arguments.kw_defaults]))
        body: list[ast.stmt] = []
        if not isinstance(node, ast.Lambda):
            self.as_role(Role.DECORATOR, node.decorator_list)
            self.declared += self._declares(node)
            body = node.body
        scope = self.enter(node, "function", "" if isinstance(node, ast.Lambda) else node.name, body)
        self._set_aside(node, scope.label)
        scope.parameters.update(argument.arg for argument in named)
        scope.bound.update(scope.parameters)
        scope.bound.update(self.module.aside[node].type_params)
        self.scopes.append(scope)
        self.as_role(Role.USE, body if not isinstance(node, ast.Lambda) else [node.body])
        self.scopes.pop()
        if not isinstance(node, ast.Lambda):
            self.declared -= self._declares(node)

    def _class(self, node: ast.ClassDef) -> None:
        self.as_role(Role.DECORATOR, node.decorator_list)
        self.scopes.append(Scope("inner", self.label, bound=set(self.module.aside[node].type_params)))
        self.as_role(Role.USE, node.keywords)
        for base in node.bases:
            plain = base.value if isinstance(base, ast.Subscript) else base
            self.as_role(Role.BASE, [plain])
            if isinstance(base, ast.Subscript):
                self.as_role(Role.USE, [base.slice])
        self.declared += self._declares(node)
        scope = self.enter(node, "class", node.name, node.body)
        self._set_aside(node, scope.label)
        self.scopes.append(scope)
        self.as_role(Role.USE, node.body)
        del self.scopes[-2:]
        self.declared -= self._declares(node)

    def _declares(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> bool:
        called = [self.dotted(item.func) for item in node.decorator_list if isinstance(item, ast.Call)]
        return any(name in ("marin.steps.reaches.reaches", "marin.reaches") for name in called)

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> None:
        first, *_ = node.generators
        self.visit(first.iter)  # evaluated outside
        scope = Scope("inner", self.label)
        for generator in node.generators:
            scope.bound.update(n.id for n in ast.walk(generator.target) if isinstance(n, ast.Name))
        self.scopes.append(scope)
        for generator in node.generators:
            self.children(*(() if generator is first else (generator.iter,)), generator.target, *generator.ifs)
        self.children(*((node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,)))
        self.scopes.pop()


@functools.cache
def _fields(kind: type[ast.AST]) -> tuple[str, ...]:
    """The fields of a node that can hold names."""
    return tuple(name for name in kind._fields if name not in ("ctx", "op", "ops", "type_comment", "type_ignores"))
