"""What can be wrong with the batches of a training, by kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

KINDS: Mapping[str, str] = {
    "shape": "batches that are not as many sequences of as many tokens as the training says",
    "vocabulary": "token ids outside the tokenizer's vocabulary",
    "boundaries": "documents that do not end with the end-of-sequence token, or hold it in the middle",
    "special": "special tokens that nobody declared, or the declared first one missing or twice",
    "empty": "documents of nothing but the end-of-sequence token",
    "padding": "sequences filled with one token, or with special ones",
    "repeated": "the same sequences again, where a source is not read twice",
    "shares": "a source that is drawn much more or less often than the mixture says",
    "order": "batches of which each has documents of one length: sorted, not shuffled",
    "cut": "documents that all end at one length",
    "tokens": "text that encodes to other tokens than those that it was decoded from",
    "characters": "text that is no text: damaged characters, or UTF-8 taken for another encoding",
    "held out": "text of the evaluation's documents",
    "form": "evaluation text that is written unlike the training's, beyond the bound that was given",
}


@dataclass(frozen=True, kw_only=True)
class Finding:
    """kind: one of KINDS. source: its name, "" where it is of all."""

    kind: str
    text: str
    source: str = ""

    def __str__(self) -> str:
        return f"{self.kind}: {f'{self.source}: ' if self.source else ''}{self.text}"
