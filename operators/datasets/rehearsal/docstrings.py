"""Extract documentation from Python source through its syntax tree, without importing the module."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from marin import value
from marin.errors import GarbledDocument

type Documented = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@value("docstring_form")
class DocstringForm(Enum):
    """PROSE: a heading and paragraphs. QUESTION: "What does X do?" and the answer. MARKDOWN: a question thread."""

    _value_: str
    PROSE = "prose"
    QUESTION = "question"
    MARKDOWN = "markdown"


@dataclass(frozen=True)
class Docstring:
    """A docstring of a module, class or function.

    name: dotted, e.g. "json.JSONEncoder.default". signature: "default(self, o)", empty for modules and classes.
    """

    name: str
    signature: str
    text: str


def docstrings(module: str, source: str) -> list[list[Docstring]]:
    """Return docstrings in source order, in groups: the module with its functions, then every class with its methods.


    Raises GarbledDocument for source that does not parse.
    """
    try:
        with warnings.catch_warnings(action="ignore"):  # invalid escapes in old modules
            tree = ast.parse(source)
    except SyntaxError as error:
        raise GarbledDocument(f"{module}: line {error.lineno} is not Python: {error.msg}") from error
    own = ast.get_docstring(tree)
    first = [Docstring(module, "", own)] if own else []
    groups: list[list[Docstring]] = [first]
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            groups.append(list(_documented(node, f"{module}.")))
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            first += _documented(node, f"{module}.")
    return [group for group in groups if group]


def _documented(node: Documented, prefix: str) -> Iterator[Docstring]:
    name, text = prefix + node.name, ast.get_docstring(node)
    if text:
        signature = "" if isinstance(node, ast.ClassDef) else f"{node.name}({ast.unparse(node.args)})"
        yield Docstring(name, signature, text)
    if isinstance(node, ast.ClassDef):
        for inner in node.body:
            if isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                yield from _documented(inner, f"{name}.")


def write_docstrings(group: list[Docstring], form: DocstringForm) -> str:
    """Return a group of docstrings as one document."""
    return "\n\n".join(WRITERS[form](entry) for entry in group)


def _prose(entry: Docstring) -> str:
    return f"{entry.name}\n\n{entry.text}"


def _question(entry: Docstring) -> str:
    return f"Question: What does {entry.name} do?\nAnswer: {entry.text}"


def _markdown(entry: Docstring) -> str:
    call = f"\n\n```python\n{entry.signature}\n```" if entry.signature else ""
    return f"## How do I use `{entry.name}`?{call}\n\n**Answer.** {entry.text}"


WRITERS = {DocstringForm.PROSE: _prose, DocstringForm.QUESTION: _question, DocstringForm.MARKDOWN: _markdown}
