"""Which file an import leads to, without importing anything.

A file is local unless it lies in the standard library or in a site-packages directory. A local
file's name depends on its place in the project alone: never on the checkout, the working directory
or whether it runs as ``__main__``.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
import sysconfig
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Literal

Elsewhere = Literal["stdlib", "external", "nowhere", "absent"]

_INSTALLED = {"site-packages", "dist-packages"}
_PROJECT_MARKS = ("pyproject.toml", "setup.py", "setup.cfg", ".git")


def is_local(path: Path) -> bool:
    if _INSTALLED & set(path.parts):
        return False
    return not any(path.is_relative_to(folder) for folder in _standard_library())


@functools.cache
def _standard_library() -> frozenset[Path]:
    paths = [Path(sysconfig.get_path(kind)) for kind in ("stdlib", "platstdlib")]
    return frozenset([*paths, *(path.resolve() for path in paths)])


class Locator:
    """Finds modules. What it saw of the file system is remembered for its lifetime."""

    def __init__(self) -> None:
        self._listings: dict[Path, frozenset[str]] = {}
        self._found: dict[tuple[Path, str], Path | Elsewhere] = {}
        self._roots: list[Path] | None = None
        self._names: dict[str, Path] = {}

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

    def name_of(self, path: Path) -> str:
        """The dotted name of a local file or namespace folder, unique among those asked for."""
        root = self.import_root(path)
        if root == path.parent and path.name != "__init__.py":  # not in a package: name it within the project
            root = next((up for up in path.parents if any(m in self.names(up) for m in _PROJECT_MARKS)), root)
        parts = list(path.relative_to(root).parts)
        parts[-1] = parts[-1].removesuffix(".py")
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
        if package.name == "__init__.py":
            return self._child(package.parent, name)
        return None if package.suffix == ".py" else self._child(package, name)

    def _child(self, folder: Path, name: str, *, namespaces: bool = True) -> Path | None:
        inside = self.names(folder)
        if name in inside and "__init__.py" in self.names(folder / name):
            return folder / name / "__init__.py"
        if f"{name}.py" in inside:
            return folder / f"{name}.py"
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
        for root in (*roots, importer.parent):
            found = self._child(root, top)
            if found is not None:
                return found
        return self._ask_import_system(top)

    def _search_path(self) -> list[Path]:
        if self._roots is None:
            entries = [Path(entry or os.getcwd()).resolve() for entry in sys.path]
            self._roots = [e for e in entries if e.is_dir() and is_local(e) and "__init__.py" not in self.names(e)]
        return self._roots

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
