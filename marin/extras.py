"""Which extra of marin brings a package that is not installed, so that an error can say what to type.

The light install plans, explains and looks; what runs, reads data, trains and evaluates comes with extras. The
installed metadata of marin says which package is in which.
"""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import re

from marin.errors import MissingDependency

# Modules by the distribution that brings them, where that is not called like them.
BROUGHT_BY = {"aiohttp": "gcsfs", "levanter": "marin-levanter"} | dict.fromkeys(
    ("equinox", "haliax", "jax", "jmp", "optax"), "marin-levanter"
)
INSTEAD = {"ray": ", or run with --backend inline"}
_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+).*;.*\bextra == ['\"]([\w-]+)['\"]")


def missing_dependency(error: BaseException, who: str = "this") -> MissingDependency | None:
    """What to raise instead, if the error is that a package of an extra is not installed. who: needs it."""
    while isinstance(error, ImportError):
        package = (error.name or "").partition(".")[0]
        if package and (extra := extra_with(package)) and _is_absent(package):
            remedy = f"pip install 'marin[{extra}]'{INSTEAD.get(package, '')}"
            return MissingDependency(f"{who} needs {package}, which is not installed: {remedy}")
        # fsspec wraps the error of an import, Ray that of a worker.
        error = error.__cause__ or getattr(error, "cause", None) or Exception()
    return None


def extra_with(module: str) -> str:
    """The smallest extra that brings a module; "" if none does."""
    distribution = BROUGHT_BY.get(module, module.replace("_", "-"))
    found = [(len(held), extra) for extra, held in _extras().items() if distribution in held]
    return min(found, default=(0, ""))[1]


@functools.cache
def _extras() -> dict[str, set[str]]:
    """Distributions by extra."""
    try:
        lines = importlib.metadata.requires("marin") or []
    except importlib.metadata.PackageNotFoundError:
        return {}
    found: dict[str, set[str]] = {}
    for line in lines:
        if parts := _REQUIREMENT.match(line):
            found.setdefault(parts[2], set()).add(parts[1].lower().replace("_", "-"))
    return found


def _is_absent(package: str) -> bool:
    """Not if it is there and breaks for another reason."""
    try:
        return importlib.util.find_spec(package) is None
    except (ImportError, ValueError):
        return True
