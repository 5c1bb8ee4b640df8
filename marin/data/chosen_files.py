"""Which of a publisher's files a download takes: globs over their paths, without those that others name."""

from __future__ import annotations

import re
from collections.abc import Sequence

from marin.errors import InputError


def matches(name: str, patterns: Sequence[str]) -> bool:
    """Whether a relative path matches any glob; ``*`` stays within a folder, ``**`` crosses folders."""
    return any(re.fullmatch(_glob(pattern), name) for pattern in patterns)


def chosen(names: Sequence[str], patterns: Sequence[str], excludes: Sequence[str], where: str) -> list[str]:
    """Those that match a pattern and no exclude. Raises InputError if there is none, or an exclude matches nothing:
    it may be misspelt, and what it should have kept out would be in."""
    for exclude in excludes:
        if not any(matches(name, [exclude]) for name in names):
            raise InputError(
                f"{where}: the exclude {exclude} matches none of its {len(names)} files; they look like "
                f"{some(names)}. Correct it, or take it away"
            )
    found = [name for name in names if matches(name, patterns) and not matches(name, excludes)]
    if not found:
        without = f" and none of {', '.join(excludes)}" if excludes else ""
        raise InputError(f"{where}: no file matches {', '.join(patterns)}{without}; it holds {some(names)}")
    return found


def spread[T](names: Sequence[T], most: int | None) -> list[T]:
    """At most so many, evenly from the first to the last."""
    if most is None or most >= len(names):
        return list(names)
    return [names[len(names) * number // most] for number in range(most)]


def _glob(pattern: str) -> str:
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", pattern)
    meaning = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return "".join(meaning.get(part, re.escape(part)) for part in parts)


def some(names: Sequence[str]) -> str:
    """A few names, and how many there are."""
    return ", ".join(names[:5]) + (f" … ({len(names)} files)" if len(names) > 5 else "") or "nothing"
