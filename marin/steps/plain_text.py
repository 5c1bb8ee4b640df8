"""What a name may hold: text that shows as what it is, on one line of a terminal, a page and a log."""

from __future__ import annotations

import re

# Control characters, line and paragraph separators, what turns the direction of the text around it, half characters.
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def unprintable(text: str) -> str:
    """The first character of a name that must not be there, as people look it up; "" if there is none."""
    found = _UNPRINTABLE.search(text)
    if found is None:
        return ""
    character = found[0]
    known = {"\n": "a line break", "\r": "a carriage return", "\t": "a tab"}
    if character in known:
        return known[character]
    import unicodedata  # a megabyte of tables, which names that are fine do not need

    kind = unicodedata.name(character, "half a character" if character >= "\ud800" else "a control character")
    return f"U+{ord(character):04X} ({kind})"
