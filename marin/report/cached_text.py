"""The text that a committed output holds, a shard at a time, and where it stands there: documents, tokens decoded."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from marin.errors import InputError
from marin.report.contents import tokenizer_of
from marin.store.files.directory import Directory
from marin.store.inventory import Inventory
from marin.store.record import Record

if TYPE_CHECKING:
    from marin.data.tokenizer import LoadedTokenizer

KINDS = ("documents", "tokens")  # of artifacts that hold training text
AT_ONCE = 4096  # documents of a token store that count as a shard of it


def cached_text(inventory: Inventory, record: Record, every: int = 1) -> Iterator[tuple[str, str]]:
    """(where it stands, text) of each document. every: only of one shard in so many. Memory: a row group of documents.

    Raises a MarinError or OSError for what cannot be read: damaged, or tokens of which the tokenizer is not there.
    """
    output = inventory.store.output(record)
    return _documents(output, every) if record.kind == "documents" else _tokens(inventory, record, output, every)


def _documents(output: Directory, every: int) -> Iterator[tuple[str, str]]:
    from marin.data.documents import read_shard, shard_names

    for name in shard_names(output)[::every]:
        for row, document in enumerate(read_shard(output, name)):
            yield f"{name} row {row}", document.text


def _tokens(inventory: Inventory, record: Record, output: Directory, every: int) -> Iterator[tuple[str, str]]:
    from marin.data.token_store import TokenStore
    from marin.data.tokenizer import check_digest

    digest, folder = record.facts["tokenizer"], tokenizer_of(inventory, record)
    if folder is None:
        raise InputError(
            f"its tokenizer is not in this store, nor another of the digest {digest[:12]}; make it here, with "
            "PretrainedTokenizer or FolderTokenizer for one that came from elsewhere"
        )
    tokenizer = _loaded(folder)
    check_digest(tokenizer, digest, folder)
    store = TokenStore.open(output)
    for first in range(0, store.meta.documents, AT_ONCE * every):
        for number in range(first, min(first + AT_ONCE, store.meta.documents)):
            start, end = int(store.offsets[number]), int(store.offsets[number + 1])
            yield f"document {number}", tokenizer.decode(store.tokens[start:end].tolist())


@lru_cache(maxsize=1)  # the stores of one experiment share it
def _loaded(folder: Directory) -> LoadedTokenizer:
    from marin.data.tokenizer import load_tokenizer

    return load_tokenizer(folder)
