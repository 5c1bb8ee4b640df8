"""The bits that a model needs for a text: whole documents, continuations of a prompt, spans of characters.

Shapes: B rows of a batch, T tokens of a window, n tokens of one text.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from marin.errors import BadField, NonFiniteLoss
from marin.evaluation.encoder import Encoded, Encoder
from marin.evaluation.language_model import LanguageModel
from marin.evaluation.prefix_tree import Wanted, common_prefix

# (tokens, first, window, stride) → (left, begin, end) of each window.
Windows = Callable[[int, int, int, int], Iterator[tuple[int, int, int]]]


@dataclass(frozen=True)
class TokenBits:
    """The surprisal of each scored token of a text.

    bits: (n,) float64. starts, ends: (n,) characters of the text. greedy: (n,) whether no token is likelier.
    """

    bits: npt.NDArray[np.float64]
    starts: npt.NDArray[np.int32]
    ends: npt.NDArray[np.int32]
    greedy: npt.NDArray[np.bool_]

    @property
    def total(self) -> float:
        return float(self.bits.sum())

    def within(self, start: int, end: int) -> float:
        """Return the bits of the characters [start, end).

        A token that reaches across an edge counts by its share of characters. So the bits of a text's parts add up to
        the bits of the text.
        """
        overlap = np.minimum(self.ends, end) - np.maximum(self.starts, start)
        length = self.ends - self.starts
        # Several tokens may make up one character: then the later tokens have a width of zero.
        point = (length == 0) & (self.ends > start) & (self.ends <= end)
        share = np.where(length > 0, np.clip(overlap, 0, None) / np.maximum(length, 1), point)
        return float((self.bits * share).sum())


@dataclass(frozen=True)
class DocumentBits:
    """Bits and UTF-8 bytes of a document as it is (raw), and without trailing whitespace (stripped)."""

    bits: float
    bytes: int
    stripped_bits: float
    stripped_bytes: int


@dataclass(frozen=True)
class Scoring:
    """A model and its tokenizer, for scoring texts.

    window: tokens that the model sees at a time. stride: the number of tokens by which the window moves over a longer
    text. Every token after the first window has at least window - stride tokens of context.
    Raises BadField unless window >= 2 and 1 <= stride < window.
    """

    model: LanguageModel
    encoder: Encoder
    window: int
    stride: int

    def __post_init__(self) -> None:
        if self.window < 2 or not 1 <= self.stride < self.window:
            raise BadField(f"window {self.window}, stride {self.stride}: wanted window >= 2 and 1 <= stride < window")

    def documents(self, texts: Sequence[str]) -> list[DocumentBits]:
        """Return the bits of each document, from its first token on. Raises NonFiniteLoss."""
        stripped = [text.rstrip() for text in texts]
        raw = self.encoder.encode(texts)
        bits, _ = self._score(texts, raw, [0] * len(texts), windows)
        # Stripping changes only the last tokens: score these tokens again, and reuse the rest.
        bare = self.encoder.encode(stripped)
        shared = [common_prefix(one.ids, other.ids) for one, other in zip(bare, raw, strict=True)]
        tails, _ = self._score(stripped, bare, shared, windows)
        return [
            DocumentBits(
                bits=float(bits[index].sum()),
                bytes=len(text.encode()),
                stripped_bits=float(bits[index][: shared[index]].sum() + tails[index].sum()),
                stripped_bytes=len(stripped[index].encode()),
            )
            for index, text in enumerate(texts)
        ]

    def continuations(self, pairs: Sequence[tuple[str, str]]) -> list[TokenBits]:
        """Return the bits of each continuation after its prompt; characters count from the start of the continuation.

        Prompt and continuation are tokenized as one text, as in training. A token that begins in the prompt and ends
        in the continuation counts wholly for the continuation, so no bit is lost.
        Raises NonFiniteLoss.
        """
        texts = [prompt + continuation for prompt, continuation in pairs]
        encoded = self.encoder.encode(texts)
        first = [
            int(np.searchsorted(one.ends, len(prompt), side="right"))
            for one, (prompt, _) in zip(encoded, pairs, strict=True)
        ]
        scored, greedy = self._score(texts, encoded, first, windows_from_end)
        out: list[TokenBits] = []
        for bits, best, one, begin, (prompt, _) in zip(scored, greedy, encoded, first, pairs, strict=True):
            ends = one.ends - len(prompt)
            starts = np.concatenate((np.zeros(1, np.int32), ends[:-1]))[: len(ends)]
            out.append(TokenBits(bits, np.maximum(starts, 0)[begin:], ends[begin:], best))
        return out

    def _score(
        self, texts: Sequence[str], encoded: Sequence[Encoded], first: Sequence[int], laid: Windows
    ) -> tuple[list[npt.NDArray[np.float64]], list[npt.NDArray[np.bool_]]]:
        """Return the bits of each text's tokens from number first on, and whether each token is the likeliest.

        Raises NonFiniteLoss showing the text.
        """
        sequences = [np.concatenate((np.array([self.encoder.start], np.int32), one.ids)) for one in encoded]
        bits = [np.full(len(one.ids), np.nan) for one in encoded]
        greedy = [np.zeros(len(one.ids), np.bool_) for one in encoded]
        wanted: list[tuple[int, int, int, int]] = []  # text, first token of the window, tokens scored [begin, end)
        for text, (sequence, begin) in enumerate(zip(sequences, first, strict=True)):
            wanted += ((text, *window) for window in laid(len(sequence), begin, self.window, self.stride))
        asked = [Wanted(sequences[text][left : end + 1], begin + 1 - left) for text, left, begin, end in wanted]
        for (text, _, begin, end), scored in zip(wanted, self.model.continuations(asked), strict=True):
            # ids[i] is sequence[i + 1].
            bits[text][begin:end], greedy[text][begin:end] = -scored.logprobs / math.log(2), scored.greedy
        for text, scored, begin in zip(texts, bits, first, strict=True):
            if not np.isfinite(scored[begin:]).all():
                raise NonFiniteLoss(
                    f"the model gives {text[:60]!r} a probability of zero or no number at all; "
                    "wanted a finite log-probability for every token: look at the checkpoint's last losses"
                )
        after = list(zip(bits, greedy, first, strict=True))
        return [scored[begin:] for scored, _, begin in after], [best[begin:] for _, best, begin in after]


def windows(tokens: int, first: int, window: int, stride: int) -> Iterator[tuple[int, int, int]]:
    """Yield windows over a sequence that starts with a separator: (left, begin, end).

    tokens: the length, separator included. Predictions are numbered from 0 (which predicts token 1). Every prediction
    from ``first`` on is scored exactly once, in the first window that holds the prediction. A window that scores
    nothing is left out.
    """
    left, begin, last = 0, first, tokens - 1
    while begin < last:
        end = min(left + window - 1, last)
        if end > begin:
            yield left, begin, end
            begin = end
        left += stride


def windows_from_end(tokens: int, first: int, window: int, stride: int) -> Iterator[tuple[int, int, int]]:
    """Yield windows as ``windows`` does, but from the end backwards: the fewest windows for the end of a text.

    The window of a prediction depends only on the distance from the end. So candidates of one length are scored alike.
    """
    end = tokens - 1
    while end > first:
        left = max(0, end - (window - 1))
        begin = left + window - 1 - stride if left else 0
        yield left, max(begin, first), end
        end = begin


def bits_per_byte(bits: Sequence[float], sizes: Sequence[int]) -> float:
    """Return the bits per byte of a whole set: all bits by all bytes, so that texts count by their length."""
    return sum(bits) / sum(sizes)
