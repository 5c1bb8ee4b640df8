"""Making a store on a disk look as if nobody had touched it for days."""

import os
import time
from pathlib import Path
from typing import Any

from msgspec import structs

from marin.store.files.manifest import with_manifest
from marin.store.layout import RECORD, end_name
from marin.store.store import Store

DAY = 86400.0


def age(place: Path, days: float) -> None:
    """Make this file, or every file below this folder, so many days older. The contents stay."""
    for path in [place, *place.rglob("*")]:
        status = path.lstat()
        os.utime(path, (time.time(), status.st_mtime - days * DAY))


def rewrite_record(store: Store, identity: str, **changes: Any) -> None:
    """As if the output had been committed with these fields."""
    record = store.record(identity)
    assert record is not None
    content = structs.replace(record, **changes).to_bytes()
    store.objects.write(end_name(identity, record.token), content)
    if not record.alias_of:  # whose directory holds the record of another output
        store.objects.write(f"{record.attempt}/{RECORD}", with_manifest(content, store.manifest(record)))


def tree(place: Path) -> dict[str, tuple[int, int, bytes]]:
    """Everything that can be seen to change: inode, time and content by name; folders too."""
    return {
        str(path.relative_to(place)): (
            path.lstat().st_ino,
            path.lstat().st_mtime_ns,
            path.read_bytes() if path.is_file() else b"",
        )
        for path in sorted(place.rglob("*"))
    }
