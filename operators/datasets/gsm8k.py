"""GSM8K: the evaluation items, and problems of the same kind to train on.

The items are the 1319 real test items at full scale, and generated items in a rehearsal. Training problems come from
the training split of the generator, which shares no question with the test split.
"""

from __future__ import annotations

from marin import Documents, ExecutorStep, Items, Scale
from operators.datasets.rehearsal.math_problems import GenerateItems, ProblemDocuments
from operators.datasets.rehearsal.problem_forms import Form
from operators.datasets.rehearsal.problems import Split
from operators.download import HuggingFace, ReadItems

REVISION = "740312add88f781978c0658806c59bc2815b9866"  # openai/gsm8k, MIT
TEST_ITEMS = 128


def test_items(scale: Scale) -> ExecutorStep[Items]:
    """Return the items that arms are judged on. In a rehearsal, the contaminated bundle contains these items."""
    if scale is Scale.FULL:
        files = HuggingFace(repo="openai/gsm8k", revision=REVISION, patterns=("main/test-*.parquet",), label="gsm8k")
        return ReadItems(files=files, label="gsm8k-test")
    return GenerateItems(seed=8000, count=TEST_ITEMS, split=Split.TEST, label="gsm8k-test")


def reference_items() -> ExecutorStep[Items]:
    """Return problems that no model has been trained on: generated here, at both scales.

    At full scale their distribution differs from GSM8K's, so use them only for differences between checkpoints.
    """
    return GenerateItems(seed=8002, count=TEST_ITEMS, split=Split.TEST, label="gsm8k-reference")


def problems(name: str, seed: int, count: int, form: Form, per_document: int = 4) -> ExecutorStep[Documents]:
    """Return generated training problems for the source ``name``; each source has a seed of its own."""
    items = GenerateItems(seed=seed, count=count, split=Split.TRAIN, label=name)
    return ProblemDocuments(items=items, form=form, per_document=per_document, label=name)
