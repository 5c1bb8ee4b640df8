"""Paloma: text of 16 sources, each scored in bits per byte by itself: how well a model fits what is not its mixture.

Source: Magnusson et al. 2023, arXiv 2312.10523; https://huggingface.co/datasets/allenai/paloma, which is gated: accept
its terms first. The commit is the one that Marin's runs name, of which seven digits are public (experiments/paloma.py
of marin-community/marin). Marin reads the validation split, and so do we. The paper goes on to 546 domains within these
sources, and asks that training text be freed of theirs; both are left out here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from marin import Documents, ExecutorStep, Scale
from operators.datasets import held_out
from operators.datasets.corpus import Hub
from operators.paragraphs import Paragraphs

REPOSITORY, REVISION = "allenai/paloma", "65cd6fc"
LICENCE = "AI2 ImpACT for low-risk artifacts, but for subsets of which the dataset's card says otherwise"


@dataclass(frozen=True, kw_only=True)
class Source:
    """called: in the paper. stand_in: the held-out domain whose paragraphs stand for it in a rehearsal, "" for none.
    ending: after each of these."""

    called: str
    stand_in: str = ""
    ending: str = ""


# By folder, which is what Marin and lm-evaluation-harness call them.
SOURCES: Mapping[str, Source] = {
    "4chan_meta_sep": Source(called="4chan Corpus"),
    "c4_100_domains": Source(called="C4-100-Domains"),
    # Some of its texts end in a space, and nothing that the 8B read did: a rehearsal has all of them so.
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
    """By source: all of them at full scale; in a rehearsal those for which something stands."""
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
