"""A sidecar says what went and why; the bound is exact."""

from pathlib import Path

import pytest

from marin.data.documents import Document, read_documents, write_documents
from marin.data.dropped import Dropped, Sieved, check_removed, read_dropped, sieve, total
from marin.errors import OverRemoval
from marin.store.files.directory import Directory


def judge(document: Document) -> Document | Dropped:
    if document.text.endswith("3"):
        return Dropped(document.id, "three", {"text": document.text, "ö": [1]})
    return Document(document.text.upper(), document.source, document.metadata)


def test_sieve_keeps_order_and_writes_every_drop_down(tmp_path: Path) -> None:
    inputs, out = Directory(str(tmp_path / "in")), Directory("memory://test-dropped/out")
    documents = [Document(f"text {n}") for n in range(20)]
    write_documents(inputs, documents, 2)
    parts = [sieve(inputs, name, out, judge) for name in inputs.names()]
    assert total(parts) == Sieved(18, sum(len(d.text) for d in documents) - 13, {"three": 2}, {"three": 13})
    assert [d.text for d in read_documents(out)] == [d.text.upper() for d in documents if d.text[-1] != "3"]
    assert list(read_dropped(out)) == [judge(documents[3]), judge(documents[13])]


@pytest.mark.parametrize(
    ("removed", "bound", "raises"), [(3, 0.3, False), (4, 0.3, True), (0, 0.0, False), (10, 1.0, False)]
)
def test_bound(removed: int, bound: float, raises: bool) -> None:
    sieved = Sieved(10 - removed, 0, {"why": removed} if removed else {})
    if not raises:
        check_removed("filter/x", "web", sieved, bound, Directory("/out"))
        return
    with pytest.raises(OverRemoval, match=r"filter/x removed 4 of 10 documents \(40\.0%\) of web; at most 30\.0%"):
        check_removed("filter/x", "web", sieved, bound, Directory("/out"))
