"""Paloma: text of 16 sources, each scored in bits per byte, to measure how well a model fits text beyond its mixture.

Source: Magnusson et al. 2023, arXiv 2312.10523; https://huggingface.co/datasets/allenai/paloma. The dataset is gated:
accept its terms first. The commit is the one in Marin's runs, with seven public digits (experiments/paloma.py of
marin-community/marin). Marin reads the validation split, and so do we. The paper also divides the sources into 546
domains, and asks to remove Paloma's text from training text; we do neither.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from marin import Documents, ExecutorStep, Scale
from operators.datasets import held_out
from operators.datasets.corpus import Hub
from operators.paragraphs import Paragraphs

REPOSITORY, REVISION = "allenai/paloma", "65cd6fc"
LICENCE = "AI2 ImpACT for low-risk artifacts, except subsets for which the dataset's card says otherwise"


@dataclass(frozen=True, kw_only=True)
class Source:
    """A source of Paloma.

    called: its name in the paper. stand_in: the held-out domain whose paragraphs replace it in a rehearsal, "" for
    none. ending: text after each of these paragraphs.
    """

    called: str
    stand_in: str = ""
    ending: str = ""


# By folder; Marin and lm-evaluation-harness use the same names.
SOURCES: Mapping[str, Source] = {
    "4chan_meta_sep": Source(called="4chan Corpus"),
    "c4_100_domains": Source(called="C4-100-Domains"),
    # Some of its texts end in a space, and no text that the 8B read did. In a rehearsal all of them end so.
    "c4_en": Source(called="C4", stand_in="web", ending=" "),
    "dolma-v1_5": Source(called="Dolma"),
    "dolma_100_programing_languages": Source(called="Dolma-100-Programming-Languages", stand_in="code"),
    "dolma_100_subreddits": Source(called="Dolma-100-Subreddits"),
    "falcon-refinedweb": Source(called="Falcon-RefinedWeb", stand_in="web"),
    "gab": Source(called="Gab Corpus"),
    "m2d2_s2orc_unsplit": Source(called="M2D2 S2ORC"),
    "m2d2_wikipedia_unsplit": Source(called="M2D2 Wikipedia", stand_in="reference"),
    "manosphere_meta_sep": Source(called="Manosphere Corpus"),
    "mc4": Source(called="mC4-en"),
    "ptb": Source(called="Penn Treebank"),
    "redpajama": Source(called="RedPajama"),
    "twitterAAE_HELM_fixed": Source(called="TwitterAAE"),
    "wikitext_103": Source(called="Wikitext-103"),
}


def documents(scale: Scale) -> dict[str, ExecutorStep[Documents]]:
    """Return documents by source: all sources at full scale, and those with a stand-in in a rehearsal."""
    if scale is Scale.FULL:
        return {
            name: Hub(repo=REPOSITORY, revision=REVISION, patterns=(f"{name}/val/val*.jsonl.gz",)).documents(
                f"paloma/{name}"
            )
            for name in SOURCES
        }
    return {
        name: Paragraphs(
            documents=held_out.domains(scale, (source.stand_in,))[source.stand_in],
            ending=source.ending,
            label=f"paloma/{name}",
        )
        for name, source in SOURCES.items()
        if source.stand_in
    }
