"""The stages from a named source of the catalogue to its token store.

extract (HTML only) → filter → exact dedup → near dedup → decontaminate → tokenize

No document begins with Llama 3's BOS, because the published 8B and 32B were trained without BOS. Marin adds BOS since
its issue 5034; in a new run write ``Tokenize(…, bos=True)``.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import cast

from marin import Documents, ExecutorStep, Items, Mixture, Scale, Tokenizer, Tokens, mixture
from marin.errors import BadField
from marin.text.presets import REFERENCE
from operators.datasets.catalogue import PRETRAIN, corpus
from operators.datasets.rehearsal.python_text import PydocPages
from operators.decontaminate import Decontaminate
from operators.exact_dedup import ExactDedup
from operators.extract import Extract
from operators.filter import Filter
from operators.near_dedup import NearDedup
from operators.pretrained_tokenizer import PretrainedTokenizer
from operators.tokenize import Tokenize
from operators.train_tokenizer import TrainTokenizer

# Entries; Llama 3's include its special tokens.
VOCABULARY = {Scale.FULL: 128_256, Scale.REHEARSAL: 2048}

type TokenMix = Mixture[ExecutorStep[Tokens]]


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """The stages at one scale. decontaminate_against: evaluation items that training text must not hold."""

    scale: Scale
    decontaminate_against: tuple[ExecutorStep[Items], ...]

    def documents(self, name: str) -> ExecutorStep[Documents]:
        """Return the source's text, filtered and without duplicates, but not yet decontaminated."""
        text, rules = corpus(name).raw(self.scale), corpus(name).rules_for(self.scale)
        if isinstance(text, PydocPages):  # a rehearsal's replacement for the web
            text, rules = Extract(raw=text, source=name, label=name), REFERENCE
        kept = Filter(documents=cast(ExecutorStep[Documents], text), quality=rules, label=name)
        return NearDedup(documents=ExactDedup(documents=kept, label=name), label=name)

    def clean(self, name: str) -> ExecutorStep[Documents]:
        """Return ``documents`` without documents that hold an evaluation item in any prompt format."""
        return Decontaminate(documents=self.documents(name), against=self.decontaminate_against, label=name)

    def tokens(self, name: str) -> ExecutorStep[Tokens]:
        return Tokenize(documents=self.clean(name), tokenizer=self.tokenizer, label=name)

    def cached(self, name: str) -> ExecutorStep[Tokens]:
        """Return the tokens as the cluster's cache had them: not decontaminated."""
        return Tokenize(documents=self.documents(name), tokenizer=self.tokenizer, label=name)

    def mix(self, weights: Mapping[str, float], as_cached: Collection[str] = ()) -> TokenMix:
        """Return the mixture of these sources by weight. as_cached: sources to read as the cache had them."""
        if unknown := sorted(set(as_cached) - set(weights)):
            raise BadField(f"mix: as_cached names {', '.join(unknown)}; wanted sources of the mixture")
        read = {name: self.cached(name) if name in as_cached else self.tokens(name) for name in weights}
        return mixture({read[name]: weight for name, weight in weights.items()})

    @cached_property
    def tokenizer(self) -> ExecutorStep[Tokenizer]:
        if self.scale is Scale.FULL:
            # Marin's tokenizer is Llama 3's with another chat template, which pretraining does not use.
            return PretrainedTokenizer(
                repo="meta-llama/Llama-3.1-8B",
                revision="d04e592bb4f6aa9cfee91e2e20afa771667e1d4b",
                vocabulary=self.vocabulary,
                label="llama3",
            )
        texts = tuple(self.clean(name) for name in PRETRAIN)
        return TrainTokenizer(documents=texts, vocabulary=self.vocabulary, label="rehearsal")

    @property
    def vocabulary(self) -> int:
        return VOCABULARY[self.scale]
