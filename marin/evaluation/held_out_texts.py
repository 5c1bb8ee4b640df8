"""The first texts of an evaluation, up to a bound, to compare training text with."""

from __future__ import annotations

from marin.data.documents import read_documents
from marin.evaluation.excerpt import excerpt
from marin.evaluation.items import read_items
from marin.store.files.directory import Directory

PER_DOCUMENT = 100_000  # bytes


def texts_of_documents(directory: Directory, most: int) -> list[str]:
    """Return the first documents, up to this many bytes."""
    return [document.text for document in excerpt(read_documents(directory), PER_DOCUMENT, most)]


def texts_of_items(directory: Directory, most: int) -> list[str]:
    """Return the first items until this many bytes are reached; the fields of an item stand one below the other."""
    found: list[str] = []
    for item in read_items(directory):
        if most <= 0:
            break
        found.append("\n".join(item.fields.values()))
        most -= len(found[-1].encode())
    return found
