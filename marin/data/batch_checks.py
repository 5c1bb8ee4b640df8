"""Checks of a training's batches that need only the tokens: shape, vocabulary, boundaries, padding, order.

Each check looks at one thing and finds nothing if the batches are correct.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marin.data.batch_faults import Finding
from marin.data.batch_sample import BatchSample, Piece
from marin.data.permutation import raw_stream

FEW = 0.01  # share of faulty documents that a clean source stays below
PADDING, CHAT_PADDING = 0.05, 0.5  # share of all tokens or pieces; the second for chats, which are packed whole
ONE_TOKEN = 0.9  # share of a piece; tables and drawings in plain text come near
CUT, CUT_DOCUMENTS = 0.1, 10  # share of documents that are as long as the longest; the least number of them
OFTEN, DEVIATIONS = 0.2, 6.0  # bounds on the error of a share: relative, and in standard deviations
SHUFFLES, FAR = 200, 8.0  # random orders to compare lengths with; standard deviations beyond chance


@dataclass(frozen=True, kw_only=True)
class Declared:
    """The tokens to expect. special: names of the special tokens by id. bos: id that begins every document."""

    vocabulary: int
    special: Mapping[int, str]
    bos: int | None = None


type Check = Callable[[BatchSample, Declared], Iterator[Finding]]


def shape(sample: BatchSample, declared: Declared) -> Iterator[Finding]:
    del declared
    wrong: list[str] = []
    for batch in sample.batches:
        wanted = sample.order.batch.sequences_before(batch.step + 1) - sample.order.batch.sequences_before(batch.step)
        rows, width = batch.tokens.shape
        if len(batch.source) != wanted:
            wrong.append(f"step {batch.step} has {len(batch.source)} sequences, wanted {wanted}")
        elif (rows, width) != (len(batch.places), sample.seq_len):
            wanted = f"{len(batch.places)} × {sample.seq_len}"
            wrong.append(f"step {batch.step} gave {rows} × {width} tokens, wanted {wanted}")
    if wrong:
        yield Finding(kind="shape", text=f"{len(wrong)} of {len(sample.batches)} batches, such as: {wrong[0]}")


def vocabulary(sample: BatchSample, declared: Declared) -> Iterator[Finding]:
    for name, pieces in by_source(sample).items():
        for piece in pieces:
            outside = piece.tokens[(piece.tokens < 0) | (piece.tokens >= declared.vocabulary)]
            if len(outside):
                text = f"token {int(outside[0])} in step {piece.step}; the tokenizer has 0 … {declared.vocabulary - 1}"
                yield Finding(kind="vocabulary", source=name, text=text)
                break


def boundaries(sample: BatchSample, declared: Declared) -> Iterator[Finding]:
    """Check that eos stands at the end of every document and nowhere else.

    In a store with a mask (packed chats) check only the ends, because the padding is eos too.
    """
    for name, pieces in by_source(sample).items():
        store = sample.stores[pieces[0].source]
        eos = store.meta.eos
        ended = [piece for piece in pieces if piece.ends and len(piece.tokens)]
        open_ends = sum(int(piece.tokens[-1]) != eos for piece in ended)
        if open_ends:
            text = f"{open_ends} of {len(ended)} documents do not end with the end-of-sequence token ({eos})"
            yield Finding(kind="boundaries", source=name, text=text)
        begun = declared.bos == eos  # GPT-2 has one token for both
        inner = [piece.tokens[int(begun and piece.begins) : -1] for piece in pieces]
        inside = 0 if store.mask is not None else sum(int((tokens == eos).sum()) for tokens in inner)
        if inside:
            text = f"the end-of-sequence token ({eos}) occurs {inside} times inside documents"
            yield Finding(kind="boundaries", source=name, text=text)


def special(sample: BatchSample, declared: Declared) -> Iterator[Finding]:
    for name, pieces in by_source(sample).items():
        store = sample.stores[pieces[0].source]
        if store.mask is not None:  # the template of chats writes special tokens
            continue
        begun = [piece.tokens for piece in pieces if piece.begins and len(piece.tokens) > 1]
        if declared.bos is not None:
            bos = declared.bos
            missing = sum(int(tokens[0]) != bos for tokens in begun)
            again = sum(int((piece.tokens[piece.begins :] == bos).sum()) for piece in pieces)
            if missing or again:
                text = (
                    f"{missing} of {len(begun)} documents do not begin with {declared.special.get(bos, bos)}; it "
                    f"occurs {again} times elsewhere"
                )
                yield Finding(kind="special", source=name, text=text)
        known = [store.meta.eos, *([] if declared.bos is None else [declared.bos])]
        others = [token for token in declared.special if token not in known]
        tokens = np.concatenate([piece.tokens for piece in pieces])
        strange = tokens[np.isin(tokens, others)]
        if len(strange):
            token, count = int(strange[0]), len(strange)
            text = (
                f"special tokens such as {declared.special[token]} ({token}) occur {count} times in the text; if they "
                "begin the documents, declare bos"
            )
            yield Finding(kind="special", source=name, text=text)


def empty(sample: BatchSample, declared: Declared) -> Iterator[Finding]:
    del declared
    for name, pieces in by_source(sample).items():
        lengths = documents(pieces)
        hollow = sum(length <= 1 for length in lengths)
        if hollow > FEW * len(lengths):
            yield Finding(kind="empty", source=name, text=f"{hollow} of {len(lengths)} documents hold no text")


def padding(sample: BatchSample, declared: Declared) -> Iterator[Finding]:
    fillers = np.array([*declared.special], np.int64)
    for name, pieces in by_source(sample).items():
        store = sample.stores[pieces[0].source]
        tokens = np.concatenate([piece.tokens for piece in pieces])
        share = float((np.isin(tokens, fillers)[1:] & (tokens[1:] == tokens[:-1])).sum() / max(len(tokens), 1))
        if share > (PADDING if store.mask is None else CHAT_PADDING):
            yield Finding(kind="padding", source=name, text=f"{share:.1%} of the tokens repeat a special token")
            continue
        filled = [piece for piece in pieces if _filled(piece)]
        if len(filled) > PADDING * len(pieces):
            token = int(filled[0].tokens[0])
            text = f"{len(filled)} of {len(pieces)} pieces consist almost entirely of one token, such as {token}"
            yield Finding(kind="padding", source=name, text=text)


def _filled(piece: Piece) -> bool:
    if len(piece.tokens) < 32:
        return False
    return int(np.unique(piece.tokens, return_counts=True)[1].max()) >= ONE_TOKEN * len(piece.tokens)


def repeated(sample: BatchSample, declared: Declared) -> Iterator[Finding]:
    del declared
    seen: dict[bytes, int] = {}
    again = list[str]()
    for batch in sample.batches:
        pairs = np.stack((batch.source, batch.sequence))
        before = seen.setdefault(pairs[:, np.lexsort(pairs)].tobytes(), batch.step)
        if before != batch.step:
            again.append(f"step {batch.step} has the same batch as step {before}")
    if again:
        yield Finding(kind="repeated", text=f"{len(again)} of {len(sample.batches)} batches, such as: {again[0]}")
    epochs = sample.order.epochs(sample.end)
    for number, source in enumerate(sample.order.sources):
        rows = [row.tobytes() for _, row in sample.rows(number)]
        copies = len(rows) - len(set(rows))
        if epochs[source] <= 1 and copies > FEW * len(rows):
            text = f"{copies} of {len(rows)} sequences are repeats, although the run reads the source at most once"
            yield Finding(kind="repeated", source=sample.order.names[number], text=text)


def shares(sample: BatchSample, declared: Declared) -> Iterator[Finding]:
    del declared
    drawn, meant = drawn_and_meant(sample)
    total = sum(drawn.values())
    for name, count in drawn.items():
        wanted = meant[name]
        deviation = (wanted * max(1 - wanted / max(total, 1), 1e-9)) ** 0.5
        if abs(count - wanted) > max(OFTEN * wanted, DEVIATIONS * deviation, 3):
            text = f"{count} of {total} sequences come from this source, but the mixture asks for {wanted:.1f}"
            yield Finding(kind="shares", source=name, text=text)


def order(sample: BatchSample, declared: Declared) -> Iterator[Finding]:
    """Check that the lengths of documents differ between batches no more than by chance."""
    del declared
    for name, pieces in by_source(sample).items():
        first = [piece for piece in pieces if piece.start == 0]  # later pieces of a sequence are its neighbours
        step = np.array([piece.step for piece in first])
        _, place, ties = np.unique([piece.length for piece in first], return_inverse=True, return_counts=True)
        rank = (np.cumsum(ties) - ties / 2)[place]
        found = _between(step, rank)
        places = [np.argsort(raw_stream("inspect lengths", n).random_raw(len(step))) for n in range(SHUFFLES)]
        chance = np.array([_between(step, rank[place]) for place in places])
        if chance.std() > 0 and found > chance.mean() + FAR * chance.std():
            apart = (found - chance.mean()) / chance.std()
            text = f"document lengths differ between batches by {apart:.0f} standard deviations more than by chance"
            yield Finding(kind="order", source=name, text=text)


def _between(step: NDArray[Any], rank: NDArray[Any]) -> float:
    """Return the sum of squares between steps."""
    _, number = np.unique(step, return_inverse=True)
    counts = np.bincount(number)
    return float((np.bincount(number, weights=rank - rank.mean()) ** 2 / counts).sum())


def cut(sample: BatchSample, declared: Declared) -> Iterator[Finding]:
    del declared
    for name, pieces in by_source(sample).items():
        if sample.stores[pieces[0].source].mask is not None:  # packed chats are padded to a whole sequence
            continue
        lengths = documents(pieces)
        longest = max(lengths)
        full = lengths.count(longest)
        if full >= CUT_DOCUMENTS and full > CUT * len(lengths):
            text = f"{full} of {len(lengths)} documents have exactly {longest} tokens, and no document has more"
            yield Finding(kind="cut", source=name, text=text)


CHECKS: tuple[Check, ...] = (
    shape,
    vocabulary,
    boundaries,
    special,
    empty,
    padding,
    repeated,
    shares,
    order,
    cut,
)


def by_source(sample: BatchSample) -> dict[str, list[Piece]]:
    """Return the pieces of each source in the sample, by the source's name."""
    found: dict[str, list[Piece]] = defaultdict(list)
    for piece in sample.pieces:
        found[sample.order.names[piece.source]].append(piece)
    return dict(sorted(found.items()))


def documents(pieces: list[Piece]) -> list[int]:
    """Return the length of each document in tokens. A document with several pieces counts once."""
    return list({piece.document: piece.length for piece in pieces}.values())


def drawn_and_meant(sample: BatchSample) -> tuple[dict[str, int], dict[str, float]]:
    """Return the sequences of the sampled batches by source: as drawn, and as the mixture asks."""
    drawn = dict.fromkeys(sample.order.names, 0)
    meant = dict.fromkeys(sample.order.names, 0.0)
    by = dict(zip(sample.order.sources, sample.order.names, strict=True))
    for batch in sample.batches:
        counts = np.bincount(batch.source, minlength=len(sample.order.names)).tolist()
        for number, count in enumerate(counts):
            drawn[sample.order.names[number]] += count
        for source, count in sample.order.meant_counts(batch.step, batch.step + 1).items():
            meant[by[source]] += count
    return drawn, meant
