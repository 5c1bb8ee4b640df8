"""Find the names outside itself that a unit of code uses, by Python's scoping rules, and note code that names miss.

Calls that find code by its name are followed if the name is a constant. Other calls are observed while the code runs
(see fingerprint.observation.listening). This misses a constant that exists already, so the analysis notes the call,
unless its author declares with ``@reaches`` the code that it can find.
"""

from __future__ import annotations

import ast
import functools
import sys
from collections.abc import Iterable
from contextlib import suppress
from itertools import pairwise
from typing import Literal, cast

from msgspec import Struct, field

from marin.fingerprint.source.bindings import bound_names, chained, parameters
from marin.fingerprint.source.module import ANY, FIELD, SCRIPT, Reference, Role, Target
from marin.fingerprint.source.normalize import normalise
from marin.fingerprint.source.syntax import Syntax, absolute

_RUNS_TEXT = {"exec": "executes text", "eval": "evaluates text", "compile": "compiles text"}
_IMPORTERS = ("importlib.import_module", "__import__", "runpy.run_module")
_LOCATORS = ("pydoc.locate", "hydra.utils.get_class", "hydra.utils.get_method", "hydra.utils.get_object")
# These learn no more about a class that they are given than its text shows.
_BLIND = frozenset(
    """
    isinstance issubclass type len list tuple set frozenset dict print repr str map filter sorted sum min max zip
    enumerate any all next iter super getattr hasattr setattr id hash callable property staticmethod classmethod
    """.split()  # noqa: SIM905
)


class Scope(Struct):
    """A scope of names. bound: its own names. imports: names that it imports. outer: names that it declares global.

    kind "inner": the scope of a comprehension or of type parameters.
    """

    kind: Literal["function", "class", "inner"]
    label: str
    at_import: bool
    bound: set[str] = field(default_factory=set[str])
    imports: dict[str, list[Target]] = field(default_factory=dict[str, list[Target]])
    outer: set[str] = field(default_factory=set[str])


