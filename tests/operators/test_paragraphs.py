"""Paragraphs: what becomes a document, and how it ends."""

from pathlib import Path

import pytest

from marin.data.documents import Document, read_documents
from marin.errors import BadField
from operators.paragraphs import Paragraphs
from tests.operators.running import Given, given_documents, run_step

TEXT = Given(name_of_input="text")


def texts(step: Paragraphs, tmp_path: Path, text: str) -> list[str]:
    given = given_documents([Document(text, "web")], tmp_path / "given")
    return [document.text for document in read_documents(run_step(step, {TEXT: given}, tmp_path).directory)]


def test_each_paragraph_is_a_document_and_ends_as_asked(tmp_path: Path) -> None:
    text = "\n\n".join(["  The first one. ", "short", "Two lines\nof the second one.\n"])
    assert texts(Paragraphs(documents=TEXT, least=10), tmp_path / "a", text) == [
        "The first one.",
        "Two lines\nof the second one.",
    ]
    spaced = texts(Paragraphs(documents=TEXT, least=10, ending=" "), tmp_path / "b", text)
    assert spaced == ["The first one. ", "Two lines\nof the second one. "]


def test_a_paragraph_has_a_character() -> None:
    with pytest.raises(BadField, match="least is 0"):
        Paragraphs(documents=TEXT, least=0)
