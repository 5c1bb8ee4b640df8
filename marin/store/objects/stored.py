"""The size, checksum and time that a store tells of a file."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from msgspec import Struct


class Stored(Struct, frozen=True):
    """The size, checksum and time of a stored file.

    checksum: the store's own, after its kind (``md5:``, ``crc32c:``, ``etag:``); "" if the store keeps none.
    modified: seconds since 1970 by the store's own clock; 0 if nobody asked for it.
    """

    size: int
    checksum: str
    modified: float = 0.0


def stored_of(entry: Mapping[str, Any]) -> Stored:
    """Read one entry of a listing, or one answer of ``info``, of any fsspec client."""
    if entry.get("md5Hash"):
        checksum = f"md5:{b64decode(entry['md5Hash']).hex()}"
    elif entry.get("crc32c"):
        checksum = f"crc32c:{entry['crc32c']}"
    else:
        etag = str(entry.get("ETag") or "").strip('"')
        checksum = f"etag:{etag}" if etag else ""
    when = entry.get("mtime") or entry.get("LastModified") or entry.get("created") or 0.0
    return Stored(
        size=int(entry["size"] if "size" in entry else entry["Size"]),
        checksum=checksum,
        modified=when.timestamp() if isinstance(when, datetime) else float(when),
    )
