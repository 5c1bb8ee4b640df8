"""The kinds of faults in a training's batches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

KINDS: Mapping[str, str] = {
    "shape": "batches with another number or length of sequences than the training declares",
    "vocabulary": "token ids outside the tokenizer's vocabulary",
    "boundaries": "documents that do not end with the end-of-sequence token, or hold it in the middle",
    "special": "special tokens that were not declared, or a declared first token that is missing or repeated",
    "empty": "documents with no token but the end-of-sequence token",
    "padding": "sequences filled with one token, or with special tokens",
    "repeated": "repeated sequences of a source that the run reads at most once",
    "shares": "a source that is drawn much more or less often than the mixture asks",
    "order": "batches whose documents have one length each: sorted, not shuffled",
    "cut": "documents that all end at one length",
    "tokens": "text that encodes to other tokens than the ones in the store",
    "characters": "damaged text: broken characters, or UTF-8 read as another encoding",
    "held out": "text of the evaluation's documents",
    "form": "evaluation text whose form differs from the training's by more than the bound",
}


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One fault in the batches. kind: one of KINDS. source: its name, "" if the fault concerns all sources."""

    kind: str
    text: str
    source: str = ""

    def __str__(self) -> str:
        return f"{self.kind}: {f'{self.source}: ' if self.source else ''}{self.text}"