class Reader(ast.NodeVisitor):
    """A reader of normalised statements, which collects references in source order.

    loads: modules that functions import.
    notes: code that the analysis does not see, or covers only by counting much.
    methods: attributes used on an object that is no module, so perhaps on a dependency's step.
    annotated: the annotations of every function and class, with their targets, and whether a target is a class's
    attribute. docs: the docstrings of every function and class.
    """

    def __init__(self, module: Syntax) -> None:
        self.module = module
        self.references: list[Reference] = []
        self.loads: list[Target] = []
        self.notes: list[tuple[int, str]] = []  # line, what
        self.methods: set[str] = set()
        self.annotated: list[tuple[str, ast.expr, bool]] = []
        self.docs: list[str] = []
        self._scopes = [Scope("inner", "", at_import=True)]
        self._role = Role.USE
        self._declared = 0  # the number of enclosing definitions with ``@reaches``

    def read(self, statements: Iterable[ast.stmt]) -> None:
        self._visit_all(*statements)

    def generic_visit(self, node: ast.AST) -> None:
        for name in _fields(type(node)):
            held = getattr(node, name)
            self._visit_all(*cast(list[object], held) if type(held) is list else (held,))

    def _visit_all(self, *nodes: object) -> None:
        for node in nodes:
            if isinstance(node, ast.AST):
                self.visit(node)

    def _visit_as(self, role: Role, nodes: Iterable[ast.AST | None]) -> None:
        before, self._role = self._role, role
        self._visit_all(*nodes)
        self._role = before

    # Names

    def leads(self, name: str) -> list[Target] | None:
        """Return the targets of an import in an enclosing function; [] for a local name; None for a global name."""
        for depth, scope in enumerate(reversed(self._scopes)):
            if name in scope.outer:
                return None
            if scope.kind == "class" and depth:
                continue
            if name in scope.imports:
                return scope.imports[name]
            if name in scope.bound:
                return []
        return None

    def dotted(self, node: ast.expr) -> str:
        """Return the dotted name that imports give an expression: "importlib.import_module"; "" if local."""
        inner, attributes = chained(node)
        leads = self.leads(inner.id) if isinstance(inner, ast.Name) else []
        if leads is None:
            return self.module.dotted(node)
        return ".".join([*filter(None, leads[0]), *attributes]) if leads else ""

    def text_of(self, node: ast.expr) -> str | None:
        """Return the constant string of an expression, or of the module's constant that it names."""
        if isinstance(node, ast.Name):
            if node.id in ("__name__", "__package__"):
                return self.module.name if node.id == "__name__" else self.module.package
            held = self.module.bindings.get(node.id, ())
            only = held[0] if len(held) == 1 and node.id not in self.module.imports else None
            if isinstance(only, (ast.Assign, ast.AnnAssign)) and only.value and self.leads(node.id) is None:
                node = only.value
        return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None

    def _refer(self, name: str, attributes: Iterable[str], line: int) -> None:
        leads = self.leads(name)
        for target in [None] if leads is None else leads:
            self._add(name, attributes, target, line)

    def _refer_to(self, module: str, line: int, *attributes: str) -> None:
        """Add a reference to a module by its name."""
        self.loads.append(Target(module))
        self._add(module, attributes, Target(module), line)

    def _add(self, name: str, attributes: Iterable[str], target: Target | None, line: int) -> None:
        scope = self._scopes[-1]
        self.references.append(
            Reference(name, tuple(attributes), target, scope.label, line, self._role, scope.at_import)
        )

    def _note(self, node: ast.expr, what: str) -> None:
        if not self._declared:
            self.notes.append((node.lineno, what))

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load) or any(node.id in scope.outer for scope in self._scopes):
            self._refer(node.id, (), node.lineno)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self._use(*chained(node), node.lineno)

    def _use(self, inner: ast.expr, attributes: list[str], line: int) -> None:
        """Add the use of ``inner.a.b``."""
        of_super = isinstance(inner, ast.Call) and isinstance(inner.func, ast.Name) and inner.func.id == "super"
        if not of_super and not self.dotted(inner):
            self.methods.update(attributes)
        imported = self._imported_by(inner)
        if isinstance(inner, ast.Name):
            self._refer(inner.id, attributes, line)
        elif imported is None:
            self.visit(inner)
        else:
            whole = isinstance(inner, ast.Call) and self.dotted(inner.func) == "__import__"  # gives the top package
            self._refer_to(imported, line, *(() if whole else attributes))

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self._visit_all(node.target, node.value)

    def visit_Global(self, node: ast.Global) -> None:
        """Enter a ``global`` statement, which stands before any use. Other code uses an import under such a name."""
        scope = self._scopes[-1]
        for name in node.names:
            for target in scope.imports.get(name, ()):
                self._add(name, (), target, node.lineno)
        scope.outer.update(node.names)

    # Scopes

    def _enter(self, node: ast.AST, kind: Literal["function", "class"], body: list[ast.stmt]) -> Scope:
        """Return the scope of a definition, with the parts that normalising has set aside."""
        outer, aside, name = self._scopes[-1], self.module.aside[node], str(getattr(node, "name", ""))
        label = f"{outer.label}.{name}" if outer.label else name
        scope = Scope(kind, label, outer.at_import and kind == "class")
        for statement in body:
            scope.bound.update(bound_names(statement))
        for statement in aside.imports:
            self.loads.extend(self.module.loaded_by(statement))
            for bound, target in self.module.import_targets(statement):
                scope.imports.setdefault(bound, []).append(target)
        self.annotated += [
            (f"{label}.{what}" if label else what, each, kind == "class") for what, each in aside.annotations
        ]
        if aside.docstring is not None:
            self.docs.append(f"{label}: {aside.docstring!r}")
        return scope

    def _within(self, scope: Scope, role: Role, nodes: Iterable[ast.AST | None]) -> None:
        self._scopes.append(scope)
        self._visit_as(role, nodes)
        self._scopes.pop()

    def _inner(self, bound: Iterable[str]) -> Scope:
        return Scope("inner", self._scopes[-1].label, self._scopes[-1].at_import, set(bound))

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> None:
        self._visit_as(Role.USE, [*node.args.defaults, *node.args.kw_defaults])
        decorators: list[ast.expr] = getattr(node, "decorator_list", [])
        self._visit_as(Role.DECORATOR, decorators)
        scope = self._enter(node, "function", [] if isinstance(node, ast.Lambda) else node.body)
        scope.bound.update(each.arg for each in parameters(node.args))
        scope.bound.update(self.module.aside[node].type_params)
        if self._scopes[-1].kind == "class":
            scope.bound.add("__class__")
        self._declared += (declares := self._declares(decorators))
        self._within(scope, Role.USE, [node.body] if isinstance(node, ast.Lambda) else node.body)
        self._declared -= declares

    visit_AsyncFunctionDef = visit_Lambda = visit_FunctionDef

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._visit_as(Role.DECORATOR, node.decorator_list)
        aside = self.module.aside[node]
        self._scopes.append(self._inner(aside.type_params))
        self._visit_as(Role.USE, node.keywords)
        for base in node.bases:
            plain, *given = (base.value, base.slice) if isinstance(base, ast.Subscript) else (base,)
            self._visit_as(Role.BASE, [plain])
            self._visit_as(Role.USE, given)
        self._declared += (declares := self._declares(node.decorator_list))
        scope = self._enter(node, "class", node.body)
        # A name that is the module's too may be meant before the class binds it: ``x = x``.
        scope.bound -= self.module.bindings.keys() | self.module.imports.keys()
        self._within(scope, Role.USE, node.body)
        self._declared -= declares
        self._scopes.pop()

    def _declares(self, decorators: list[ast.expr]) -> bool:
        called = [self.dotted(each.func) for each in decorators if isinstance(each, ast.Call)]
        return any(name in ("marin.steps.reaches.reaches", "marin.reaches") for name in called)

    def visit_ListComp(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> None:
        first, *others = node.generators
        self.visit(first.iter)  # evaluated outside
        inside = [first.target, *first.ifs]
        for each in others:
            inside += [each.iter, each.target, *each.ifs]
        inside += [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        stored = [part for each in node.generators for part in ast.walk(each.target)]
        self._within(self._inner(part.id for part in stored if isinstance(part, ast.Name)), self._role, inside)

    visit_SetComp = visit_DictComp = visit_GeneratorExp = visit_ListComp

    # Calls that find code in ways of their own

    def visit_Call(self, node: ast.Call) -> None:
        called = self.dotted(node.func)
        if called in _RUNS_TEXT and node.args and self._runs_text(node, called):
            return
        if called == "getattr" and len(node.args) >= 2:
            self._getattr(node)
            return
        if (name := self._imported_by(node)) is not None:
            self._refer_to(name, node.lineno, *([SCRIPT] if called == "runpy.run_module" else []))
            self._visit_as(Role.USE, [*node.args[1:], *node.keywords])
            return
        if called == "__import__" or called in _LOCATORS:
            self._note(node, f"finds code by its name ({called})")
        elif called == "globals" or (called == "vars" and not node.args):
            self._note(node, f"uses {called}(); everything in the module is counted")
            self._refer_to(self.module.name, node.lineno)
        self._visit_as(Role.DECORATOR if self._role is Role.DECORATOR else Role.USE, [node.func])
        top = called.split(".")[0]
        blind = called in _BLIND or (top in sys.stdlib_module_names and top != "functools") or top == "marin"
        self._visit_as(Role.USE if blind else Role.ARGUMENT, [*node.args, *node.keywords])

    def _getattr(self, node: ast.Call) -> None:
        """Add the use of ``a.b.c`` for ``getattr(a.b, "c")``."""
        held, wanted, *rest = node.args
        name = wanted.value if isinstance(wanted, ast.Constant) and isinstance(wanted.value, str) else ANY
        if isinstance(wanted, ast.Attribute) and isinstance(wanted.value, ast.Name) and wanted.value.id == "self":
            name = FIELD + wanted.attr
        inner, attributes = chained(held)
        self._use(inner, [*attributes, name], node.lineno)
        self._visit_all(wanted, *rest)

    def _imported_by(self, node: ast.expr) -> str | None:
        """Return the module that ``import_module("…")`` imports; None for a computed name and for other calls."""
        if not (isinstance(node, ast.Call) and node.args and (called := self.dotted(node.func)) in _IMPORTERS):
            return None
        given = {word.arg: word.value for word in node.keywords}
        if called == "importlib.import_module" and len(node.args) > 1:
            given.setdefault("package", node.args[1])
        package = self.text_of(given["package"]) if "package" in given else self.module.package
        name = self.text_of(node.args[0])
        return absolute(name, package) if name is not None and package is not None else None

    def _runs_text(self, node: ast.Call, called: str) -> bool:
        """Follow constant text as code; count the whole module for an eval. Return False if the call needs reading."""
        text, *rest = node.args
        if isinstance(text, ast.Constant) and isinstance(text.value, (str, bytes)):
            self._follow(text.value, node.lineno)
            self._visit_all(*rest, *node.keywords)
            return True
        if called == "eval" and not rest:
            self._note(node, "evaluates text (eval); everything in the module is counted")
            self._refer_to(self.module.name, node.lineno)
        elif called != "eval" and not (isinstance(text, ast.Call) and self.dotted(text.func) == "compile"):
            self._note(node, f"{_RUNS_TEXT[called]} ({called})")
        return False

    def _follow(self, text: str | bytes, line: int) -> None:
        made = cast(ast.FunctionDef, ast.parse("def text(): pass").body[0])
        made.name = "<text>"
        with suppress(SyntaxError):  # which it would raise there too
            made.body = ast.parse(text.strip()).body
        for inner in ast.walk(made):
            if hasattr(inner, "lineno"):
                setattr(inner, "lineno", line)
        self._visit_all(*normalise([made], self.module))

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if self.dotted(node.value) == "sys.modules" and isinstance(node.ctx, ast.Load):
            name = self.text_of(node.slice)
            if name is None:
                self._note(node, "takes a module whose name is computed (sys.modules)")
            else:
                self._refer_to(name, node.lineno)
        self._visit_all(node.value, node.slice)

    def visit_List(self, node: ast.List | ast.Tuple) -> None:
        """Follow ``[sys.executable, "-m", "package.module"]`` to the module, and ``["-c", "text"]`` to the text."""
        self._visit_all(*node.elts)
        for flag, what in pairwise(node.elts):
            if not isinstance(flag, ast.Constant) or flag.value not in ("-m", "-c"):
                continue
            text = what.value if isinstance(what, ast.Constant) and isinstance(what.value, str) else None
            if flag.value == "-m" and text is not None:
                self._refer_to(text, node.lineno, SCRIPT)
            elif self._is_python(node.elts[0]) and text is not None:
                self._follow(text, node.lineno)
            elif self._is_python(node.elts[0]) and flag.value == "-c":
                self._note(node, "runs a program whose text is computed (python -c)")
            return

    visit_Tuple = visit_List

    def _is_python(self, node: ast.expr) -> bool:
        name = node.value if isinstance(node, ast.Constant) else ""
        return self.dotted(node) == "sys.executable" or (isinstance(name, str) and "python" in name)


@functools.cache
def _fields(kind: type[ast.AST]) -> tuple[str, ...]:
    """Return the fields of a node that can hold names."""
    return tuple(name for name in kind._fields if name not in ("ctx", "op", "ops", "type_comment", "type_ignores"))
