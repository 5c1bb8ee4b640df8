"""The excerpt of a set of documents that an evaluation reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from marin.data.documents import Document


def excerpt(documents: Iterable[Document], bytes_per_document: int, total_bytes: int) -> Iterator[Document]:
    """Yield the first documents, each cut to its first bytes_per_document, until total_bytes are reached."""
    left = total_bytes
    for document in documents:
        if left <= 0:
            return
        data = document.text.encode()[: min(bytes_per_document, left)]
        text = data.decode(errors="ignore")  # a character cut in two is left out
        left -= len(data)
        if text:
            yield Document(text, document.source, document.metadata)
