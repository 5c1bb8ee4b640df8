"""Which file an import leads to, without importing anything.

A file is local unless it lies in the standard library or in a site-packages directory. A local
file's name depends on its place in the project alone: never on the checkout, the working directory
or whether it runs as ``__main__``.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES, PathFinder
from pathlib import Path
from typing import Literal

from marin.fingerprint.origin import is_local as is_local

Elsewhere = Literal["stdlib", "external", "nowhere", "absent"]

_INSTALLED = {"site-packages", "dist-packages"}
_PROJECT_MARKS = ("pyproject.toml", "setup.py", "setup.cfg", ".git")
_COMPILED = (*EXTENSION_SUFFIXES, ".pyx", ".pyc")  # the last two only where there is nothing better


class Locator:
    """Finds modules. What it saw of the file system is remembered for its lifetime."""

    def __init__(self) -> None:
        self._listings: dict[Path, frozenset[str]] = {}
        self._found: dict[tuple[Path, str], Path | Elsewhere] = {}
        self._roots: dict[tuple[str, ...], list[Path]] = {}
        self._names: dict[str, Path] = {}
        self._portions: dict[Path, list[Path]] = {}

    def names(self, folder: Path) -> frozenset[str]:
        """Names in a folder; empty if it is not one."""
        if folder not in self._listings:
            try:
                self._listings[folder] = frozenset(os.listdir(folder))
            except OSError:
                self._listings[folder] = frozenset()
        return self._listings[folder]

    def import_root(self, path: Path) -> Path:
        """The folder that holds the top-level package (or the file itself)."""
        folder = path.parent
        while "__init__.py" in self.names(folder):
            folder = folder.parent
        return folder

    def is_project(self, folder: Path) -> bool:
        return any(mark in self.names(folder) for mark in _PROJECT_MARKS)

    def place_of(self, path: Path) -> Path:
        """A local file's or folder's path within its package's parent or its project."""
        root = self.import_root(path)
        if root == path.parent and path.name != "__init__.py":  # not in a package: name it within the project
            root = next(filter(self.is_project, path.parents), root)
        return path.relative_to(root)

    def name_of(self, path: Path) -> str:
        """The dotted name of a local module or namespace folder, unique among those asked for."""
        parts = list(self.place_of(path).parts)
        parts[-1] = _stem(path)
        name = ".".join(part for part in parts if part != "__init__") or path.parent.name
        while self._names.setdefault(name, path) != path:
            name += "~"
        return name

    def find(self, dotted: str, importer: Path) -> Path | Elsewhere:
        """File (or namespace folder) of an absolute import that stands in the file ``importer``.

        "nowhere": not installed. "absent": the package is local, but has no such source file.
        """
        key = (importer, dotted)
        if key not in self._found:
            self._found[key] = self._find(dotted, importer)
        return self._found[key]

    def _find(self, dotted: str, importer: Path) -> Path | Elsewhere:
        top, *rest = dotted.split(".")
        start = self._find_top(top, importer)
        if not isinstance(start, Path):
            return start
        for part in rest:
            below = self.submodule(start, part)
            if below is None:
                return "absent"
            start = below
        return start

    def submodule(self, package: Path, name: str) -> Path | None:
        """``package.name`` for a package's ``__init__.py`` or a namespace folder."""
        folders = self._folders(package)
        found = [child for folder in folders if (child := self._child(folder, name)) is not None]
        regular = [child for child in found if child.name == "__init__.py" or child.suffix]
        if not regular and len(found) > 1:
            self._portions[found[0]] = found
        return (regular or found or [None])[0]

    def is_compiled(self, path: Path) -> bool:
        return path.suffix in (".so", ".pyd", ".pyx", ".pyc")

    def _folders(self, package: Path) -> list[Path]:
        """Where a package's modules lie; several for a namespace that is spread over the import path."""
        if package.name == "__init__.py":
            return [package.parent]
        return [] if package.suffix == ".py" or self.is_compiled(package) else self._portions.get(package, [package])

    def _child(self, folder: Path, name: str, *, namespaces: bool = True) -> Path | None:
        inside = self.names(folder)
        if name in inside and "__init__.py" in self.names(folder / name):
            return folder / name / "__init__.py"
        for suffix in (*EXTENSION_SUFFIXES, ".py", *_COMPILED):  # in Python's own order
            if name + suffix in inside:
                return folder / (name + suffix)
        return folder / name if namespaces and name in inside and self.names(folder / name) else None

    def _find_top(self, top: str, importer: Path) -> Path | Elsewhere:
        roots = list(dict.fromkeys([self.import_root(importer), *self._search_path()]))
        for root in roots:
            found = self._child(root, top, namespaces=False)
            if found is not None:
                return found
        if top in sys.stdlib_module_names:
            return "stdlib"
        if PathFinder.find_spec(top, [entry for entry in sys.path if _INSTALLED & set(Path(entry).parts)]):
            return "external"
        # A script's own folder comes last, although Python looks there first: when the folder is a
        # package, a module in it must not be mistaken for an installed one of the same name.
        found = [child for root in (*roots, importer.parent) if (child := self._child(root, top)) is not None]
        if found:
            self._portions[found[0]] = list(dict.fromkeys(each for each in found if not each.suffix))
            return found[0]
        return self._ask_import_system(top)

    def _search_path(self) -> list[Path]:
        searched = tuple(entry or os.getcwd() for entry in sys.path)
        if searched not in self._roots:
            entries = [Path(entry).resolve() for entry in searched]
            roots = [each for each in entries if each.is_dir() and is_local(each)]
            self._roots[searched] = [each for each in roots if "__init__.py" not in self.names(each)]
        return self._roots[searched]

    def _ask_import_system(self, top: str) -> Path | Elsewhere:
        """For editable installs through an import hook: find_spec of a top-level name imports nothing."""
        try:
            spec = importlib.util.find_spec(top)
        except (ImportError, ValueError):
            return "nowhere"
        if spec is None:
            return "nowhere"
        if spec.origin and spec.origin.endswith(".py") and is_local(Path(spec.origin)):
            return Path(spec.origin)
        return "external"


def _stem(path: Path) -> str:
    """A module's name from its file's: ``fast`` from ``fast.cpython-312-x86_64-linux-gnu.so``."""
    suffix = next((ending for ending in (".py", *_COMPILED) if path.name.endswith(ending)), "")
    return path.name.removesuffix(suffix)
