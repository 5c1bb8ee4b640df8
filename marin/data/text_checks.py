"""What may be wrong with batches, told from their text: the tokens are of another tokenizer, or the text is damaged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marin.data.batch_checks import FEW, Declared, by_source
from marin.data.batch_faults import Finding
from marin.data.batch_sample import BatchSample, Piece
from marin.data.tokenizer import LoadedTokenizer
from marin.text.mojibake import is_mojibake

TOKENS = 1 << 16  # of a source that are decoded
ENCODED_ALIKE = 0.95  # of the pairs of a source; what a sequence cuts in two encodes otherwise
SHORTEST = 200  # tokens of a source of which something can be said
DAMAGED = "\ufffd"
EDGE = 4  # characters at the ends of a piece, where a sequence may have cut one in two
CERTAIN = 3  # damaged texts; fewer are chance


@dataclass(frozen=True, kw_only=True)
class Read:
    """A piece in words."""

    piece: Piece
    text: str


def read_pieces(sample: BatchSample, tokenizer: LoadedTokenizer, special: Mapping[int, str]) -> dict[str, list[Read]]:
    """Text of some pieces of each source, from all batches; without special tokens and ids outside the vocabulary."""
    found: dict[str, list[Read]] = {}
    for name, pieces in by_source(sample).items():
        left, read = TOKENS, list[Read]()
        eos = sample.stores[pieces[0].source].meta.eos
        for piece in in_turns(pieces):
            if left <= 0:
                break
            left -= len(piece.tokens)
            read.append(Read(piece=piece, text=read_text(piece.tokens, tokenizer, {*special, eos})))
        found[name] = read
    return found


def read_text(tokens: NDArray[np.integer[Any]], tokenizer: LoadedTokenizer, skipped: set[int]) -> str:
    """Without special tokens and ids outside the vocabulary."""
    inside = (token for token in tokens.tolist() if 0 <= token < tokenizer.vocabulary)
    return tokenizer.decode(token for token in inside if token not in skipped)


def in_turns(pieces: Sequence[Piece]) -> Iterator[Piece]:
    """The first piece of every batch, the second of every batch …"""
    turns = Counter[int]()
    keyed: list[tuple[int, int, Piece]] = []
    for number, piece in enumerate(pieces):
        turns[piece.step] += 1
        keyed.append((turns[piece.step], number, piece))
    return (piece for _, _, piece in sorted(keyed, key=lambda each: each[:2]))


def encoded_alike(read: Sequence[Read], tokenizer: LoadedTokenizer, skipped: set[int]) -> tuple[int, int]:
    """Of how many pairs of neighbours how many come back when their text is encoded again, wherever they stand."""
    alike = total = 0
    for each, again in zip(read, tokenizer.encode(one.text for one in read), strict=True):
        before = Counter(pairwise(token for token in each.piece.tokens.tolist() if token not in skipped))
        alike += (before & Counter(pairwise(again.tolist()))).total()
        total += before.total()
    return total, alike


def text_findings(
    sample: BatchSample, read: Mapping[str, Sequence[Read]], tokenizer: LoadedTokenizer, declared: Declared
) -> tuple[list[Finding], dict[str, float]]:
    """And by source the share of tokens that come back."""
    findings, shares = list[Finding](), dict[str, float]()
    for name, of in read.items():
        eos = sample.stores[of[0].piece.source].meta.eos
        total, alike = encoded_alike(of, tokenizer, {*declared.special, eos})
        shares[name] = alike / total if total else 1.0
        if total >= SHORTEST and shares[name] < ENCODED_ALIKE:
            text = (
                f"{shares[name]:.1%} of the tokens are what their text encodes to; the others are of another tokenizer"
            )
            findings.append(Finding(kind="tokens", source=name, text=text))
        for what, damaged in (
            ("hold characters that could not be decoded", [one for one in of if DAMAGED in one.text[EDGE:-EDGE]]),
            ("are UTF-8 that was taken for another encoding", [one for one in of if is_mojibake(one.text)]),
        ):
            if len(damaged) >= CERTAIN and len(damaged) > FEW * len(of):
                shown = damaged[0].text.strip()[:60]
                text = f"{len(damaged)} of {len(of)} texts {what}, such as {shown!r}"
                findings.append(Finding(kind="characters", source=name, text=text))
    return findings, shares
