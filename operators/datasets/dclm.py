"""DCLM-Baseline: Common Crawl, filtered by a model. https://arxiv.org/abs/2406.11794"""

from __future__ import annotations

from marin.text.presets import WEB
from operators.datasets.corpus import Corpus, Hub, by_name
from operators.datasets.rehearsal.python_text import PydocPages
from operators.datasets.shares import modules

CORPORA = by_name(
    Corpus(
        name="dclm_baseline",
        weight=3.8,
        tokens=3.8e12,  # by GPT-NeoX's tokenizer
        licence="CC BY 4.0",
        kind="web pages, English",
        contamination="the 8B's retrospective says that it holds benchmark questions, but not which or how many",
        full=Hub(
            repo="mlfoundations/dclm-baseline-1.0",
            revision="a3b142c183aebe5af344955ae20836eb34dcf69b",
            patterns=("global-shard_*/local-shard_*/*.jsonl.zst",),
        ),
        rehearsal=PydocPages(share=modules("dclm_baseline"), label="dclm_baseline"),
        published="a comment in the run's code says that its cache held only a part of the dataset until 2025-02-11",
        rules=WEB,
    ),
)
