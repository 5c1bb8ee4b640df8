"""DropShort keeps the documents that are long enough, and no others."""

from pathlib import Path

import pytest
from marin.data.documents import read_documents
from marin.errors import BadField
from marin.executor.make_here import make_here
from operators.text_files import TextFiles

from my_project.drop_short import DropShort


def test_short_documents_are_dropped(tmp_path: Path) -> None:
    folder = tmp_path / "text"
    folder.mkdir()
    (folder / "long.txt").write_text("one two three")
    (folder / "short.txt").write_text("one two")
    step = DropShort(documents=TextFiles(path=str(folder)), words=3)
    made = make_here(step, str(tmp_path / "store"))
    assert [document.text for document in read_documents(made.directory)] == ["one two three"]
    assert made.documents == 1


def test_a_number_of_words_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(BadField, match="wanted at least 1"):
        DropShort(documents=TextFiles(path="/text"), words=0)
