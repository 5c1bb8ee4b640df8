"""Open the control files of a store, on whatever holds the store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from marin.errors import BadPrefix
from marin.store.objects.local import LocalObjects

if TYPE_CHECKING:
    from marin.store.objects.remote import RemoteObjects

type Objects = LocalObjects | RemoteObjects


def open_objects(prefix: str) -> Objects:
    """Open the control files of the store at ``prefix``.

    Raises BadPrefix if the prefix is malformed, its parent is missing or no store can be there.
    """
    if not prefix.strip():
        raise BadPrefix("the prefix is empty; name the store's place, e.g. --prefix ./store")
    if "://" not in prefix:
        return LocalObjects(Path(prefix))
    scheme = prefix.split("://", 1)[0]
    if scheme in ("memory", "gs", "s3"):
        from marin.store.objects.remote import RemoteObjects

        return RemoteObjects(prefix)
    raise BadPrefix(
        f"{prefix}: a store cannot be on {scheme}://, because it needs conditional writes. Use a local path (not a "
        "mounted bucket), memory://, gs:// or s3://"
    )
