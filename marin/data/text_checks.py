"""Checks of a training's batches that need the text: tokens of another tokenizer, and damaged text."""

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

TOKENS = 1 << 16  # tokens per source to decode
ENCODED_ALIKE = 0.95  # share of a source's token pairs; text cut at the end of a sequence encodes differently
SHORTEST = 200  # the fewest pairs of a source that allow a judgement
DAMAGED = "\ufffd"
EDGE = 4  # characters at the ends of a piece, where a sequence may cut a character in two
CERTAIN = 3  # damaged texts; fewer may be chance


@dataclass(frozen=True, kw_only=True)
class Read:
    """A piece with its text."""

    piece: Piece
    text: str


def read_pieces(sample: BatchSample, tokenizer: LoadedTokenizer, special: Mapping[int, str]) -> dict[str, list[Read]]:
    """Return the text of some pieces of each source, from all batches, decoded as by ``read_text``."""
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
    """Return the text of tokens, without the skipped (special) tokens and ids outside the vocabulary."""
    inside = (token for token in tokens.tolist() if 0 <= token < tokenizer.vocabulary)
    return tokenizer.decode(token for token in inside if token not in skipped)


def in_turns(pieces: Sequence[Piece]) -> Iterator[Piece]:
    """Return the first piece of every batch, then the second of every batch, and so on."""
    turns = Counter[int]()
    keyed: list[tuple[int, int, Piece]] = []
    for number, piece in enumerate(pieces):
        turns[piece.step] += 1
        keyed.append((turns[piece.step], number, piece))
    return (piece for _, _, piece in sorted(keyed, key=lambda each: each[:2]))


def encoded_alike(read: Sequence[Read], tokenizer: LoadedTokenizer, skipped: set[int]) -> tuple[int, int]:
    """Return the number of adjacent token pairs, and how many recur, at any place, after encoding the text again."""
    alike = total = 0
    for each, again in zip(read, tokenizer.encode(one.text for one in read), strict=True):
        before = Counter(pairwise(token for token in each.piece.tokens.tolist() if token not in skipped))
        alike += (before & Counter(pairwise(again.tolist()))).total()
        total += before.total()
    return total, alike


def text_findings(
    sample: BatchSample, read: Mapping[str, Sequence[Read]], tokenizer: LoadedTokenizer, declared: Declared
) -> tuple[list[Finding], dict[str, float]]:
    """Return the findings, and by source the share of token pairs that recur after encoding again."""
    findings, shares = list[Finding](), dict[str, float]()
    for name, of in read.items():
        eos = sample.stores[of[0].piece.source].meta.eos
        total, alike = encoded_alike(of, tokenizer, {*declared.special, eos})
        shares[name] = alike / total if total else 1.0
        if total >= SHORTEST and shares[name] < ENCODED_ALIKE:
            text = f"only {shares[name]:.1%} of the tokens recur when the text is encoded again: another tokenizer"
            findings.append(Finding(kind="tokens", source=name, text=text))
        for what, damaged in (
            ("hold characters that could not be decoded", [one for one in of if DAMAGED in one.text[EDGE:-EDGE]]),
            ("are UTF-8 that was read as another encoding", [one for one in of if is_mojibake(one.text)]),
        ):
            if len(damaged) >= CERTAIN and len(damaged) > FEW * len(of):
                shown = damaged[0].text.strip()[:60]
                text = f"{len(damaged)} of {len(of)} texts {what}, such as {shown!r}"
                findings.append(Finding(kind="characters", source=name, text=text))
    return findings, shares
