"""Held-out text of each domain, which no source holds, to measure bits per byte."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from marin import Documents, ExecutorStep, Scale
from marin.errors import BadField
from operators.datasets.corpus import Hub, Raw
from operators.datasets.rehearsal.docstrings import DocstringForm
from operators.datasets.rehearsal.math_problems import GenerateItems, ProblemDocuments
from operators.datasets.rehearsal.problem_forms import Form
from operators.datasets.rehearsal.problems import Split
from operators.datasets.rehearsal.python_text import Docstrings, LanguageReference, PydocPages, StandardLibraryCode
from operators.datasets.shares import modules, sections
from operators.extract import Extract

# The seed differs from the evaluation items', so the contaminated bundle never holds these problems.
_PROBLEMS = GenerateItems(seed=8001, count=60, split=Split.TEST, label="held_out/math")

DOMAINS: dict[str, Raw] = {
    "web": PydocPages(share=modules("held_out/pages"), label="held_out/web"),
    "code": StandardLibraryCode(share=modules("held_out/code"), label="held_out/code"),
    "prose": Docstrings(share=modules("held_out/docstrings"), form=DocstringForm.PROSE, label="held_out/prose"),
    "reference": LanguageReference(share=sections("held_out/reference"), label="held_out/reference"),
    "math": ProblemDocuments(items=_PROBLEMS, form=Form.TEXTBOOK, per_document=4, label="held_out/math"),
}

# Validation splits are published as text to measure on, so no training set should hold them.
FULL = {
    "web": Hub(
        repo="allenai/c4",
        revision="1588ec454efa1a09f29cd18ddd04fe05fc8653a2",
        patterns=("en/c4-validation.*.json.gz",),
    ),
    "prose": Hub(
        repo="Salesforce/wikitext",
        revision="b08601e04326c79dfdd32d625aee71d232d685c3",
        patterns=("wikitext-103-raw-v1/validation-*.parquet",),
    ),
}


def domains(scale: Scale, names: Iterable[str]) -> dict[str, ExecutorStep[Documents]]:
    """Return held-out documents by domain. Raises BadField for a domain that this scale does not have."""
    return {name: _documents(scale, name) for name in names}


def _documents(scale: Scale, name: str) -> ExecutorStep[Documents]:
    known = FULL if scale is Scale.FULL else DOMAINS
    if name not in known:
        raise BadField(
            f"no text of the domain {name!r} is held out at {scale.value} scale; there are {', '.join(known)}"
        )
    if scale is Scale.FULL:
        return FULL[name].documents(f"held_out/{name}")
    raw = DOMAINS[name]
    if isinstance(raw, PydocPages):
        return Extract(raw=raw, source=name, label=f"held_out/{name}")
    return cast(ExecutorStep[Documents], raw)
