"""Small models whose every probability is known, and a tokenizer whose every boundary is known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from marin.evaluation.encoder import Encoded
from marin.evaluation.language_model import Scored
from marin.evaluation.prefix_tree import Ids, Wanted

SEPARATOR = 256


class Bytes:
    """One token a UTF-8 byte; 256 separates documents."""

    start = eos = SEPARATOR
    vocabulary = 257

    def encode(self, texts: Sequence[str]) -> list[Encoded]:
        out: list[Encoded] = []
        for text in texts:
            ends = [i + 1 for i, character in enumerate(text) for _ in character.encode()]
            out.append(Encoded(np.frombuffer(text.encode(), np.uint8).astype(np.int32), np.asarray(ends, np.int32)))
        return out

    def decode(self, ids: Sequence[int]) -> str:
        return bytes(i for i in ids if i < 256).decode(errors="replace")


class Pairs:
    """Two characters a token where possible, so that tokens straddle boundaries. Text is ASCII."""

    start = eos = 0
    vocabulary = 1 + 128 * 129

    def encode(self, texts: Sequence[str]) -> list[Encoded]:
        out: list[Encoded] = []
        for text in texts:
            pieces = [text[i : i + 2] for i in range(0, len(text), 2)]
            ids = [1 + 129 * ord(p[0]) + (ord(p[1]) + 1 if len(p) == 2 else 0) for p in pieces]
            out.append(Encoded(np.asarray(ids, np.int32), np.cumsum([len(p) for p in pieces]).astype(np.int32)))
        return out

    def decode(self, ids: Sequence[int]) -> str:
        parts = [divmod(i - 1, 129) for i in ids if i]
        return "".join(chr(a) + (chr(b - 1) if b else "") for a, b in parts)


class Rows:
    """A LanguageModel made of a function from (B, T) tokens to (B, T-1) log-probabilities of tokens[:, 1:].

    It shares nothing and caches nothing. Quicker models must give the same results.
    """

    length = 1 << 20

    def __init__(self, scorer: Callable[[np.ndarray], np.ndarray], vocabulary: int = 257) -> None:
        self.scorer, self.vocabulary = scorer, vocabulary

    def continuations(self, wanted: Sequence[Wanted]) -> list[Scored]:
        out: list[Scored] = []
        for one in wanted:
            logprobs = np.asarray(self.scorer(one.tokens[None])[0, one.first - 1 :], np.float64)
            out.append(Scored(logprobs, logprobs > np.log(0.5)))  # surely the likeliest
        return out

    def generate(
        self, prompts: Sequence[Ids], most: int, end: int, finished: Callable[[Sequence[int]], bool]
    ) -> list[list[int]]:
        out: list[list[int]] = []
        for prompt in prompts:
            made: list[int] = []
            while len(made) < most and not finished(made):
                tokens = np.tile(np.concatenate([prompt, made, [0]]).astype(np.int32), (self.vocabulary, 1))
                tokens[:, -1] = np.arange(self.vocabulary)
                likeliest = int(np.asarray(self.scorer(tokens))[:, -1].argmax())
                if likeliest == end:
                    break
                made.append(likeliest)
            out.append(made)
        return out


def unigram(logits: np.ndarray) -> Rows:
    """A model that gives every token the same log-probability wherever it stands."""
    logprobs = logits - np.log(np.exp(logits).sum())
    return Rows(lambda tokens: logprobs[tokens[:, 1:]].astype(np.float32), len(logits))


class NGram(Rows):
    """Byte n-gram model, orders 1 to n interpolated (Witten-Bell): learns formats and memorises texts."""

    def __init__(self, order: int = 8) -> None:
        super().__init__(self)
        self.order = order
        self.counts: list[dict[bytes, Counter[int]]] = [{} for _ in range(order)]

    def train(self, texts: Iterable[str], times: int = 1) -> NGram:
        for text in texts:
            data = np.concatenate(([SEPARATOR], np.frombuffer(text.encode(), np.uint8))).astype(np.int16)
            for position in range(1, len(data)):
                for length in range(min(self.order, position + 1)):
                    context = data[position - length : position].tobytes()
                    self.counts[length].setdefault(context, Counter())[int(data[position])] += times
        return self

    def __call__(self, tokens: np.ndarray) -> np.ndarray:
        out = np.zeros((tokens.shape[0], tokens.shape[1] - 1), np.float32)
        for row, line in enumerate(tokens.astype(np.int16)):
            # One separator may be asked about; past it only padding follows.
            held = np.flatnonzero(line != SEPARATOR)
            for position in range(1, min(int(held[-1]) + 2, len(line)) if len(held) else 0):
                probability = 1 / 257
                for length in range(min(self.order, position + 1)):
                    seen = self.counts[length].get(line[position - length : position].tobytes())
                    if seen is None:
                        break
                    total, kinds = seen.total(), len(seen)
                    probability = (seen[int(line[position])] + kinds * probability) / (total + kinds)
                out[row, position - 1] = np.log(probability)
        return out
