"""Directories write, read and list the files of outputs alike on every kind of store."""

import gc
import io
from pathlib import Path

import pytest

from marin.errors import BadName, BadPrefix, StoreError
from marin.store.files.directory import Directory
from tests.support.servers import Act, Operation, Rule, StoreServer

LARGE = b"0123456789abcdef\r" * (20 << 16)  # more than 16 MiB; bytes that a sloppy server would lose
ODD = [
    "a b/c d.txt",
    "ünï/cødé ☃.json",
    "a#b?c%20d&e=f+g.parquet",
    "x" * 250,
    "a" * 200 + "/" + "b" * 200,
    "[a]*{b}",
    "~",
    "-rf",
]
OUTSIDE = ["", "/etc/passwd", "../up", "a/../../up", "a/./b", "a//b", "a/"]
UNKEEPABLE = ["x" * 300, "é" * 130, "a\nb", "a\x00b", "\udcff", "/".join(["d" * 99] * 10)]


@pytest.fixture
def directory(any_prefix: str) -> Directory:
    return Directory(any_prefix) / "op/label-0123456789ab.0001"


def test_what_is_written_is_read_listed_and_removed(directory: Directory) -> None:
    assert directory.names() == []
    assert not directory.exists()
    directory.write_bytes("b/two.bin", b"\x00\r\n\xff\r")
    directory.write_text("one.txt", "één\n")
    directory.write_bytes("empty", b"")
    assert directory.names() == ["b/two.bin", "empty", "one.txt"]
    assert {name: held.size for name, held in directory.listing().items()} == {"b/two.bin": 5, "empty": 0, "one.txt": 6}
    assert directory.read_bytes("b/two.bin") == b"\x00\r\n\xff\r"
    assert directory.read_text("one.txt") == "één\n"
    assert (directory / "b").read_bytes("two.bin") == b"\x00\r\n\xff\r"
    assert (directory / "b").names() == ["two.bin"]
    assert directory.size("one.txt") == 6
    assert directory.exists()
    assert directory.exists("b")
    assert directory.exists("b/two.bin")
    assert not directory.exists("b/two")
    directory.write_text("one.txt", "again")
    assert directory.read_text("one.txt") == "again"
    beside = Directory(directory.url + "1")
    beside.write_text("kept", "")
    directory.remove()
    directory.remove()
    assert directory.names() == []
    assert beside.names() == ["kept"]


def test_text_and_ranges(directory: Directory) -> None:
    with directory.open("lines.txt", "w") as handle:
        handle.write("een\n")
        handle.write("twéé\n")
    with directory.open("lines.txt", "r") as handle:
        assert list(handle) == ["een\n", "twéé\n"]
    with directory.open("lines.txt") as handle:
        handle.seek(-3, io.SEEK_END)
        assert handle.read(2) == "é".encode()
        handle.seek(1)
        assert handle.read(2) == b"en"
        assert handle.tell() == 3


def test_a_large_file_goes_in_parts_and_comes_in_blocks(directory: Directory) -> None:
    with directory.open("large.bin", "wb") as handle:
        for start in range(0, len(LARGE), 1 << 20):
            handle.write(LARGE[start : start + (1 << 20)])
    assert directory.size("large.bin") == len(LARGE)
    with directory.open("large.bin") as handle:
        handle.seek(9_000_000)
        assert handle.read(20) == LARGE[9_000_000:9_000_020]
    assert directory.read_bytes("large.bin") == LARGE


def test_what_is_not_there_is_not_found(directory: Directory) -> None:
    for read in (
        lambda: directory.read_bytes("none"),
        lambda: directory.size("none"),
        lambda: (directory / "no").read_text("x"),
    ):
        with pytest.raises(FileNotFoundError):
            read()
    with pytest.raises(FileNotFoundError), directory.open("none"):
        pass


@pytest.mark.parametrize("name", ODD)
def test_odd_names_are_kept(directory: Directory, name: str) -> None:
    directory.write_bytes(name, b"1")
    assert directory.names() == [name]
    assert directory.read_bytes(name) == b"1"
    assert directory.exists(name)
    directory.remove()
    assert directory.names() == []


@pytest.mark.parametrize("name", [*OUTSIDE, *UNKEEPABLE])
def test_names_that_leave_or_that_a_store_could_not_keep_are_refused(directory: Directory, name: str) -> None:
    with pytest.raises(BadName):
        directory.write_bytes(name, b"1")
    with pytest.raises(BadName):
        directory.read_bytes(name)
    with pytest.raises(BadName):
        directory / name
    assert directory.names() == []


def test_the_stores_own_files_are_not_an_operators(directory: Directory) -> None:
    with pytest.raises(BadName, match="own files"):
        directory.write_text(".marin/record.json", "{}")


@pytest.mark.parametrize("mode", ["w", "wb"])
@pytest.mark.parametrize("size", [10, 20 << 20])
def test_a_file_that_was_not_finished_does_not_appear(remote_prefix: str, size: int, mode: str) -> None:
    directory = Directory(remote_prefix)

    def write_half() -> None:
        with directory.open("half", mode) as handle:
            handle.write(b"x" * size if "b" in mode else "x" * size)
            raise RuntimeError("the power went out")

    with pytest.raises(RuntimeError, match="the power went out"):
        write_half()
    gc.collect()
    assert directory.names() == []


def test_nothing_is_appended_to_an_object(remote_prefix: str) -> None:
    with pytest.raises(StoreError, match="write the whole file"), Directory(remote_prefix).open("a", "ab"):
        pass


def test_a_store_that_refuses_or_has_no_bucket_is_named(server: StoreServer, remote_prefix: str) -> None:
    directory = Directory(remote_prefix)
    directory.write_text("a", "1")
    server.obey(Rule(act=Act.ANSWER, status=403))
    for use in (
        lambda: directory.write_text("b", "1"),
        lambda: directory.write_bytes("c", LARGE),
        lambda: directory.read_text("a"),
        lambda: directory.names(),
        lambda: directory.exists("a"),
        lambda: directory.size("a"),
        lambda: directory.remove(),
    ):
        with pytest.raises(BadPrefix, match="the store refused to"):
            use()
    server.obey()
    assert directory.names() == ["a"]
    nowhere = Directory(f"{server.kind}://nobodys/store")
    for use in (lambda: nowhere.names(), lambda: nowhere.write_text("a", "1"), lambda: nowhere.write_bytes("a", LARGE)):
        with pytest.raises(BadPrefix, match="there is no bucket"):
            use()


def test_a_store_that_fails_now_and_then_loses_nothing(server: StoreServer, remote_prefix: str) -> None:
    directory = Directory(remote_prefix)
    changes = [Operation.WRITE, Operation.BEGIN, Operation.PART]
    server.obey(
        Rule(act=Act.ANSWER, operations=changes, status=503, times=1),
        Rule(act=Act.LOSE, operations=[Operation.WRITE, Operation.BEGIN], skip=1, times=1),
        Rule(act=Act.CUT, operations=[Operation.READ], times=1),
    )
    directory.write_bytes("large", LARGE)
    directory.write_bytes("small", b"1")
    assert directory.read_bytes("large") == LARGE
    assert directory.read_bytes("small") == b"1"


def test_a_local_path_is_the_folder_itself(tmp_path: Path) -> None:
    assert Directory(str(tmp_path)).path == tmp_path
