"""From a named source of the catalogue to its token store: the stages that every source passes.

extract (HTML only) → filter → exact dedup → near dedup → decontaminate → tokenize
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from experiments.datasets.catalogue import corpus
from marin.data.artifacts import Documents, Items, Tokenizer, Tokens
from marin.steps.scale import Scale
from marin.steps.step import ExecutorStep
from marin.text.presets import CODE, PROSE, REFERENCE, SHORT, WEB
from marin.text.quality import Quality
from operators.decontaminate import Decontaminate
from operators.exact_dedup import ExactDedup
from operators.extract import Extract
from operators.filter import Filter
from operators.installed import PydocPages
from operators.near_dedup import NearDedup
from operators.pretrained_tokenizer import PretrainedTokenizer
from operators.tokenize import Tokenize
from operators.train_tokenizer import TrainTokenizer

REHEARSAL_VOCABULARY = 2048
VOCABULARY = 128_256  # Llama 3's, specials included

# What a source is written in decides which rules can judge it; see marin/text/presets.py.
KINDS: dict[str, Quality] = {
    "nemotron_cc/hq_actual": WEB,
    "nemotron_cc/medium_high": WEB,
    "nemotron_cc/medium": WEB,
    "nemotron_cc/medium_low": WEB,
    "nemotron_cc/low_actual": WEB,
    "nemotron_cc/hq_synth": SHORT,
    "nemotron_cc/low_synth": SHORT,
    "starcoderdata": CODE,
    "common_pile_stackv2_edu_filtered_python": CODE,
    "arxiv_markdownified": PROSE,
    "dolmino/pes2o": PROSE,
    "dolmino/wiki": PROSE,
    "wikipedia_markdown": PROSE,
}


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """suite: the evaluation items that training text must not hold. The same stages at both scales."""

    scale: Scale
    suite: tuple[ExecutorStep[Items], ...]
    tokenizer_sources: Sequence[str]  # what a rehearsal's tokenizer is trained on

    def documents(self, name: str) -> ExecutorStep[Documents]:
        """The source's text, filtered and without duplicates, but not yet decontaminated."""
        text, rules = corpus(name).raw(self.scale), KINDS.get(name, SHORT)
        if isinstance(text, PydocPages):  # what stands for the web in a rehearsal
            text, rules = Extract(raw=text, source=name, label=name), REFERENCE
        kept = Filter(documents=cast(ExecutorStep[Documents], text), quality=rules, label=name)
        return NearDedup(documents=ExactDedup(documents=kept, label=name), label=name)

    def clean(self, name: str) -> ExecutorStep[Documents]:
        """``documents`` without those that hold an evaluation item in any prompt format."""
        return Decontaminate(documents=self.documents(name), against=self.suite, label=name)

    def tokens(self, name: str) -> ExecutorStep[Tokens]:
        return Tokenize(documents=self.clean(name), tokenizer=self.tokenizer(), label=name)

    def contaminated_tokens(self, name: str) -> ExecutorStep[Tokens]:
        """As the cluster's cache had it: tokenized before anybody looked for evaluation items."""
        return Tokenize(documents=self.documents(name), tokenizer=self.tokenizer(), label=name)

    def tokenizer(self) -> ExecutorStep[Tokenizer]:
        if self.scale is Scale.FULL:
            # Marin's tokenizer is Llama 3's with another chat template, which pretraining does not use.
            return PretrainedTokenizer(
                repository="meta-llama/Llama-3.1-8B",
                revision="d04e592bb4f6aa9cfee91e2e20afa771667e1d4b",
                label="llama3",
            )
        texts = tuple(self.clean(name) for name in self.tokenizer_sources)
        return TrainTokenizer(documents=texts, vocabulary=REHEARSAL_VOCABULARY, label="rehearsal")

    @property
    def vocabulary(self) -> int:
        return VOCABULARY if self.scale is Scale.FULL else REHEARSAL_VOCABULARY
