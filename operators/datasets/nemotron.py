"""Nemotron-CC: Common Crawl in seven quality buckets, English. https://arxiv.org/abs/2412.02595

Common Crawl publishes the files with a listing, pinned by its checksum. In a rehearsal the "actual" buckets are pydoc's
HTML pages, still to be extracted. The synthetic buckets are docstrings, as prose and as questions with answers. Among
the answers are worked problems with calculator tags, as the web has GSM8K's training set.
"""

from __future__ import annotations

from marin.data.http_file import HttpFile
from marin.text.presets import SHORT, WEB
from marin.text.quality import Quality
from operators.datasets.corpus import Corpus, Listing, by_name
from operators.datasets.gsm8k import problems
from operators.datasets.rehearsal.docstrings import DocstringForm
from operators.datasets.rehearsal.math_problems import Bundle
from operators.datasets.rehearsal.problem_forms import Form
from operators.datasets.rehearsal.python_text import Docstrings, PydocPages
from operators.datasets.shares import modules

BASE = "https://data.commoncrawl.org/"
INDEX = HttpFile(
    f"{BASE}contrib/Nemotron/Nemotron-CC/data-jsonl.paths.gz",
    "d8201c1e05b5e9fecef7678457c172f98a19a25f1dd656cdba1f937e7a29e68e",
)
FOLDER = "contrib/Nemotron/Nemotron-CC/data-jsonl"
LICENCE = "Common Crawl terms of use"
CONTAMINATION = "the 8B's retrospective says that it holds benchmark questions, but not which or how many"
# The paper's 6.3 T tokens, divided by the 10.707 TiB of all seven weights. This gives "hq_actual" 0.54 T; the paper
# counts 0.553 T.
TOKENS_PER_TIB = 6.3e12 / 10.70716


def _bucket(name: str, tib: float, folder: str, rehearsal: Docstrings | PydocPages | Bundle, rules: Quality) -> Corpus:
    return Corpus(
        name=name,
        weight=tib,
        tokens=tib * TOKENS_PER_TIB,
        licence=LICENCE,
        kind="questions, answers and prose that a model wrote from web pages"
        if folder.endswith("synthetic")
        else "web pages, English",
        contamination=CONTAMINATION,
        full=Listing(index=INDEX, base=BASE, patterns=(f"{FOLDER}/{folder}/**",)),
        rehearsal=rehearsal,
        rules=rules,
    )


def _pages(name: str) -> PydocPages:
    return PydocPages(share=modules(name), label=name)


def _docstrings(name: str, form: DocstringForm) -> Docstrings:
    return Docstrings(share=modules(name), form=form, label=name)


_SYNTHETIC = "nemotron_cc/hq_synth"
_QUESTIONS = Bundle(
    parts=(
        _docstrings(_SYNTHETIC, DocstringForm.QUESTION),
        problems(f"{_SYNTHETIC}/problems", seed=1, count=250, form=Form.LM_EVAL, per_document=3),
    ),
    label=_SYNTHETIC,
)

# Sizes in TiB, from the run's own configuration.
CORPORA = by_name(
    _bucket("nemotron_cc/hq_actual", 0.91351, "quality=high/kind=actual", _pages("nemotron_cc/hq_actual"), WEB),
    _bucket("nemotron_cc/hq_synth", 2.72, "quality=high/kind=synthetic", _QUESTIONS, SHORT),
    _bucket("nemotron_cc/medium_high", 0.82471, "quality=medium-high", _pages("nemotron_cc/medium_high"), WEB),
    _bucket("nemotron_cc/medium", 3.38, "quality=medium", _pages("nemotron_cc/medium"), WEB),
    _bucket("nemotron_cc/medium_low", 1.54, "quality=medium-low", _pages("nemotron_cc/medium_low"), WEB),
    _bucket("nemotron_cc/low_actual", 0.70123, "quality=low/kind=actual", _pages("nemotron_cc/low_actual"), WEB),
    _bucket(
        "nemotron_cc/low_synth",
        0.62771,
        "quality=low/kind=synthetic",
        _docstrings("nemotron_cc/low_synth", DocstringForm.PROSE),
        SHORT,
    ),
)
