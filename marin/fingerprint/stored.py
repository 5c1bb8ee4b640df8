"""Code fingerprints in a store, by their digest, so that a later plan can show what changed."""

from __future__ import annotations

import json
from typing import Any

from marin.errors import CorruptRecord
from marin.fingerprint.fingerprint import CodeFingerprint
from marin.store.documents import BadDocument, parse_json
from marin.store.layout import code_name
from marin.store.redaction import without_credentials
from marin.store.store import Store


def stored_code(store: Store, digest: str) -> CodeFingerprint | None:
    """With its sources; None if it was never stored. Raises CorruptRecord."""
    name = code_name(digest)
    content = store.objects.read(name)
    try:
        return CodeFingerprint.from_json(parse_json(content)) if content else None
    except (BadDocument, CorruptRecord) as error:
        where = f"{store.prefix}/{name}"
        raise CorruptRecord(f"{where} is not readable; delete it: only the old source is lost ({error})") from error


def store_code(store: Store, digest: str, described: dict[str, Any]) -> None:
    """Unless it is there. described: what ``CodeFingerprint.to_json`` gives."""
    name = code_name(digest)
    if not store.objects.read(name):
        store.objects.write(name, json.dumps(without_credentials(described), sort_keys=True).encode())
