"""Which names outside itself a unit of code uses, and which of its ways to find code names do not tell."""

from __future__ import annotations

import ast
import re
import sys
from itertools import pairwise
from typing import NamedTuple

from marin.fingerprint.source import known_calls
from marin.fingerprint.source.module import Module
from marin.fingerprint.source.normalize import normalise
from marin.fingerprint.source.scopes import Reference, Role, ScopeWalker

ANY = "*"  # as an attribute: one that only running the code would tell
SCRIPT = "__main__"  # as an attribute: the module is run with -m
_DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+(?::[A-Za-z_]\w*)?|[A-Za-z_]\w*:[A-Za-z_]\w*")


class Note(NamedTuple):
    """refused: a change could be missed, and nobody has said with ``@reaches`` what the code can be."""

    line: int
    what: str
    refused: bool = False


class Reader(ScopeWalker):
    """Of normalised statements: references, and

    notes: what is not seen, or covered only by counting much. mentions: strings that may name code.
    methods: attributes used of something that is no module, so perhaps of a dependency's step.
    reads_…: docstrings, annotations or source text are looked at by something. subclasses: they are listed.
    calls_run: perhaps of a step that is named.
    """

    def __init__(self, module: Module) -> None:
        super().__init__(module)
        self.notes: list[Note] = []
        self.mentions: list[tuple[str, int]] = []
        self.methods: set[str] = set()
        self.calls_run = False
        self.reads_annotations = False
        self.reads_docs = False
        self.reads_source = False
        self.lists_subclasses = False
        self._known[ast.Subscript] = self.subscript

    def note(self, node: ast.AST, what: str, *, refused: bool = False) -> None:
        self.notes.append(Note(getattr(node, "lineno", 0), what, refused and not self.declared))

    # Names and attributes

    def attribute(self, node: ast.Attribute) -> None:
        attributes: list[str] = []
        inner: ast.expr = node
        while isinstance(inner, ast.Attribute):
            attributes.insert(0, inner.attr)
            inner = inner.value
        self._read(node, inner, attributes)
        if isinstance(inner, ast.Name):
            self.refer(inner, tuple(attributes))
            return
        imported = self._imported_by(inner) if isinstance(inner, ast.Call) else None
        if imported is None:
            self.visit(inner)
        else:
            whole = isinstance(inner, ast.Call) and self.dotted(inner.func) == "__import__"  # gives the top package
            self.refer_to(imported, node.lineno, () if whole else tuple(attributes))

    def _read(self, node: ast.Attribute, inner: ast.expr, attributes: list[str]) -> None:
        """What the mere use of an attribute tells."""
        dotted = self.dotted(node)
        of_super = isinstance(inner, ast.Call) and isinstance(inner.func, ast.Name) and inner.func.id == "super"
        if "run" in attributes and not of_super:
            self.calls_run = True
        if not (isinstance(inner, ast.Name) and dotted) and not of_super:
            self.methods.update(attributes)
        self.reads_docs |= "__doc__" in attributes
        self.reads_annotations |= "__annotations__" in attributes or "__type_params__" in attributes
        self.reads_source |= "__code__" in attributes
        prefix = ".".join(dotted.split(".")[:2])
        if prefix in known_calls.SEARCH and self._changes(node):
            self.note(node, f"changes {prefix}: modules found there are not seen", refused=True)

    def _changes(self, node: ast.Attribute) -> bool:
        return isinstance(node.ctx, (ast.Store, ast.Del)) or node.attr in ("append", "insert", "extend", "remove")

    def constant(self, node: ast.Constant) -> None:
        held = node.value
        if type(held) is str and ("." in held or ":" in held) and len(held) < 200 and _DOTTED.fullmatch(held):
            self.mentions.append((held, node.lineno))

    def subscript(self, node: ast.Subscript) -> None:
        held = self.dotted(node.value)
        if held in known_calls.SEARCH and not isinstance(node.ctx, ast.Load):
            self.note(node, f"changes {held}: modules found there are not seen", refused=True)
        if held == "sys.modules" and isinstance(node.ctx, ast.Load):
            name = self.text_of(node.slice)
            if name is None:
                self.note(node, "takes a module whose name is computed (sys.modules)", refused=True)
            else:
                self.refer_to(name, node.lineno)
        self.children(node.value, node.slice)

    # Calls

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

    def call(self, node: ast.Call) -> None:
        called = self.dotted(node.func)
        if called and self._is_special(node, called):
            return
        self.lists_subclasses |= isinstance(node.func, ast.Attribute) and node.func.attr == "__subclasses__"
        self.as_role(Role.DECORATOR if self.role is Role.DECORATOR else Role.USE, [node.func])
        self._arguments(node, called)

    def _arguments(self, node: ast.Call, called: str) -> None:
        top = called.split(".")[0]
        blind = called in known_calls.BLIND or (top in sys.stdlib_module_names and top != "functools") or top == "marin"
        self.as_role(Role.USE if blind else Role.ARGUMENT, [*node.args, *node.keywords])

    def _is_special(self, node: ast.Call, called: str) -> bool:
        """Handle a call that must be known by name. True if nothing of it is left to visit."""
        if called in known_calls.RUNS_TEXT and self._runs_text(node, called):
            return True
        if called in known_calls.IMPORTERS or called in known_calls.LOCATORS:
            return self._runs_named(node, called)
        if called in known_calls.REFUSED:
            self.note(node, f"{known_calls.REFUSED[called]} ({called})", refused=True)
        elif called == "numpy.load" and any(_is_true(word, "allow_pickle") for word in node.keywords):
            self.note(node, "unpickles: the classes named in the data are not seen (numpy.load)", refused=True)
        elif called == "globals" or (called == "vars" and not node.args):
            self.note(node, f"uses {called}(); everything in the module is counted")
            self.refer_to(self.module.name, node.lineno)
        elif called == "getattr" and len(node.args) >= 2:
            return self._getattr(node)
        self.reads_annotations |= called in known_calls.READS_ANNOTATIONS
        self.reads_docs |= called in known_calls.READS_DOCS
        self.reads_source |= called in known_calls.READS_SOURCE
        return False

    def _getattr(self, node: ast.Call) -> bool:
        """Treat ``getattr(a.b, "c")`` as ``a.b.c``. False if the object is no plain chain of names."""
        held, wanted, *rest = node.args
        name = wanted.value if isinstance(wanted, ast.Constant) and isinstance(wanted.value, str) else ANY
        inner = held
        while isinstance(inner, ast.Attribute):
            inner = inner.value
        if not isinstance(inner, ast.Name):
            imported = self._imported_by(held) if isinstance(held, ast.Call) else None
            if imported is not None:
                self.refer_to(imported, node.lineno, (name,))
            self.children(*(() if imported is not None else (held,)), wanted, *rest)
            return True
        self.attribute(ast.Attribute(held, name, ast.Load(), lineno=node.lineno))
        self.children(wanted, *rest)
        return True

    def _runs_text(self, node: ast.Call, called: str) -> bool:
        """Follow constant text as code; of an eval's names, count the whole module."""
        if not node.args:
            return False
        text = node.args[0]
        if isinstance(text, ast.Constant) and isinstance(text.value, (str, bytes)):
            self._follow_text(node, text.value if isinstance(text.value, str) else text.value.decode())
            self.children(*node.args[1:], *node.keywords)
            return True
        if called == "eval":
            if len(node.args) == 1:
                self.note(node, "evaluates text (eval); everything in the module is counted")
                self.refer_to(self.module.name, node.lineno)
        elif not (called == "exec" and isinstance(text, ast.Call) and self.dotted(text.func) == "compile"):
            self.note(node, f"{known_calls.RUNS_TEXT[called]} ({called})", refused=True)
        return False

    def _follow_text(self, node: ast.expr, text: str) -> None:
        try:
            body = ast.parse(text.strip()).body
        except SyntaxError:
            return  # it would fail there too
        made = ast.FunctionDef(
            name="<text>",
            args=ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[]),
            body=body,
            decorator_list=[],
            type_params=[],
        )
        for inner in ast.walk(made):
            if hasattr(inner, "lineno"):
                setattr(inner, "lineno", node.lineno)
        for held in normalise([made], self.module):
            self.visit(held)

    # Modules by name

    def text_of(self, node: ast.expr) -> str | None:
        """The constant string that an expression is, or that a constant of the module with its name holds."""
        if isinstance(node, ast.Name) and node.id == "__name__":
            return self.module.name
        if isinstance(node, ast.Name) and node.id == "__package__":
            return self.module.package
        if isinstance(node, ast.Name) and self.leads(node.id) is None and node.id not in self.module.imports:
            held = self.module.bindings.get(node.id, ())
            only = held[0] if len(held) == 1 else None
            node = only.value if isinstance(only, (ast.Assign, ast.AnnAssign)) and only.value is not None else node
        return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None

    def _runs_named(self, node: ast.Call, called: str) -> bool:
        name = self._imported_by(node)
        if name is None:
            if called in known_calls.UNHEARD:
                self.note(node, f"finds code by a computed name ({called})", refused=True)
            return False
        if called in known_calls.LOCATORS:
            self.mentions.append((name, node.lineno))
        else:
            self.refer_to(name, node.lineno, (SCRIPT,) if called == "runpy.run_module" else ())
        self.as_role(Role.USE, [*node.args[1:], *node.keywords])
        return True

    def _imported_by(self, node: ast.Call) -> str | None:
        """The module that ``import_module("…")`` imports; None for a computed name, and for another call."""
        called = self.dotted(node.func)
        if called not in known_calls.IMPORTERS | known_calls.LOCATORS or not node.args:
            return None
        package = node.args[1] if called == "importlib.import_module" and len(node.args) > 1 else None
        for word in node.keywords:
            package = word.value if word.arg == "package" else package
        name, start = self.text_of(node.args[0]), self.module.package if package is None else self.text_of(package)
        if name is None or start is None:
            return None
        if name[:1] == "." and start not in (self.module.package, self.module.name):
            return f"{start}.{name.lstrip('.')}"
        return self.module.absolute(name)

    def sequence(self, node: ast.List | ast.Tuple) -> None:
        """``[sys.executable, "-m", "package.module"]`` runs that module, ``["-c", "text"]`` that text."""
        self.children(*node.elts)
        for flag, what in pairwise(node.elts):
            if not isinstance(flag, ast.Constant) or flag.value not in ("-m", "-c"):
                continue
            text = what.value if isinstance(what, ast.Constant) and isinstance(what.value, str) else None
            if flag.value == "-m" and text is not None:
                self.mentions = [mention for mention in self.mentions if mention[0] != text]
                self.refer_to(text, node.lineno, (SCRIPT,))
            elif self._is_python(node.elts[0]) and text is not None:
                self._follow_text(node, text)
            elif self._is_python(node.elts[0]):
                name = "module whose name" if flag.value == "-m" else "program whose text"
                self.note(node, f"runs a {name} is computed (python {flag.value})", refused=True)
            return

    def _is_python(self, node: ast.expr) -> bool:
        name = node.value if isinstance(node, ast.Constant) else ""
        return self.dotted(node) == "sys.executable" or (isinstance(name, str) and "python" in name)

    # Definitions

    def definition(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        self.declared += self._declares(node)

    def defined(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        self.declared -= self._declares(node)

    def _declares(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> bool:
        called = [self.dotted(item.func) for item in node.decorator_list if isinstance(item, ast.Call)]
        return any(name in ("marin.steps.reaches.reaches", "marin.reaches") for name in called)


def _is_true(word: ast.keyword, name: str) -> bool:
    return word.arg == name and not (isinstance(word.value, ast.Constant) and not word.value.value)


def annotation_names(annotations: list[ast.expr], module: Module) -> list[Reference]:
    """References to the names in annotations, string annotations included."""
    walker = ScopeWalker(module)
    for node in annotations:
        for part in ast.walk(node):
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                try:
                    walker.visit(ast.parse(part.value, mode="eval").body)
                except SyntaxError:
                    continue
        walker.visit(node)
    return walker.references
