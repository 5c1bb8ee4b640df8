"""A tokenizer for scoring: token ids with the place of each token in the text."""

# pyright: basic
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from marin.data.tokenizer import load_tokenizer
from marin.store.files.directory import Directory


@dataclass(frozen=True)
class Encoded:
    """An encoded text.

    ids: (n,) int32. ends: (n,) int32, the character after each token. A token begins at the end of the one before."""

    ids: np.ndarray
    ends: np.ndarray


class Encoder(Protocol):
    """A tokenizer as scoring uses it.

    start: the id before every text, as in training. eos: the id that ends a document. All ids are < vocabulary."""

    start: int
    eos: int
    vocabulary: int

    def encode(self, texts: Sequence[str]) -> list[Encoded]: ...

    def decode(self, ids: Sequence[int]) -> str: ...


class OffsetEncoder:
    """The Encoder of a tokenizer directory.

    before: the id that stood before every text in training, see ``Facts.before``; None for eos. Raises GarbledDocument
    if the directory holds no tokenizer, or if the tokenizer names no eos token.
    """

    def __init__(self, directory: Directory, before: int | None = None) -> None:
        self._loaded = load_tokenizer(directory)
        self.eos = self._loaded.eos
        self.start = self.eos if before is None else before
        self.vocabulary = self._loaded.vocabulary

    def encode(self, texts: Sequence[str]) -> list[Encoded]:
        encodings = self._loaded.tokenizer.encode_batch(list(texts), add_special_tokens=False)
        return [
            Encoded(
                np.asarray(encoding.ids, np.int32),
                # Offsets may leave out trimmed spaces; running ends give these spaces to the token that follows.
                np.maximum.accumulate(np.asarray([end for _, end in encoding.offsets], np.int32)),
            )
            for encoding in encodings
        ]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text without special tokens, as answers are read."""
        return self._loaded.tokenizer.decode(list(ids), skip_special_tokens=True)
