"""Text of each domain that no source of a rehearsal holds: for bits per byte."""

from __future__ import annotations

from experiments.datasets.corpus import Raw
from experiments.datasets.shares import modules, sections
from marin.data.problem_forms import Form
from marin.data.problems import Split
from marin.text.docstrings import DocstringForm
from operators.generate import GenerateItems, ProblemDocuments
from operators.installed import Docstrings, LanguageReference, PydocPages, StandardLibraryCode

# Another seed than the evaluation items': what is measured here is never in the contaminated bundle.
_PROBLEMS = GenerateItems(seed=8001, count=60, split=Split.TEST, label="held_out/math")

DOMAINS: dict[str, Raw] = {
    "web": PydocPages(share=modules("held_out/pages"), label="held_out/web"),
    "code": StandardLibraryCode(share=modules("held_out/code"), label="held_out/code"),
    "prose": Docstrings(share=modules("held_out/docstrings"), form=DocstringForm.PROSE, label="held_out/prose"),
    "reference": LanguageReference(share=sections("held_out/reference"), label="held_out/reference"),
    "math": ProblemDocuments(items=_PROBLEMS, form=Form.TEXTBOOK, per_document=4, label="held_out/math"),
}
