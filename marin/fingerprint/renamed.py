"""Packages that had other names: stores name code by its module, and what was made under the old name is the same."""

from __future__ import annotations

import re

from marin.steps.our_packages import RENAMED

_BEFORE = {now: then for then, now in RENAMED.items()}
_OLD = re.compile(r"\bmarin_(?:datasets|infra|operators)\b")
_NEW = re.compile(r"(?<![\w.])(?:operators\.datasets|operators|infra)\b")


def named_today(text: str) -> str:
    """A unit's name or text from a store, with today's names of packages."""
    return _OLD.sub(lambda found: RENAMED[found[0]], text)


def named_before(text: str) -> str:
    """A unit's text of today as it was under the old names."""
    return _NEW.sub(lambda found: _BEFORE[found[0]], text)


def path_today(path: str) -> str:
    """Of a file, relative to its project."""
    return _OLD.sub(lambda found: RENAMED[found[0]].replace(".", "/"), path)
