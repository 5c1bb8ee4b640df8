"""Held-out text for a running training: windows of tokens, laid out once, in one file.

A training scores the text as Evaluate scores a checkpoint: the same documents, windows and bytes. Shapes: R windows, T
tokens.
"""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from marin.errors import InputError, NothingScored
from marin.evaluation.encoder import Encoder
from marin.evaluation.scoring import windows
from marin.store.files.directory import Directory

NAME = "held_out.npz"  # in the work in progress


@dataclass(frozen=True, kw_only=True)
class HeldOut:
    """Windows of all domains, one domain after the other.

    domains: names. bytes: bytes of text of each domain. tokens: (R, T) int32. scored: (R, T) bool, whether the next
    token counts. domain: (R,) int32, the number of each window's domain.
    """

    domains: tuple[str, ...]
    bytes: tuple[int, ...]
    tokens: npt.NDArray[np.int32]
    scored: npt.NDArray[np.bool_]
    domain: npt.NDArray[np.int32]

    @cached_property
    def counts(self) -> npt.NDArray[np.int64]:
        """The number of scored tokens of each domain."""
        return np.bincount(self.domain, weights=self.scored.sum(axis=1), minlength=len(self.domains)).astype(np.int64)

    def metrics(self, nats: npt.NDArray[np.float64]) -> dict[str, float]:
        """Return loss (nats a token) and bits per byte, of each domain and of all, from the nats of each domain.

        Names without a domain: ``macro`` is the mean over domains; ``micro`` counts every token, or every byte.
        """
        loss, bpb = nats / self.counts, nats / math.log(2) / np.array(self.bytes)
        return {
            **{f"loss/{name}": float(each) for name, each in zip(self.domains, loss, strict=True)},
            **{f"bpb/{name}": float(each) for name, each in zip(self.domains, bpb, strict=True)},
            "macro_loss": float(loss.mean()),
            "micro_loss": float(nats.sum() / self.counts.sum()),
            "macro_bpb": float(bpb.mean()),
            "micro_bpb": float(nats.sum() / math.log(2) / sum(self.bytes)),
        }


def lay_out(domains: Mapping[str, Sequence[str]], encoder: Encoder, window: int) -> HeldOut:
    """Cut each domain's texts into windows of ``window`` tokens; a window begins every three quarters of a window.

    Raises NothingScored for a domain without text.
    """
    tokens: list[npt.NDArray[np.int32]] = []
    scored: list[npt.NDArray[np.bool_]] = []
    of_domain: list[int] = []
    sizes: list[int] = []
    for number, (name, texts) in enumerate(sorted(domains.items())):
        sizes.append(sum(len(text.encode()) for text in texts))
        if not sizes[-1]:
            raise NothingScored(f"domain {name}: {len(texts)} documents without text; look at the step that made them")
        for one in encoder.encode(texts):
            sequence = np.concatenate((np.array([encoder.start], np.int32), one.ids))
            for left, begin, end in windows(len(sequence), 0, window, max(1, window * 3 // 4)):
                row, counts = np.full(window, encoder.start, np.int32), np.zeros(window, np.bool_)
                row[: end + 1 - left] = sequence[left : end + 1]
                counts[begin - left : end - left] = True
                tokens.append(row)
                scored.append(counts)
                of_domain.append(number)
    return HeldOut(
        domains=tuple(sorted(domains)),
        bytes=tuple(sizes),
        tokens=np.stack(tokens),
        scored=np.stack(scored),
        domain=np.array(of_domain, np.int32),
    )


def write_held_out(directory: Directory, held_out: HeldOut) -> None:
    file = io.BytesIO()
    np.savez_compressed(
        file, domains=np.array(held_out.domains), bytes=np.array(held_out.bytes, np.int64), tokens=held_out.tokens,
        scored=held_out.scored, domain=held_out.domain,
    )  # fmt: skip
    directory.write_bytes(NAME, file.getvalue())


def read_held_out(directory: Directory, vocabulary: int) -> HeldOut:
    """Return the held-out text of a directory. Raises InputError for tokens outside the vocabulary."""
    with np.load(io.BytesIO(directory.read_bytes(NAME)), allow_pickle=False) as held:
        found = HeldOut(
            domains=tuple(str(name) for name in held["domains"]),
            bytes=tuple(int(size) for size in held["bytes"]),
            tokens=held["tokens"],
            scored=held["scored"],
            domain=held["domain"],
        )
    if found.tokens.max() >= vocabulary:
        raise InputError(
            f"the held-out text has token ids up to {found.tokens.max()}, the model has a vocabulary of {vocabulary}; "
            "give Watch the tokenizer that made the training's tokens"
        )
    return found
