"""Source code: StarCoderData, and the educational Python of the Common Pile's Stack v2."""

from __future__ import annotations

from marin.text.presets import CODE
from operators.datasets.corpus import Corpus, Hub, by_name
from operators.datasets.rehearsal.python_text import StandardLibraryCode
from operators.datasets.shares import modules
from operators.download import Keep


def _standard_library(name: str) -> StandardLibraryCode:
    return StandardLibraryCode(share=modules(name), label=name)


CORPORA = by_name(
    Corpus(
        name="starcoderdata",
        weight=0.25,
        tokens=0.25e12,
        licence="permissive licences, per file; gated by BigCode's terms",
        kind="source code, many languages",
        full=Hub(
            repo="bigcode/starcoderdata",
            revision="9fc30b578cedaec69e47302df72cf00feed7c8c4",
            patterns=("**/*.parquet",),
            text_field="content",
        ),
        rehearsal=_standard_library("starcoderdata"),
        rules=CODE,
    ),
    Corpus(
        name="common_pile_stackv2_edu_filtered_python",
        weight=0.01463,  # 14.63 GiB of text; the run took the number for trillions of tokens
        licence="permissive licences, per file (Blue Oak list)",
        kind="Python source code, educational",
        full=Hub(
            repo="common-pile/stackv2_edu_filtered",
            revision="c354dbe88469a1153e97c6a63ac50591849654de",
            patterns=("stack-edu-*.json.gz",),
            keep=(Keep("metadata.extension", (".py", ".pyw", ".pyi", "py", "pyw", "pyi")),),
        ),
        rehearsal=_standard_library("common_pile_stackv2_edu_filtered_python"),
        rules=CODE,
    ),
)
