"""A folder of one's own text."""

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from marin.data.documents import read_documents
from marin.errors import BadField, GarbledDocument, InputError, TruncatedShard
from operators import text_files
from operators.text_files import TextFiles
from tests.operators.running import run_step


def texts_of(folder: Path, out: Path, **fields: str) -> dict[str, list[str]]:
    """Texts by file."""
    found: dict[str, list[str]] = {}
    for document in read_documents(run_step(TextFiles(path=str(folder), **fields), {}, out).directory):
        found.setdefault(document.source, []).append(document.text)
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "text"
    (made / "deep/er").mkdir(parents=True)
    return made


def test_every_kind_of_file_is_read_and_the_rest_is_counted(folder: Path, tmp_path: Path) -> None:
    records = [{"text": "first", "n": 1}, {"text": "second"}]
    lines = "\n".join(map(json.dumps, records)).encode()
    (folder / "a.txt").write_text("Plain text.\nTwo lines.\n")
    (folder / "deep/b.md").write_bytes("\ufeff# Märkte\n".encode())
    (folder / "deep/er/c.txt.gz").write_bytes(gzip.compress(b"compressed"))
    (folder / "d.jsonl").write_bytes(lines)
    (folder / "e.jsonl.gz").write_bytes(gzip.compress(lines))
    (folder / "f.json.zst").write_bytes(zstandard.compress(lines))
    pq.write_table(pa.Table.from_pylist(records), folder / "g.parquet")
    (folder / "empty.txt").write_text(" \n")
    (folder / "slides.pdf").write_bytes(b"%PDF")
    both = ["first", "second"]
    assert texts_of(folder, tmp_path / "out") == {
        "a.txt": ["Plain text.\nTwo lines.\n"],
        "d.jsonl": both,
        "deep/b.md": ["# Märkte\n"],
        "deep/er/c.txt.gz": ["compressed"],
        "e.jsonl.gz": both,
        "f.json.zst": both,
        "g.parquet": both,
    }
    made = run_step(TextFiles(path=str(folder)), {}, tmp_path / "again")
    assert (made.documents, made.shards, made.dropped) == (11, 1, {"empty": 1, "another ending": 1})


def test_large_files_are_shards_of_their_own(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_files, "SHARD_BYTES", 10)
    for name, size in (("a", 4), ("b", 4), ("c", 30), ("d", 3)):
        (folder / f"{name}.txt").write_text("x" * size)
    made = run_step(TextFiles(path=str(folder)), {}, tmp_path / "out")
    assert (made.shards, made.documents, made.bytes) == (3, 4, 41)


def test_the_text_may_be_another_field(folder: Path, tmp_path: Path) -> None:
    (folder / "a.jsonl").write_text(json.dumps({"page": {"body": "here"}}))
    assert texts_of(folder, tmp_path / "out", text_field="page.body") == {"a.jsonl": ["here"]}


@pytest.mark.parametrize(
    ("name", "content", "error", "says"),
    [
        ("a.txt", b"caf\xe9", GarbledDocument, r"a\.txt: byte 3 is no UTF-8; convert the file"),
        (
            "a.jsonl",
            b'{"body": "x"}',
            GarbledDocument,
            r"a\.jsonl line 1: the field 'text' is missing.*has body.*text_field",
        ),
        ("a.jsonl", b'{"text": 5}\n', GarbledDocument, r"a\.jsonl line 1: the field 'text' is of type int"),
        ("a.txt.gz", gzip.compress(b"cut short", mtime=0)[:-9], TruncatedShard, r"a\.txt\.gz.*cannot be decompressed"),
        ("a.pdf", b"%PDF", InputError, r"none of its 1 files can be read, such as a\.pdf; wanted \.txt, \.md"),
    ],
    ids=["latin-1", "no such field", "no text", "cut short", "no text file"],
)
def test_what_cannot_be_read_is_named_with_its_remedy(
    folder: Path, tmp_path: Path, name: str, content: bytes, error: type[Exception], says: str
) -> None:
    (folder / name).write_bytes(content)
    with pytest.raises(error, match=says):
        run_step(TextFiles(path=str(folder)), {}, tmp_path / "out")


def test_a_folder_without_files_says_so(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="selects no file"):
        run_step(TextFiles(path=str(folder)), {}, tmp_path / "out")


@pytest.mark.parametrize("path", ["", "text", "./text", "../text"])
def test_a_path_that_depends_on_the_current_folder_is_refused(path: str) -> None:
    with pytest.raises(BadField, match=r"wanted an absolute path or a URL.*with beside=__file__"):
        TextFiles(path=path)


def test_a_folder_beside_its_file_is_the_same_wherever_both_lie(tmp_path: Path) -> None:
    steps: list[TextFiles] = []
    for place in ("here", "there"):
        (tmp_path / place / "text").mkdir(parents=True)
        (tmp_path / place / "text" / "a.txt").write_text("one")
        steps.append(TextFiles(path="../text", beside=str(tmp_path / place / "code" / "exp.py")))
    here, there = steps
    assert here.identity == there.identity
    assert here.outside() == there.outside()
    assert list(here.outside()) == ["../text/a.txt"]
    (tmp_path / "there/text/a.txt").write_text("two")
    assert here.outside() != there.outside()
    read = read_documents(run_step(there, {}, tmp_path / "out").directory)
    assert [(document.text, document.source) for document in read] == [("two", "a.txt")]


def test_a_new_or_changed_file_is_seen_from_outside(folder: Path) -> None:
    (folder / "a.txt").write_text("one")
    step = TextFiles(path=str(folder))
    before = step.outside()
    (folder / "b.txt").write_text("two")
    added = step.outside()
    (folder / "a.txt").write_text("six")
    assert added.keys() - before.keys() == {str(folder / "b.txt")}
    assert step.outside()[str(folder / "a.txt")] != before[str(folder / "a.txt")]


def test_links_to_files_are_read_as_the_files(folder: Path, tmp_path: Path) -> None:
    blob = tmp_path / "blobs" / "5f3a"
    blob.parent.mkdir()
    blob.write_text("lies elsewhere")
    (folder / "a.txt").symlink_to(blob)
    (folder / "gone.txt").symlink_to(tmp_path / "nowhere")
    assert texts_of(folder, tmp_path / "out") == {"a.txt": ["lies elsewhere"]}
