"""Encode text faster to the same token ids: tiktoken with the merges of a tokenizer.json.

A tokenizer.json with a feature that tiktoken lacks has no quick way. Other differences are caught by comparison: some
documents are encoded both ways, and the first that differs ends the quick way.

tiktoken ranks a merge by its bytes. The ids are filled in afterwards, so their order does not matter.
"""

# pyright: basic
from __future__ import annotations

import itertools
import os
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marin.data.tokenizer import DOCUMENTS_PER_BATCH, LoadedTokenizer

Ids = NDArray[np.uint32]

COMPARED_EVERY = 32  # documents
LONGEST = 1_000_000  # characters; tiktoken's regular expressions fail on longer runs without a space
# The split of GPT-2 (Radford et al. 2019), and the same split after single digits.
_WORDS = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_WORDS_AND_DIGITS = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|\s+(?=\p{N})|\s+(?!\S)|\s+"


class Unequal(Exception):
    """The quick way and the tokenizer gave a document different ids."""


class QuickBpe:
    """A tiktoken encoder for a tokenizer. content: of a tokenizer.json that ``can_be_quick``."""

    def __init__(self, content: Mapping[str, Any]) -> None:
        import tiktoken

        vocabulary: Mapping[str, int] = content["model"]["vocab"]
        ranks, ids = _ranks(content["model"]["merges"], vocabulary)
        # The longest normal added token goes first, as in the original.
        added = sorted(
            (each for each in content["added_tokens"] if not each["special"]), key=lambda t: -len(t["content"])
        )
        special = {each["content"]: len(ids) + place for place, each in enumerate(added)}
        self._ids = np.array([*ids, *(each["id"] for each in added)], np.uint32)
        self._added, self._form = set(special), (content.get("normalizer") or {}).get("type")
        pattern = _pattern(content["pre_tokenizer"])
        assert pattern is not None
        self._encoding = tiktoken.Encoding("quick", pat_str=pattern, mergeable_ranks=ranks, special_tokens=special)
        self._threads = len(os.sched_getaffinity(0))

    def encode(self, texts: Sequence[str]) -> Iterator[Ids]:
        """Return the ids of each text, in order."""
        if self._form:
            texts = [unicodedata.normalize(self._form, text) for text in texts]
        with ThreadPoolExecutor(self._threads) as pool:
            return iter(list(pool.map(self._encoded, texts)))

    def _encoded(self, text: str) -> Ids:
        found = self._encoding.encode_to_numpy(text, allowed_special=self._added, disallowed_special=())
        return self._ids[found]


class Compared:
    """A tokenizer's ids by the quick way. documents: number encoded both ways so far, all with equal ids."""

    def __init__(self, tokenizer: LoadedTokenizer, quick: QuickBpe) -> None:
        self._tokenizer, self._quick, self.documents = tokenizer, quick, 0

    def encode(self, texts: Iterable[str]) -> Iterator[Ids]:
        """Yield ids like LoadedTokenizer.encode. Raises Unequal; then all earlier ids may be wrong too."""
        for batch in itertools.batched(texts, DOCUMENTS_PER_BATCH):
            short = [text for text in batch if len(text) <= LONGEST]
            quickly = self._quick.encode(short)
            slowly = self._tokenizer.encode([text for text in batch if len(text) > LONGEST])
            compared = self._tokenizer.encode(short[::COMPARED_EVERY])
            place = 0
            for text in batch:
                if len(text) > LONGEST:
                    yield next(slowly)
                    continue
                ids = next(quickly)
                if place % COMPARED_EVERY == 0:
                    if not np.array_equal(ids, next(compared)):
                        raise Unequal
                    self.documents += 1
                place += 1
                yield ids


def can_be_quick(content: Mapping[str, Any]) -> bool:
    """Return whether tiktoken supports everything in a tokenizer.json."""
    model = content["model"]
    plain = not any(model.get(name) for name in ("dropout", "continuing_subword_prefix", "end_of_word_suffix"))
    normal = (content.get("normalizer") or {"type": "NFC"}).get("type") in ("NFC", "NFKC", "NFD", "NFKD")
    whole = all(not (each["single_word"] or each["lstrip"] or each["rstrip"]) for each in content["added_tokens"])
    return model["type"] == "BPE" and plain and normal and whole and _pattern(content.get("pre_tokenizer")) is not None


def _pattern(split: Any) -> str | None:
    """Return the regular expression of a byte-level split, or None for an unknown split."""
    steps = split["pretokenizers"] if (split or {}).get("type") == "Sequence" else [split]
    *before, last = steps
    if (last or {}).get("type") != "ByteLevel" or last.get("add_prefix_space"):
        return None
    if not before:
        return _WORDS if last.get("use_regex", True) else None
    first = before[0]
    if len(before) > 1:
        return None
    if first["type"] == "Digits" and first["individual_digits"] and last.get("use_regex", True):
        return _WORDS_AND_DIGITS
    is_split = first["type"] == "Split" and first["behavior"] == "Isolated" and not first["invert"]
    return first["pattern"].get("Regex") if is_split and not last.get("use_regex", True) else None


def _ranks(merges: Sequence[Any], vocabulary: Mapping[str, int]) -> tuple[dict[bytes, int], list[int]]:
    """Return the rank of each token's bytes (single bytes first, then merges in order) and the id of each rank."""
    byte_of = {character: byte for byte, character in enumerate(_characters())}
    names = [*byte_of, *("".join(merge.split(" ") if isinstance(merge, str) else merge) for merge in merges)]
    ranks: dict[bytes, int] = {}
    ids: list[int] = []
    for name in names:
        token = bytes(byte_of[character] for character in name)
        if token not in ranks and name in vocabulary:
            ranks[token] = len(ids)
            ids.append(vocabulary[name])
    return ranks, ids


def _characters() -> list[str]:
    """Return the character for each byte in a byte-level vocabulary: itself if printable, else one from U+0100 on."""
    printed = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    rest = iter(range(0x100, 0x200))
    return [chr(byte if byte in printed else next(rest)) for byte in range(0x100)]
