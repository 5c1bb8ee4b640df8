"""Sequences of a token store as a training run reads them: every single token, and the ends of documents."""

# pyright: basic
from __future__ import annotations

from typing import Any

from marin.report.contents import tokenizer_of
from marin.report.serve.looked import StoreView
from marin.store.record import Record

SEQUENCES, LENGTH = 4, 256  # sequences of a page; tokens of a sequence, unless the reader chooses a length
SHORTEST, LONGEST = 8, 8192


def tokens_page(looked: StoreView, record: Record, first: int, length: int) -> dict[str, Any]:
    """Return some sequences of this length from the first on: ids only if the store has no tokenizer for them."""
    import numpy as np
    from tokenizers.decoders import DecodeStream

    from marin.data.token_store import TokenStore
    from marin.data.tokenizer import load_tokenizer

    store, folder = TokenStore.open(looked.store.output(record)), tokenizer_of(looked.inventory, record)
    length = min(max(length, SHORTEST), LONGEST)
    total = -(-store.meta.tokens // length)  # the last sequence may be short
    first = min(first, max(total - 1, 0))
    tokenizer = load_tokenizer(folder).tokenizer if folder is not None else None
    sequences: list[dict[str, Any]] = []
    for number in range(first, min(first + SEQUENCES, total)):
        start = number * length
        ids = [int(token) for token in store.tokens[start : start + length]]
        document = int(store.document_of(np.array([start]))[0])
        behind = enumerate(store.offsets[document + 1 : document + 1 + length], document)
        ends = {int(end) - 1 - start: number for number, end in behind if end <= start + length}
        stream = DecodeStream(skip_special_tokens=False) if tokenizer is not None else None
        sequences.append(
            {
                "number": number,
                "document": document,  # the document that holds its first token,
                "token": start - int(store.offsets[document]),  # and the place of the token in the document
                "tokens": _tokens(ids, ends, stream, tokenizer),
            }
        )
    decoded = tokenizer is not None
    return {"length": length, "first": first, "total": total, "sequences": sequences, "decoded": decoded}


def _tokens(
    ids: list[int], ends: dict[int, int], stream: Any, tokenizer: Any
) -> list[tuple[list[int], str, int | None]]:
    """Return (ids, text, document that ends there).

    The text is streamed: a token that ends inside a character is joined with the tokens that complete the character.
    """
    found: list[tuple[list[int], str, int | None]] = []
    waiting: list[int] = []
    for position, token in enumerate(ids):
        text = f"{token} " if stream is None else stream.step(tokenizer, token)
        waiting.append(token)
        if text is not None or position in ends or position + 1 == len(ids):
            found.append((waiting, text if text is not None else "\N{REPLACEMENT CHARACTER}", ends.get(position)))
            waiting = []
    return found
