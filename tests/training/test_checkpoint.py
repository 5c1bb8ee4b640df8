"""The layout, on directories that hold no weights: what Levanter writes is only files here."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

import pytest

from marin.errors import UnreadableCheckpoint
from marin.store.files.directory import Directory
from marin.training import checkpoint
from tests.support.servers import StoreServer
from tests.training.runs import QWEN3

FACTS = checkpoint.Facts(step=160, tokens=327_680, loss=3.25, model=QWEN3, vocabulary=64, averaged=True)


@pytest.fixture(params=["local", "memory"])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Directory:
    return Directory(str(tmp_path / "run") if request.param == "local" else f"memory://{uuid.uuid4()}/run")


def write(run: Directory, step: int, *, whole: bool = True) -> Directory:
    directory = checkpoint.step_directory(run, step)
    directory.write_bytes("d/0001", bytes(range(200)))
    directory.write_text("metrics.jsonl", "{}\n")
    if whole:
        checkpoint.complete(directory, FACTS)
    return directory


def test_facts_come_back(run: Directory) -> None:
    assert checkpoint.read_facts(write(run, 160)) == FACTS
    assert checkpoint.read_facts(write(run, 160)).parameters == QWEN3.parameters(64)


def test_only_complete_checkpoints_count(run: Directory) -> None:
    for step in (100, 20, 9):
        write(run, step)
    half = write(run, 110, whole=False)
    assert checkpoint.complete_steps(run) == [9, 20, 100]
    assert checkpoint.half_written_steps(run) == [110]
    with pytest.raises(UnreadableCheckpoint, match=r"checkpoint\.json, which is written last, is missing"):
        checkpoint.read_facts(half)


def test_a_run_without_checkpoints_has_no_steps(run: Directory) -> None:
    assert checkpoint.complete_steps(run) == []


def test_an_untouched_checkpoint_verifies(run: Directory) -> None:
    checkpoint.verify(write(run, 1))


def test_a_bucket_is_asked_as_often_whatever_the_number_of_files(server: StoreServer) -> None:
    """256 hosts write thousands of files, and each host verifies every file when it resumes."""
    asked: list[int] = []
    for files in (2, 20):
        prefix = server.new_prefix()
        directory = Directory(f"{prefix}/run/step-1")
        for number in range(files):
            directory.write_bytes(f"d/{number:04}", bytes(200))
        before = server.counts(prefix)
        checkpoint.complete(directory, FACTS)
        checkpoint.verify(directory)
        asked.append((server.counts(prefix) - before).total())
    assert asked[0] == asked[1]


def test_a_missing_file_is_named(run: Directory) -> None:
    written = write(run, 1)
    checkpoint.copy(written, run / "other")
    with written.open("checkpoint.json") as handle:
        marker = handle.read()
    partial = run / "partial"
    partial.write_bytes("checkpoint.json", marker)
    with pytest.raises(UnreadableCheckpoint, match="d/0001 is missing"):
        checkpoint.verify(partial)
    checkpoint.verify(run / "other")


def test_a_truncated_file_is_named_with_both_sizes(run: Directory) -> None:
    written = write(run, 1)
    written.write_bytes("d/0001", bytes(50))
    with pytest.raises(UnreadableCheckpoint, match="d/0001 has 50 bytes, 200 were written"):
        checkpoint.verify(written)


def test_a_flipped_bit_is_found_on_a_local_disk(tmp_path: Path) -> None:
    written = write(Directory(str(tmp_path)), 1)
    written.write_bytes("d/0001", bytes([1, *range(1, 200)]))
    with pytest.raises(UnreadableCheckpoint, match="d/0001 changed after it was written"):
        checkpoint.verify(written)


@pytest.mark.parametrize("garbled", ["", "{}", '{"format": 1, "facts": {"step": "many"}, "files": {}}'])
def test_a_garbled_marker_is_an_error_of_ours(run: Directory, garbled: str) -> None:
    written = write(run, 1)
    written.write_text("checkpoint.json", garbled)
    with pytest.raises(UnreadableCheckpoint, match="garbled"):
        checkpoint.read_facts(written)


def test_a_checkpoint_of_a_later_format_is_refused(run: Directory) -> None:
    written = write(run, 1)
    written.write_text("checkpoint.json", written.read_text("checkpoint.json").replace('"format": 1', '"format": 7'))
    with pytest.raises(UnreadableCheckpoint, match="format 7, this build reads 1"):
        checkpoint.read_facts(written)


def test_removal_leaves_nothing(run: Directory) -> None:
    written = write(run, 1)
    checkpoint.remove(written)
    assert written.names() == []
    assert checkpoint.complete_steps(run) == []


def test_a_copy_leaves_out_what_does_not_belong(run: Directory) -> None:
    written = write(run, 1)
    written.write_text("stray.txt", "left by somebody")
    checkpoint.copy(written, run / "copied")
    assert (run / "copied").names() == ["checkpoint.json", "d/0001", "metrics.jsonl"]
    checkpoint.verify(run / "copied")


def test_the_marker_appears_by_rename(tmp_path: Path) -> None:
    written = write(Directory(str(tmp_path)), 1, whole=False)
    checkpoint.complete(written, FACTS)
    assert sorted(os.listdir(written.path)) == ["checkpoint.json", "d", "metrics.jsonl"]


def test_a_copy_on_one_disk_takes_no_second_room(tmp_path: Path) -> None:
    written = write(Directory(str(tmp_path / "run")), 1)
    checkpoint.copy(written, Directory(str(tmp_path / "out")))
    assert all(os.path.samefile(written.path / name, tmp_path / "out" / name) for name in written.names())
