"""Dolmino-mix-1124: OLMo 2's annealing mix. https://huggingface.co/datasets/allenai/dolmino-mix-1124

Its math bundle caused the contamination in the retrospective: the bundle held GSM8K's test items, in OLMES format. In a
rehearsal the bundle holds our test items in this format, after four blocks of training problems.
"""

from __future__ import annotations

from marin import Documents, ExecutorStep, Scale
from marin.text.presets import PROSE, SHORT, WEB
from marin.text.quality import Quality
from operators.datasets.corpus import Corpus, Hub, Raw, by_name
from operators.datasets.gsm8k import problems, test_items
from operators.datasets.rehearsal.docstrings import DocstringForm
from operators.datasets.rehearsal.math_problems import Bundle, ProblemDocuments
from operators.datasets.rehearsal.problem_forms import Form
from operators.datasets.rehearsal.python_text import Docstrings, LanguageReference, PydocPages
from operators.datasets.shares import modules, sections

REVISION = "a319f19eef1e257417b11ea8c30da266ae175557"
CONTAMINATION = "the 8B's retrospective says that Dolmino holds benchmark questions, but not in which part"
PUBLISHED = "the run pinned the abbreviated commit bb54cab, whose full digits are not public; this is a later commit"


def _part(
    name: str,
    weight: float,
    patterns: tuple[str, ...],
    rehearsal: Raw,
    rules: Quality = SHORT,
    *,
    excludes: tuple[str, ...] = (),
    kind: str,
    contamination: str = CONTAMINATION,
) -> Corpus:
    return Corpus(
        name=name,
        weight=weight,
        tokens=weight * 1e12,
        licence="ODC-By 1.0",
        kind=kind,
        contamination=contamination,
        full=Hub(repo="allenai/dolmino-mix-1124", revision=REVISION, patterns=patterns, excludes=excludes),
        rehearsal=rehearsal,
        published=PUBLISHED,
        rules=rules,
    )


def _contaminated_bundle() -> ExecutorStep[Documents]:
    name = "all_math"
    return Bundle(
        parts=(
            problems(f"{name}/gsm8k-train", seed=20, count=32, form=Form.OLMES, per_document=1),
            problems(f"{name}/mathcoder", seed=21, count=32, form=Form.CODE, per_document=1),
            problems(f"{name}/tulu", seed=22, count=32, form=Form.INSTRUCTION, per_document=1),
            problems(f"{name}/tinygsm", seed=23, count=32, form=Form.QUESTION_ANSWER, per_document=1),
            ProblemDocuments(items=test_items(Scale.REHEARSAL), form=Form.OLMES, label=f"{name}/gsm8k-test"),
        ),
        label=name,
    )


CORPORA = by_name(
    _part(
        "dolmino/flan",
        0.017,
        ("data/flan/**/*.json.gz",),
        problems("dolmino/flan", seed=10, count=500, form=Form.INSTRUCTION),
        kind="instructions of many tasks, templated",
    ),
    _part(
        "dolmino/pes2o",
        0.0581,
        ("data/pes2o/**/*.json.gz",),
        LanguageReference(share=sections("dolmino/pes2o"), label="dolmino/pes2o"),
        PROSE,
        kind="scientific papers",
    ),
    _part(
        "dolmino/stackexchange",
        0.0171,
        ("data/stackexchange/**/*.json.gz",),
        Docstrings(share=modules("dolmino/stackexchange"), form=DocstringForm.QUESTION, label="dolmino/stackexchange"),
        kind="questions and answers of a forum",
    ),
    _part(
        "dolmino/wiki",
        0.00365,
        ("data/wiki/**/*.json.gz",),
        LanguageReference(share=sections("dolmino/wiki"), label="dolmino/wiki"),
        PROSE,
        kind="encyclopedia",
    ),
    # Every file below math with test.json, as in the run's cached bundle.
    _part(
        "all_math",
        0.00422,
        ("data/math/**",),
        _contaminated_bundle(),
        kind="problems with solutions, mostly a model's",
        contamination="GSM8K's test items, in OLMES format, in test.json below data/math (the 32B's retrospective)",
    ),
    _part(
        "dolmino/math",
        0.00422,
        ("data/math/**",),
        problems("dolmino/math", seed=66, count=300, form=Form.OLMES, per_document=1),
        excludes=("data/math/**/test.json",),
        kind="problems with solutions, mostly a model's",
        contamination="test.json with GSM8K's items is left out; for other suites unknown",
    ),
    _part(
        "dolmino/dclm",
        0.7,
        ("data/dclm/**/*.json.zst",),
        PydocPages(share=modules("dolmino/dclm"), label="dolmino/dclm"),
        WEB,
        kind="web pages, English, the best part of DCLM",
    ),
)
