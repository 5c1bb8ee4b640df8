"""Text for ``marin microanneal``: a folder or file, a URL, or a dataset of the hub at a commit."""

from __future__ import annotations

import json
import re
from pathlib import Path

from marin.errors import BadField

NAME = re.compile(r"[^a-z0-9]+")
HUB = re.compile(r"([\w.-]+/[\w.-]+)(?:@([0-9a-f]{40}))?")


def candidate(option: str, given: str, text_field: str) -> tuple[str, str]:
    """Return the name and code of a candidate. option: the option that gave it, for messages.

    Raises BadField unless it is a file, a folder, a URL or a dataset at a commit.
    """
    field = "" if text_field == "text" else f", text_field={quoted(text_field)}"
    path = Path(given).expanduser()
    if "://" in given or path.exists():
        where = given if "://" in given else str(path.absolute())
        return name_of(where) or "candidate", f"Candidate(path={quoted(where)}{field})"
    named = HUB.fullmatch(given)
    if named is None:
        raise BadField(
            f"{option} {given}: there is no such file or folder; wanted one, a URL, or OWNER/NAME@COMMIT of the hub"
        )
    if not named[2]:
        raise BadField(
            f"{option} {given}: there is no such folder. For a dataset of the hub, give the commit too: "
            f"{given}@ and 40 hex digits, which its page shows under Files → History"
        )
    return slug(named[1].rpartition("/")[2]), f"Candidate(repo={quoted(named[1])}, revision={quoted(named[2])}{field})"


def name_of(where: str) -> str:
    """Return the name of a path or URL: its last part, without the ending."""
    return slug(Path(where.rstrip("/*")).name.partition(".")[0])


def slug(text: str) -> str:
    return NAME.sub("-", text.lower()).strip("-")


def quoted(text: str) -> str:
    """Return a text as a Python string literal in double quotes."""
    return json.dumps(text, ensure_ascii=False)
