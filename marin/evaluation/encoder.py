"""A tokenizer for scoring: token ids together with where each token stands in the text."""

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
    """ids: (n,) int32. ends: (n,) int32, the character after each token; a token begins where the last one ended."""

    ids: np.ndarray
    ends: np.ndarray


class Encoder(Protocol):
    """start: the id that stands before every text, as in training. eos: that ends a document. ids < vocabulary."""

    start: int
    eos: int
    vocabulary: int

    def encode(self, texts: Sequence[str]) -> list[Encoded]: ...

    def decode(self, ids: Sequence[int]) -> str: ...


class OffsetEncoder:
    """The Encoder of a tokenizer directory. Raises GarbledDocument if it is none or names no eos token.

    before: the id that stood before every text in training, see ``Facts.before``; None for eos.
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
                # Offsets may leave out trimmed spaces; running ends give those to the token that follows.
                np.maximum.accumulate(np.asarray([end for _, end in encoding.offsets], np.int32)),
            )
            for encoding in encodings
        ]

    def decode(self, ids: Sequence[int]) -> str:
        """Without special tokens, as answers are read."""
        return self._loaded.tokenizer.decode(list(ids), skip_special_tokens=True)
