"""Items and the documents made from them, as steps."""

from __future__ import annotations

from pathlib import Path

import pytest

from marin.data.documents import read_documents
from marin.errors import BadField
from marin.evaluation.formats import olmes
from marin.evaluation.items import read_items
from operators.datasets.rehearsal.math_problems import Bundle, GenerateItems, ProblemDocuments
from operators.datasets.rehearsal.problem_forms import Form
from operators.datasets.rehearsal.problems import Split
from tests.operators.running import file_bytes, rows_digest, run_step


def test_output_bytes_are_pinned(tmp_path: Path) -> None:
    """A change of these bytes needs a new version of the operator."""
    items = GenerateItems(seed=7, count=20, split=Split.TEST)
    made = run_step(items, {}, tmp_path)
    assert rows_digest(made.directory) == "9bfd65fa0eaf7914"
    documents = {}
    for form in Form:
        step = ProblemDocuments(items=items, form=form, per_document=3)
        documents[form.value] = rows_digest(run_step(step, {items: made}, tmp_path).directory)
    assert documents == {
        "lm_eval": "c1b5a69c7a721eed",
        "olmes": "e2d0f40dfbe7aca3",
        "forum": "350023042ab99d31",
        "textbook": "e614ec34d4357b4d",
        "markdown": "0fba54daaad61dd3",
        "text_and_code": "a64dda44c2759abc",
        "code": "0a267d57167ed9ac",
        "question_answer": "0b6fdc2727087277",
        "instruction": "eb39041040865b22",
        "multiple_choice": "175ba37d98ef45ac",
    }


def test_two_runs_write_the_same_bytes(tmp_path: Path) -> None:
    items = GenerateItems(seed=7, count=20, split=Split.TRAIN)
    first, second = (run_step(items, {}, tmp_path / name) for name in ("one", "two"))
    assert file_bytes(first.directory) == file_bytes(second.directory)


def test_documents_name_their_items_and_a_bundle_keeps_blocks(tmp_path: Path) -> None:
    train = GenerateItems(seed=1, count=10, split=Split.TRAIN)
    test = GenerateItems(seed=1, count=4, split=Split.TEST)
    made = {step: run_step(step, {}, tmp_path) for step in (train, test)}
    parts = (
        ProblemDocuments(items=train, form=Form.TEXTBOOK, per_document=4),
        ProblemDocuments(items=test, form=Form.OLMES),
    )
    written = {part: run_step(part, made, tmp_path) for part in parts}
    bundle = run_step(Bundle(parts=parts), written, tmp_path)

    found = list(read_documents(bundle.directory))
    assert bundle.documents == len(found) == 3 + 4
    assert bundle.bytes == sum(artifact.bytes for artifact in written.values())
    assert [document.source for document in found] == ["problems/textbook"] * 3 + ["problems/olmes"] * 4
    tested = read_items(made[test].directory)
    assert [document.text for document in found[3:]] == [olmes(item.question, item.answer) for item in tested]
    assert [document.metadata["items"] for document in found[3:]] == [[item.id] for item in tested]


def test_senseless_fields_are_refused_where_they_are_written() -> None:
    items = GenerateItems(seed=1, count=1, split=Split.TRAIN)
    with pytest.raises(BadField, match="count is 0"):
        GenerateItems(seed=1, count=0, split=Split.TRAIN)
    with pytest.raises(BadField, match="per_document is 0"):
        ProblemDocuments(items=items, form=Form.CODE, per_document=0)
    with pytest.raises(BadField, match=r"Bundle\.parts is empty"):
        Bundle(parts=())
