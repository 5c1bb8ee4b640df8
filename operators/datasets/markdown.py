"""Marin's own corpora: arXiv, Stack Exchange and Wikipedia turned into Markdown, and science questions.

The corpora are on the hub (marin-community/ar5iv-no-problem-markdown, stackexchange-markdown, wikipedia-markdown,
datashop-science-qa), but no public source states their commits. Until somebody looks the commits up, a pinned corpus of
the same domain replaces each.
"""

from __future__ import annotations

from marin.text.presets import PROSE
from operators.datasets.corpus import Corpus, Hub, by_name
from operators.datasets.gsm8k import problems
from operators.datasets.rehearsal.docstrings import DocstringForm
from operators.datasets.rehearsal.problem_forms import Form
from operators.datasets.rehearsal.python_text import Docstrings, LanguageReference
from operators.datasets.shares import modules, sections

NO_COMMIT = "the run read marin-community/{}, whose commit is not public; this is a pinned corpus of the same domain"

CORPORA = by_name(
    Corpus(
        name="arxiv_markdownified",
        weight=0.0581,  # the run used peS2o's count; the dataset's card says 2.74 B
        tokens=2_742_463_924,
        licence="CC BY and CC0, per paper",
        kind="scientific papers as Markdown",
        full=Hub(
            repo="common-pile/arxiv_papers_filtered",
            revision="033cf7f53f9b348deec868c1a5a48484f3ee9e52",
            patterns=("*.json.gz",),
        ),
        rehearsal=LanguageReference(share=sections("arxiv_markdownified"), label="arxiv_markdownified"),
        rules=PROSE,
        published=NO_COMMIT.format("ar5iv-no-problem-markdown")
        + "; the retrospective also names ar5iv-warning-markdown (19.6 B tokens), but no mixture of its code has it",
    ),
    Corpus(
        name="stackexchange_custom",
        weight=0.0171,  # the run used Dolmino's count; the dataset's card says 20.4 B
        tokens=20_413_785_853,
        licence="CC BY-SA 4.0",
        kind="questions and answers of a forum as Markdown",
        full=Hub(
            repo="common-pile/stackexchange_filtered",
            revision="c0ac7373830c688a43fc12d1988c4b19ccd884ab",
            patterns=("*.json.gz",),
        ),
        rehearsal=Docstrings(
            share=modules("stackexchange_custom"), form=DocstringForm.MARKDOWN, label="stackexchange_custom"
        ),
        published=NO_COMMIT.format("stackexchange-markdown"),
    ),
    Corpus(
        name="wikipedia_markdown",
        weight=0.00365,
        tokens=8_587_224_558,  # the run's own corpus, from its card
        licence="CC BY-SA 4.0 and GFDL",
        kind="encyclopedia as Markdown",
        full=Hub(
            repo="HuggingFaceFW/finewiki",
            revision="8bd13e72e6a002407649b3e898535f42ceb1aeb9",
            patterns=("data/enwiki/*.parquet",),
        ),
        rehearsal=LanguageReference(share=sections("wikipedia_markdown"), label="wikipedia_markdown"),
        rules=PROSE,
        published=NO_COMMIT.format("wikipedia-markdown"),
    ),
    Corpus(
        name="medu_science_qa",
        weight=0.0012,
        tokens=0.0012e12,
        licence="CC BY-NC 3.0",
        kind="science questions with answers",
        full=Hub(
            repo="allenai/sciq",
            revision="2c94ad3e1aafab77146f384e23536f97a4849815",
            patterns=("data/train-*.parquet",),
            template="Question: {question}\nAnswer: {correct_answer}\n{support}",
        ),
        rehearsal=problems("medu_science_qa", seed=50, count=200, form=Form.MULTIPLE_CHOICE),
        published=NO_COMMIT.format("datashop-science-qa")
        + " and far smaller, so a run would repeat it many times; the run's own is CC BY-SA 4.0; its size is "
        "12.6 B (without a unit) by the retrospective, 1.2 B tokens by the weights",
    ),
)
