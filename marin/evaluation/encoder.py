"""A tokenizer for scoring: token ids together with where each token stands in the text."""

# pyright: basic
from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from marin.directory import Directory
from marin.errors import InputError

TOKENIZER_FILE = "tokenizer.json"
CONFIG_FILE = "tokenizer_config.json"


@dataclass(frozen=True)
class Encoded:
    """ids: (n,) int32. ends: (n,) int32, the character after each token; a token begins where the last one ended."""

    ids: np.ndarray
    ends: np.ndarray


class Encoder(Protocol):
    """start: the id that stands before every text, the separator between documents in training."""

    start: int
    vocabulary: int

    def encode(self, texts: Sequence[str]) -> list[Encoded]: ...

    def decode(self, ids: Sequence[int]) -> str: ...


class HuggingFaceEncoder:
    """Encoder over a ``tokenizers.Tokenizer``."""

    def __init__(self, tokenizer, start: int) -> None:
        self.start = start
        self.vocabulary = tokenizer.get_vocab_size()
        self._tokenizer = tokenizer

    def encode(self, texts: Sequence[str]) -> list[Encoded]:
        encodings = self._tokenizer.encode_batch(list(texts), add_special_tokens=False)
        return [
            Encoded(
                np.asarray(encoding.ids, np.int32),
                # Offsets leave out trimmed spaces; running ends give those to the token that follows.
                np.maximum.accumulate(np.asarray([end for _, end in encoding.offsets], np.int32)),
            )
            for encoding in encodings
        ]

    def decode(self, ids: Sequence[int]) -> str:
        return self._tokenizer.decode(list(ids), skip_special_tokens=False)


def load_encoder(directory: Directory) -> HuggingFaceEncoder:
    """The tokenizer in a directory, texts starting with its end-of-text token (else its beginning-of-text).

    Raises InputError if neither token is named in tokenizer_config.json and in the vocabulary.
    """
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_str(directory.read_text(TOKENIZER_FILE))
    config = json.loads(directory.read_text(CONFIG_FILE)) if directory.exists(CONFIG_FILE) else {}
    for key in ("eos_token", "bos_token"):
        named = config.get(key)
        token = named.get("content") if isinstance(named, dict) else named
        if token is not None and (start := tokenizer.token_to_id(token)) is not None:
            return HuggingFaceEncoder(tokenizer, start)
    raise InputError(
        f"{directory.url}: {CONFIG_FILE} names no eos_token or bos_token that {TOKENIZER_FILE} holds; "
        "scoring starts every text with the token that separates documents in training, so add it"
    )
