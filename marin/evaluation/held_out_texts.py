"""Text that an evaluation uses, as far as a bound: to compare training text with."""

from __future__ import annotations

from marin.data.documents import read_documents
from marin.evaluation.excerpt import excerpt
from marin.evaluation.items import read_items
from marin.store.files.directory import Directory

PER_DOCUMENT = 100_000  # bytes


def texts_of_documents(directory: Directory, most: int) -> list[str]:
    """The first documents, until so many bytes are read."""
    return [document.text for document in excerpt(read_documents(directory), PER_DOCUMENT, most)]


def texts_of_items(directory: Directory, most: int) -> list[str]:
    """The first items, their fields one below the other, until so many bytes are read."""
    found: list[str] = []
    for item in read_items(directory):
        if most <= 0:
            break
        found.append("\n".join(item.fields.values()))
        most -= len(found[-1].encode())
    return found
