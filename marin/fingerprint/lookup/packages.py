"""Versions of the distributions that installed modules come from."""

from __future__ import annotations

import functools
import platform
from importlib import metadata

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


def python_version() -> str:
    """Major and minor."""
    return ".".join(platform.python_version_tuple()[:2])


@functools.cache
def versions(top: str, found: bool) -> dict[str, str]:
    """Distribution name and version for a top-level module. found: whether it can be imported here."""
    for name in (_DISTRIBUTIONS.get(top, top), top):
        try:
            return {name: metadata.version(name)}
        except metadata.PackageNotFoundError:
            continue
    names = sorted(set(_every_distribution().get(top, ()))) if found else []
    return {name: metadata.version(name) for name in names} or {top: "unknown" if found else NOT_INSTALLED}


_every_distribution = functools.cache(metadata.packages_distributions)
