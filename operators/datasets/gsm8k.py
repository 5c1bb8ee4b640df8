"""GSM8K: the evaluation items, and problems of the same kind to train on.

At full scale the 1319 real test items; in a rehearsal generated ones. Training problems come from the
training split of the generator, which shares no question with the test split.
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
    """The items that arms are judged on, and that the contaminated bundle contains in a rehearsal."""
    if scale is Scale.FULL:
        files = HuggingFace(repo="openai/gsm8k", revision=REVISION, patterns=("main/test-*.parquet",), label="gsm8k")
        return ReadItems(files=files, label="gsm8k-test")
    return GenerateItems(seed=8000, count=TEST_ITEMS, split=Split.TEST, label="gsm8k-test")


def reference_items() -> ExecutorStep[Items]:
    """Problems that no model has been trained on: generated here, at both scales.

    At full scale they are not of GSM8K's distribution, so only differences between checkpoints are read off them.
    """
    return GenerateItems(seed=8002, count=TEST_ITEMS, split=Split.TEST, label="gsm8k-reference")


def problems(name: str, seed: int, count: int, form: Form, per_document: int = 4) -> ExecutorStep[Documents]:
    """Generated training problems for the source ``name``; each source has a seed of its own."""
    items = GenerateItems(seed=seed, count=count, split=Split.TRAIN, label=name)
    return ProblemDocuments(items=items, form=form, per_document=per_document, label=name)
