"""The parts of Dolma 1.7 that the 8B read. https://huggingface.co/datasets/allenai/dolma

The hub holds a list of addresses, pinned by its checksum; the files are at olmo-data.org. Token counts come from the
run's own code, with Llama 3's tokenizer. FLAN's count comes from the dataset's card, with OLMo's tokenizer.
"""

from __future__ import annotations

from marin import Documents, ExecutorStep
from marin.data.http_file import HttpFile
from marin.text.presets import PROSE, SHORT
from marin.text.quality import Quality
from operators.datasets.corpus import Corpus, Listing, Raw, by_name
from operators.datasets.gsm8k import problems
from operators.datasets.rehearsal.docstrings import DocstringForm
from operators.datasets.rehearsal.math_problems import Bundle
from operators.datasets.rehearsal.problem_forms import Form
from operators.datasets.rehearsal.python_text import Docstrings
from operators.datasets.shares import modules

BASE = "https://olmo-data.org/"
COMMIT = "7f48140530a023e9ea4c5cfb141160922727d4d3"  # the run pinned its first seven digits
INDEX = HttpFile(
    f"https://huggingface.co/datasets/allenai/dolma/resolve/{COMMIT}/urls/v1_7.txt",
    "9fa8c2f0eb57149ff7914b35ca2ffb8da221c02786d712bcba5f6c39d294b49e",
)


def _part(name: str, files: str, billions: float, rehearsal: Raw, kind: str, rules: Quality = SHORT) -> Corpus:
    return Corpus(
        name=f"dolma/{name}",
        weight=billions / 1000,
        tokens=billions * 1e9,
        licence="ODC-By 1.0",
        kind=kind,
        full=Listing(index=INDEX, base=BASE, patterns=(f"dolma-v1_7/**/{files}-*.json.gz",)),
        rehearsal=rehearsal,
        rules=rules,
        rehearsal_rules=SHORT,
    )


def _problems(name: str, seed: int, form: Form) -> ExecutorStep[Documents]:
    return problems(f"dolma/{name}", seed=seed, count=250, form=form)


def _docstrings(name: str, form: DocstringForm) -> Raw:
    return Docstrings(share=modules(f"dolma/{name}"), form=form, label=f"dolma/{name}")


def _flan() -> Raw:
    """Return documents of several questions and answers, and of choices by letter; no other part has these forms."""
    parts = (
        _problems("flan", 65, Form.QUESTION_ANSWER),
        _problems("flan-choices", 69, Form.MULTIPLE_CHOICE),
    )
    return Bundle(parts=parts, label="dolma/flan")


CORPORA = by_name(
    _part("pes2o", "pes2o", 58.1, _problems("pes2o", 60, Form.TEXTBOOK), "scientific papers", PROSE),
    _part("arxiv", "arxiv", 27.9, _problems("arxiv", 61, Form.MARKDOWN), "scientific papers, LaTeX", PROSE),
    _part(
        "stackexchange",
        "stackexchange",
        17.1,
        _docstrings("stackexchange", DocstringForm.QUESTION),
        "questions and answers of a forum",
    ),
    _part(
        "algebraic-stack",
        "algebraic-stack-train",
        11.5,
        _problems("algebraic-stack", 62, Form.CODE),
        "mathematical code",
    ),
    _part(
        "open-web-math",
        "open-web-math-train",
        5.06,
        _problems("open-web-math", 63, Form.FORUM),
        "web pages on mathematics",
    ),
    _part(
        "megawika", "megawika", 4.44, _problems("megawika", 64, Form.TEXT_AND_CODE), "web pages that Wikipedia cites"
    ),
    _part("wiki", "wiki", 3.65, _problems("wiki", 68, Form.TEXTBOOK), "encyclopedia"),
    _part("flan", "tulu_flan", 16.5, _flan(), "instructions of many tasks, templated"),
)
