"""Choose the files that a download takes: the paths that match a glob and no exclude."""

from __future__ import annotations

import re
from collections.abc import Sequence

from marin.errors import InputError


def matches(name: str, patterns: Sequence[str]) -> bool:
    """Return whether a relative path matches any glob. ``*`` stays within a folder, ``**`` crosses folders."""
    return any(re.fullmatch(_glob(pattern), name) for pattern in patterns)


def chosen(names: Sequence[str], patterns: Sequence[str], excludes: Sequence[str], where: str) -> list[str]:
    """Return the names that match a pattern and no exclude.

    Raises InputError if no name is left, or if an exclude matches nothing: it may be misspelt, and the files that it
    should keep out would get in.
    """
    for exclude in excludes:
        if not any(matches(name, [exclude]) for name in names):
            raise InputError(
                f"{where}: the exclude {exclude} matches none of its {len(names)} files; they look like "
                f"{some(names)}. Correct the exclude, or remove it"
            )
    found = [name for name in names if matches(name, patterns) and not matches(name, excludes)]
    if not found:
        without = f" and none of {', '.join(excludes)}" if excludes else ""
        raise InputError(f"{where}: no file matches {', '.join(patterns)}{without}; it holds {some(names)}")
    return found


def spread[T](names: Sequence[T], most: int | None) -> list[T]:
    """Return at most ``most`` names, spread evenly over the list. None: all."""
    if most is None or most >= len(names):
        return list(names)
    return [names[len(names) * number // most] for number in range(most)]


def _glob(pattern: str) -> str:
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", pattern)
    meaning = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return "".join(meaning.get(part, re.escape(part)) for part in parts)


def some(names: Sequence[str]) -> str:
    """Return the first few names and the total as text."""
    return ", ".join(names[:5]) + (f" … ({len(names)} files)" if len(names) > 5 else "") or "nothing"
