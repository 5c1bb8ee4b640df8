"""Documents survive a round trip, byte-identically; broken shards are named."""

import io
import itertools
import subprocess
import sys
import threading
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import xxhash
from hypothesis import example, given, settings
from hypothesis import strategies as st

from marin.data.documents import (
    Document,
    parquet_file,
    read_documents,
    read_documents_from,
    read_shard,
    shard_name,
    shard_names,
    write_documents,
)
from marin.errors import GarbledDocument, TruncatedShard
from marin.store.files.directory import Directory

TEN = [Document(f"text {n}\nä😀", f"s{n % 2}", {"n": n, "tags": ["b", "a"], "ö": None}) for n in range(10)]

_fresh = itertools.count()


@pytest.fixture(params=["local", "memory"])
def directory(request: pytest.FixtureRequest, tmp_path: Path) -> Directory:
    if request.param == "local":
        return Directory(str(tmp_path / "documents"))
    return Directory(f"memory://test-documents-{next(_fresh)}/documents")


@pytest.mark.parametrize("shards", [1, 3, 10, 12])
def test_round_trip_keeps_order(directory: Directory, shards: int) -> None:
    wrote = write_documents(directory, iter(TEN), shards)
    assert wrote == (10, sum(len(d.text.encode()) for d in TEN), shards)
    assert shard_names(directory) == [shard_name(i, shards) for i in range(shards)]
    assert list(read_documents(directory)) == TEN


def test_sidecars_are_not_shards(directory: Directory) -> None:
    write_documents(directory, TEN, 2)
    write_documents(directory / "dropped", TEN, 3)
    directory.write_text("notes.txt", "hello")
    assert len(shard_names(directory)) == 2


def test_id_is_the_text_hash_and_stored(tmp_path: Path) -> None:
    write_documents(Directory(str(tmp_path)), TEN)
    stored = pq.read_table(tmp_path / shard_name(0, 1)).column("id").to_pylist()
    assert stored == [d.id for d in TEN] == [xxhash.xxh3_128_hexdigest(d.text.encode()) for d in TEN]


def test_no_documents_is_one_empty_shard(directory: Directory) -> None:
    assert write_documents(directory, []) == (0, 0, 1)
    assert list(read_documents(directory)) == []


def test_same_bytes_in_another_process(tmp_path: Path) -> None:
    write_documents(Directory(str(tmp_path / "a")), TEN)
    program = (
        "from tests.data.test_documents import TEN; from marin.data.documents import write_documents;"
        f"from marin.store.files.directory import Directory; write_documents(Directory({str(tmp_path / 'b')!r}), TEN)"
    )
    root = Path(__file__).parents[2]
    subprocess.run([sys.executable, "-c", program], check=True, cwd=root, env={"PYTHONHASHSEED": "77"})
    name = shard_name(0, 1)
    assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_many_row_groups(tmp_path: Path) -> None:
    many = [Document(str(n)) for n in range(9000)]
    write_documents(Directory(str(tmp_path)), many)
    assert pq.ParquetFile(tmp_path / shard_name(0, 1)).num_row_groups == 3
    assert list(read_documents(Directory(str(tmp_path)))) == many


def test_a_file_is_read_in_the_thread_of_its_reader(directory: Directory) -> None:
    readers = set[int]()

    class Heard(io.BytesIO):
        def read(self, *size: int) -> bytes:
            readers.add(threading.get_ident())
            return super().read(*size)

    write_documents(directory, TEN, shards=1)
    with directory.open(shard_name(0, 1), "rb") as handle:
        file = parquet_file(Heard(handle.read()))
    assert file.read_row_group(0, use_threads=False).num_rows == len(TEN)
    assert readers == {threading.get_ident()}


@pytest.mark.parametrize("first", [0, 1, 4095, 4096, 4097, 4500, 8999, 9000, 9001])
def test_reading_from_one_document_on(tmp_path: Path, first: int) -> None:
    """Two shards, the first of two row groups."""
    documents = [Document(f"text {number}", "s", {"n": number}) for number in range(9000)]
    write_documents(Directory(str(tmp_path)), documents, 2)
    assert list(read_documents_from(Directory(str(tmp_path)), first)) == documents[first:]


@pytest.mark.parametrize("first", [0, 3])
def test_reading_on_in_a_truncated_shard_names_it(directory: Directory, first: int) -> None:
    write_documents(directory, TEN, 1)
    directory.write_bytes(shard_name(0, 1), directory.read_bytes(shard_name(0, 1))[:-20])
    with pytest.raises(TruncatedShard, match=shard_name(0, 1)):
        list(read_documents_from(directory, first))


@pytest.mark.parametrize("keep", [0.0, 0.3, 0.9])
def test_truncated_shard_is_named(directory: Directory, keep: float) -> None:
    write_documents(directory, TEN, 2)
    name = shard_name(1, 2)
    whole = directory.read_bytes(name)
    directory.write_bytes(name, whole[: int(len(whole) * keep)])
    with pytest.raises(TruncatedShard, match=r"shard-00001-of-00002\.parquet: expected .*, found 0 readable rows"):
        list(read_documents(directory))


@settings(max_examples=60, deadline=None)
@example(position=0.62771, flip=4)  # what says that a column holds text
@given(position=st.floats(0, 0.999), flip=st.integers(1, 255))
def test_a_flipped_byte_is_never_read_as_other_text(position: float, flip: int) -> None:
    directory = Directory(f"memory://test-documents-flip-{next(_fresh)}")
    write_documents(directory, TEN)
    broken = bytearray(directory.read_bytes(shard_name(0, 1)))
    broken[int(position * len(broken))] ^= flip
    directory.write_bytes(shard_name(0, 1), bytes(broken))
    found: object = TEN  # a flip in a statistic or a name that nobody reads
    try:
        found = list(read_documents(directory))
    except TruncatedShard as error:
        found = str(error)
    assert found == TEN or shard_name(0, 1) in str(found)


def test_missing_shard_and_missing_file(directory: Directory) -> None:
    with pytest.raises(TruncatedShard, match="found no shard"):
        shard_names(directory)
    write_documents(directory, TEN, 2)
    with pytest.raises(TruncatedShard, match="expected a shard, found no file"):
        list(read_shard(directory, shard_name(7, 8)))
    directory.write_bytes(shard_name(2, 3), b"")
    with pytest.raises(TruncatedShard, match=r"expected 2 shards, found 3; unexpected shard-00002-of-00003"):
        shard_names(directory)


def test_other_parquet_is_refused(directory: Directory) -> None:
    import pyarrow as pa

    with directory.open(shard_name(0, 1), "wb") as handle:
        pq.write_table(pa.table({"body": ["x"]}), handle)
    with pytest.raises(TruncatedShard, match=r"columns id, text, source, metadata.*its columns are body"):
        list(read_documents(directory))


def test_unwritable_documents_are_named(directory: Directory) -> None:
    with pytest.raises(GarbledDocument, match="document 1 from 'bad'"):
        write_documents(directory, [TEN[0], Document("\ud800", "bad")])
    with pytest.raises(GarbledDocument, match="metadata is not JSON"):
        write_documents(directory, [Document("x", "bad", {"f": {1, 2}})])


def test_writing_and_reading_leave_pandas_out(tmp_path: Path) -> None:
    """pyarrow imports pandas for pa.array(): .2 s in each new process that runs a step."""
    program = (
        "import sys; from marin.data.documents import *; from marin.store.files.directory import Directory;"
        f"d = Directory({str(tmp_path)!r}); write_documents(d, [Document('x')]); list(read_documents(d));"
        "sys.exit('pandas' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=Path(__file__).parents[2])
