"""Find the file or the package version that an import leads to, without importing anything.

A file is local unless it lies in the standard library or in a site-packages directory. A local
file's name depends on its place in the project alone: never on the checkout, the working directory
or whether it runs as ``__main__``.
"""

from __future__ import annotations

import functools
import os
import platform
import re
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from importlib import machinery, util
from pathlib import Path
from typing import Literal

from marin.fingerprint.origin import INSTALLED, is_local

Elsewhere = Literal["stdlib", "external", "nowhere", "absent"]

_PROJECT_MARKS = ("pyproject.toml", "setup.py", "setup.cfg", ".git")
COMPILED = (".so", ".pyd", ".pyx", ".pyc")  # the suffixes of modules that are no Python source
# In Python's own order; Cython's source comes last.
_LOADERS = (
    (machinery.ExtensionFileLoader, machinery.EXTENSION_SUFFIXES),
    (machinery.SourceFileLoader, [".py", ".pyx"]),
    (machinery.SourcelessFileLoader, [".pyc"]),
)
NOT_INSTALLED = "not installed"

# Modules whose distribution has another name. Only a short cut: the scan that finds the others
# reads every RECORD (0.4 s with 250 distributions).
_DISTRIBUTIONS = {
    "PIL": "pillow",
    "bs4": "beautifulsoup4",
    "haliax": "marin-haliax",
    "levanter": "marin-levanter",
    "sklearn": "scikit-learn",
    "yaml": "PyYAML",
}


class Locator:
    """A finder of modules. It remembers for its lifetime the files that it saw."""

    def __init__(self) -> None:
        self._finders: dict[Path, machinery.FileFinder] = {}
        self._children: dict[tuple[Path, str], Path | None] = {}
        self._found: dict[tuple[Path, str], Path | Elsewhere] = {}
        self._roots: dict[Path, Path] = {}
        self._search_paths: dict[tuple[str, ...], list[Path]] = {}
        self._names: dict[str, Path] = {}
        self._portions: dict[Path, list[Path]] = {}  # the folders of a namespace, by the first folder

    def import_root(self, path: Path) -> Path:
        """Return the folder that holds the top-level package (or the file itself)."""
        return self._root(path.parent)

    def _root(self, folder: Path) -> Path:
        if folder not in self._roots:
            self._roots[folder] = self._root(folder.parent) if _is_package(folder) else folder
        return self._roots[folder]

    def is_project(self, folder: Path) -> bool:
        return any((folder / mark).exists() for mark in _PROJECT_MARKS)

    def place_of(self, path: Path) -> Path:
        """Return the path of a local file or folder within its package's parent or its project."""
        root = self.import_root(path)
        if root == path.parent and path.name != "__init__.py":  # not in a package: name it within the project
            root = next(filter(self.is_project, path.parents), root)
        return Path(*path.parts[len(root.parts) :])

    def name_of(self, path: Path) -> str:
        """Return the dotted name of a local module or namespace folder, unique among those asked for."""
        parts = list(self.place_of(path).parts)
        parts[-1] = path.stem if path.suffix == ".py" else path.name.split(".")[0]  # fast.cpython-312-linux.so
        name = ".".join(part for part in parts if part != "__init__") or path.parent.name
        while self._names.setdefault(name, path) != path:
            name += "~"
        return name

    def find(self, dotted: str, folder: Path) -> Path | Elsewhere:
        """Return the file (or namespace folder) of an absolute import in a file of ``folder``.

        "nowhere": not installed. "absent": the package is local, but has no such source file.
        """
        key = (folder, dotted)
        if key not in self._found:
            package, _, name = dotted.rpartition(".")
            found = self.find(package, folder) if package else self._find_top(name, folder)
            if package and isinstance(found, Path):
                found = self.submodule(found, name) or "absent"
            self._found[key] = found
        return self._found[key]

    def submodule(self, package: Path, name: str) -> Path | None:
        """Return the file of ``package.name``. package: an ``__init__.py`` or a namespace folder."""
        if package.name == "__init__.py":
            return self._first([package.parent], name)
        return self._first(self._portions.get(package, ()), name)

    def _find_top(self, top: str, folder: Path) -> Path | Elsewhere:
        roots = [self._root(folder), *self._search_path()]
        found = self._first(roots, top)
        if found is not None and found.suffix:
            return found
        if top in sys.stdlib_module_names:
            return "stdlib"
        if machinery.PathFinder.find_spec(top, [entry for entry in sys.path if INSTALLED & set(Path(entry).parts)]):
            return "external"
        # A script's own folder comes last, although Python looks there first. If the folder is a
        # package, its modules must not hide installed ones with the same names.
        return found or self._first([folder], top) or _ask_import_system(top)

    def _first(self, folders: Iterable[Path], name: str) -> Path | None:
        """Return a module in one of the folders; if there is none, the first folder of a namespace."""
        found = [child for folder in dict.fromkeys(folders) if (child := self._child(folder, name)) is not None]
        modules = [each for each in found if each.suffix]
        if found and not modules:
            self._portions[found[0]] = found
        return next(iter(modules or found), None)

    def _child(self, folder: Path, name: str) -> Path | None:
        if (folder, name) not in self._children:
            spec = self._finders.setdefault(folder, machinery.FileFinder(str(folder), *_LOADERS)).find_spec(name)
            self._children[folder, name] = Path(spec.origin or folder / name) if spec is not None else None
        return self._children[folder, name]

    def _search_path(self) -> list[Path]:
        searched = tuple(entry or os.getcwd() for entry in sys.path)
        if searched not in self._search_paths:
            entries = [Path(entry).resolve() for entry in searched]
            local = [each for each in entries if each.is_dir() and is_local(each)]
            self._search_paths[searched] = [each for each in local if not _is_package(each)]
        return self._search_paths[searched]


def _is_package(folder: Path) -> bool:
    return (folder / "__init__.py").is_file()


def _ask_import_system(top: str) -> Path | Elsewhere:
    """Find an editable install behind an import hook. find_spec of a top-level name imports nothing."""
    spec = None
    with suppress(ImportError, ValueError):
        spec = util.find_spec(top)
    if spec and spec.origin and spec.origin.endswith(".py") and is_local(Path(spec.origin)):
        return Path(spec.origin)
    return "external" if spec else "nowhere"


def python_version() -> str:
    """Return Python's major and minor version."""
    return ".".join(platform.python_version_tuple()[:2])


@functools.cache
def versions(top: str, found: bool) -> dict[str, str]:
    """Return distribution name and version of a top-level module. found: whether it can be imported here."""
    from importlib import metadata  # which imports email and zipfile

    for name in (_DISTRIBUTIONS.get(top, top), top):
        try:
            return {name: _version(name)}
        except metadata.PackageNotFoundError:
            continue
    names = sorted(set(_every_distribution().get(top, ()))) if found else []
    return {name: _version(name) for name in names} or {top: "unknown" if found else NOT_INSTALLED}


def _version(name: str) -> str:
    """Return the version of a distribution, without parsing its whole metadata. Raises PackageNotFoundError."""
    from importlib import metadata

    distribution = metadata.distribution(name)
    found = re.search(r"^Version: *(\S+) *$", distribution.read_text("METADATA") or "", re.MULTILINE)
    return found[1] if found else distribution.version


@functools.cache
def _every_distribution() -> Mapping[str, list[str]]:
    from importlib import metadata

    return metadata.packages_distributions()
