"""Which names outside itself a unit of code uses, and which of its ways to find code names do not tell."""

from __future__ import annotations

import ast
import re
import sys
from contextlib import suppress
from enum import IntFlag
from itertools import pairwise
from typing import NamedTuple

from marin.fingerprint.source import known_calls
from marin.fingerprint.source.module import Module
from marin.fingerprint.source.normalize import normalise
from marin.fingerprint.source.scopes import Reference, Role, ScopeWalker

ANY = "*"  # as an attribute: one that only running the code would tell
SCRIPT = "__main__"  # as an attribute: the module is run with -m
_DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+(?::[A-Za-z_]\w*)?|[A-Za-z_]\w*:[A-Za-z_]\w*")


class Trait(IntFlag):
    """STATE: a variable that can change after import. HOOKS: a class that hears of its subclasses.

    CLASS: it is one. CALLS_RUN: of something, perhaps of a step that is named.
    READS_…: docstrings, annotations or source text are looked at by something. DISPATCHES: by the annotations of
    functions. REGISTERS: such a function, perhaps.
    """

    NONE = 0
    STATE = 1
    HOOKS = 2
    CLASS = 4
    CALLS_RUN = 16
    READS_ANNOTATIONS = 32
    READS_DOCS = 64
    READS_SOURCE = 128
    LISTS_SUBCLASSES = 256
    DISPATCHES = 512
    REGISTERS = 1024


_BY_ATTRIBUTE = {
    "__doc__": Trait.READS_DOCS,
    "__annotations__": Trait.READS_ANNOTATIONS,
    "__type_params__": Trait.READS_ANNOTATIONS,
    "__code__": Trait.READS_SOURCE,
}
_BY_CALL = {
    Trait.READS_ANNOTATIONS: known_calls.READS_ANNOTATIONS,
    Trait.READS_DOCS: known_calls.READS_DOCS,
    Trait.READS_SOURCE: known_calls.READS_SOURCE,
}


class Note(NamedTuple):
    line: int
    what: str


class Reader(ScopeWalker):
    """Of normalised statements: references, and

    notes: what is not seen, or covered only by counting much. mentions: strings that may name code.
    methods: attributes used of something that is no module, so perhaps of a dependency's step.
    traits: as far as single names and calls tell them.
    """

    def __init__(self, module: Module) -> None:
        super().__init__(module)
        self.notes: list[Note] = []
        self.mentions: list[tuple[str, int]] = []
        self.methods: set[str] = set()
        self.traits = Trait.NONE
        self._known |= {
            ast.Attribute: self._attribute,
            ast.Call: self._call,
            ast.Constant: self._constant,
            ast.Subscript: self._subscript,
            **dict.fromkeys((ast.List, ast.Tuple), self._sequence),
        }

    def _note(self, node: ast.AST, what: str) -> None:
        """Nothing where the author has said with ``@reaches`` what the code can be."""
        if not self.declared:
            self.notes.append(Note(getattr(node, "lineno", 0), what))

    # Names and attributes

    def _attribute(self, node: ast.Attribute) -> None:
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
            self.traits |= Trait.CALLS_RUN
        if not (isinstance(inner, ast.Name) and dotted) and not of_super:
            self.methods.update(attributes)
        for name in attributes:
            self.traits |= _BY_ATTRIBUTE.get(name, Trait.NONE)

    def _constant(self, node: ast.Constant) -> None:
        held = node.value
        if type(held) is str and ("." in held or ":" in held) and len(held) < 200 and _DOTTED.fullmatch(held):
            self.mentions.append((held, node.lineno))

    def _subscript(self, node: ast.Subscript) -> None:
        if self.dotted(node.value) == "sys.modules" and isinstance(node.ctx, ast.Load):
            name = self.text_of(node.slice)
            if name is None:
                self._note(node, "takes a module whose name is computed (sys.modules)")
            else:
                self.refer_to(name, node.lineno)
        self.children(node.value, node.slice)

    # Calls

    def _call(self, node: ast.Call) -> None:
        called = self.dotted(node.func)
        if called and self._is_special(node, called):
            return
        if isinstance(node.func, ast.Attribute) and node.func.attr == "__subclasses__":
            self.traits |= Trait.LISTS_SUBCLASSES
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
        if called == "globals" or (called == "vars" and not node.args):
            self._note(node, f"uses {called}(); everything in the module is counted")
            self.refer_to(self.module.name, node.lineno)
        elif called == "getattr" and len(node.args) >= 2:
            return self._getattr(node)
        for trait, names in _BY_CALL.items():
            self.traits |= trait if called in names else Trait.NONE
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
        self._attribute(ast.Attribute(held, name, ast.Load(), lineno=node.lineno))
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
                self._note(node, "evaluates text (eval); everything in the module is counted")
                self.refer_to(self.module.name, node.lineno)
        elif not (called == "exec" and isinstance(text, ast.Call) and self.dotted(text.func) == "compile"):
            self._note(node, f"{known_calls.RUNS_TEXT[called]} ({called})")
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
                self._note(node, f"finds code by a computed name ({called})")
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

    def _sequence(self, node: ast.List | ast.Tuple) -> None:
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
            elif self._is_python(node.elts[0]) and flag.value == "-c":
                self._note(node, "runs a program whose text is computed (python -c)")
            return

    def _is_python(self, node: ast.expr) -> bool:
        name = node.value if isinstance(node, ast.Constant) else ""
        return self.dotted(node) == "sys.executable" or (isinstance(name, str) and "python" in name)


def annotation_names(annotations: list[ast.expr]) -> tuple[Reference, ...]:
    """References to the names in annotations, string annotations included."""
    found: list[Reference] = []
    for node in annotations:
        parts = list(ast.walk(node))
        for part in parts:
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                with suppress(SyntaxError):
                    parts += ast.walk(ast.parse(part.value, mode="eval").body)
        found += [Reference(part.id, (), None, "", part.lineno) for part in parts if isinstance(part, ast.Name)]
    return tuple(found)
