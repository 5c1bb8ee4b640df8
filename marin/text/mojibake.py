"""Detect UTF-8 that was read as Latin-1 or Windows-1252: "Ã©" for "é", "â€™" for "’"."""

from __future__ import annotations

import re

# The characters for the bytes 0x80 … 0xbf in the two encodings. UTF-8 uses these bytes after the first of a character.
_LATER = "\x80-\xbf" + re.escape("".join(bytes([byte]).decode("cp1252", "ignore") for byte in range(0x80, 0xA0)))
_READ_WRONGLY = re.compile(f"[\xc2-\xdf][{_LATER}]|[\xe0-\xef][{_LATER}]{{2}}|[\xf0-\xf4][{_LATER}]{{3}}")
LEAST = 2  # one may be chance: "Spaß”"


def is_mojibake(text: str) -> bool:
    """Return whether most characters beyond ASCII look like bytes of UTF-8 read in another encoding."""
    if text.isascii():
        return False
    found = [match.group() for match in _READ_WRONGLY.finditer(text)]
    return len(found) >= LEAST and 2 * sum(map(len, found)) > sum(character > "\x7f" for character in text)
