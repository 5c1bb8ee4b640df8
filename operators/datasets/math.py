"""Mathematics: Proof-Pile-2, FineMath and the five parts of MegaMath."""

from __future__ import annotations

from operators.datasets.corpus import Corpus, Hub, by_name
from operators.datasets.gsm8k import problems
from operators.datasets.rehearsal.problem_forms import Form

KINDS = {
    "web": "web pages on mathematics",
    "web_pro": "web pages on mathematics, the best of them refined by a model",
    "text_code_block": "mathematical text with code that a model wrote",
    "translated_code": "mathematical code, translated to Python by a model",
    "qa": "questions and answers on mathematics, partly a model's",
}
MEGAMATH = ("megamath/web", "megamath/web_pro", "megamath/text_code_block", "megamath/translated_code", "megamath/qa")


def _megamath(part: str, weight: float, pattern: str, seed: int, form: Form) -> Corpus:
    """Return a part of MegaMath. weight: trillions of tokens, from the dataset's detailed statistics."""
    name = f"megamath/{part}"
    return Corpus(
        name=name,
        weight=weight,
        tokens=weight * 1e12,
        licence="ODC-By 1.0",
        kind=KINDS[part],
        full=Hub(repo="LLM360/MegaMath", revision="3cbc64616594d6bc8759abaa0b2a71858f880f0d", patterns=(pattern,)),
        rehearsal=problems(name, seed=seed, count=400 if part == "web" else 250, form=form),
    )


CORPORA = by_name(
    Corpus(
        name="proofpile_2",
        weight=0.055,
        tokens=0.055e12,
        licence="mixed, per subset (arXiv, OpenWebMath ODC-By 1.0, permissive code)",
        kind="papers, web pages and code on mathematics",
        full=Hub(
            repo="EleutherAI/proof-pile-2",
            revision="901a9273a770e9d4138c5ddd91802f9c5c6cdc4b",
            patterns=("*/train/*.jsonl.zst",),
        ),
        rehearsal=problems("proofpile_2", seed=30, count=250, form=Form.MARKDOWN),
    ),
    Corpus(
        name="finemath-3-plus",
        weight=0.034,
        tokens=0.034e12,
        licence="ODC-By 1.0",
        kind="web pages on mathematics",
        full=Hub(
            repo="HuggingFaceTB/finemath",
            revision="e92b25a616738fe95dc186b64dfb19f9c8525594",
            patterns=("finemath-3plus/*.parquet",),
        ),
        rehearsal=problems("finemath-3-plus", seed=31, count=400, form=Form.FORUM),
        published="the run pinned the abbreviated commit 8f233cf, whose full digits are not public",
    ),
    _megamath("web", 0.2639, "megamath-web/*/*.parquet", 40, Form.FORUM),
    _megamath("web_pro", 0.0151, "megamath-web-pro/*.parquet", 41, Form.TEXTBOOK),
    _megamath("text_code_block", 0.0503, "megamath-text-code-block/*.parquet", 42, Form.TEXT_AND_CODE),
    _megamath("translated_code", 0.0072, "megamath-translated-code/*.parquet", 43, Form.CODE),
    _megamath("qa", 0.0070, "megamath-qa/**/*.parquet", 44, Form.QUESTION_ANSWER),
)
