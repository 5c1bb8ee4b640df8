"""Steps read only the committed bytes of an input. If an input changes meanwhile, its reader commits nothing."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from marin import Checkpoint, Context, ExecutorStep, Pinned, execution
from marin.executor.run_results import Run
from marin.report.audit import audit_store
from marin.report.claims import Grade
from marin.store.files.verify import Checked
from marin.store.objects.objects import open_objects
from marin.store.store import Store
from tests.support.project import EXPERIMENT, Project
from tests.support.toy import (
    Blob,
    Join,
    Milestone,
    Write,
    checkpoint,
    execute,
    forget,
    planned,
    ran,
    record_of,
    run,
    statuses,
)

SOURCE = Write(text="the first text", label="source")


def file_of(prefix: str, step: ExecutorStep[Any], name: str = "text.txt") -> Path:
    return Path(prefix) / record_of(prefix, step).attempt / name


def flip(path: Path) -> None:
    """Flip one bit in place; size and modification time stay. A second flip mends the file."""
    before, content = path.stat(), bytearray(path.read_bytes())
    content[0] ^= 1
    with path.open("r+b") as handle:
        handle.write(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_mtime_ns == before.st_mtime_ns


def error_of(run: Run, step: ExecutorStep[Any]) -> str:
    return run.results[step].error


def run_with(prefix: str, at_most: int, **results: Any) -> Run:
    return execute(planned(prefix, **results), at_most)


def test_a_flipped_bit_that_keeps_size_and_time_is_refused_by_name_until_it_is_mended(prefix: str) -> None:
    run(prefix, source=SOURCE)
    flip(file_of(prefix, SOURCE))
    reader, other = Join(parts=(SOURCE,), label="reader"), Write(text="other", label="other")
    refused = run(prefix, reader=reader, other=other)
    assert statuses(refused) == {"toy-write/source": "cached", "toy-join/reader": "failed", "toy-write/other": "ran"}
    said = error_of(refused, reader)
    assert "input toy-write/source of toy-join/reader is damaged: changed: text.txt" in said
    assert "--rebuild toy-write/source" in said
    assert Store(prefix).record(reader.identity) is None
    flip(file_of(prefix, SOURCE))
    assert ran(run(prefix, reader=reader)) == {"toy-join/reader"}
    assert record_of(prefix, reader).inputs[0].checked is Checked.FULL


def test_every_run_looks_for_itself(prefix: str) -> None:
    run(prefix, first=Join(parts=(SOURCE,), label="first"))
    flip(file_of(prefix, SOURCE))
    second = Join(parts=(SOURCE,), separator="-", label="second")
    assert "is damaged" in error_of(run(prefix, end=second), second)


class Meddle(ExecutorStep[Blob], op="toy-meddle"):
    """Read the source, change a file of the source, and commit the text that was read."""

    source: ExecutorStep[Blob]
    how: str
    file: str = execution(default="")
    keep: bool = execution(default=False)

    def run(self, ctx: Context) -> Blob:
        if self.keep:
            if ctx.state.exists("begun.txt"):
                ctx.out.write_text("went_on.txt", "")
            ctx.state.write_text("begun.txt", "")
        text = ctx[self.source].directory.read_text("text.txt")
        if self.file:
            wait_until_settled(Path(self.file))
            MEDDLING[self.how](Path(self.file))
        ctx.out.write_text("text.txt", text)
        return Blob(bytes=len(text))


def flip_and_mend(path: Path) -> None:
    flip(path)
    flip(path)


def replace(path: Path) -> None:
    other, before = path.with_name("other.tmp"), path.stat()
    other.write_bytes(path.read_bytes().upper())
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.replace(path)


def touch(path: Path) -> None:
    path.touch()


def add(path: Path) -> None:
    path.with_name("more.txt").write_text("x")


def change_mode(path: Path) -> None:
    path.chmod(0o600 if path.stat().st_mode & 0o077 else 0o644)


def link(path: Path) -> None:
    os.link(path, path.parent.parent / "link.txt")


def flip_and_change_mode(path: Path) -> None:
    flip(path)
    change_mode(path)


MEDDLING: dict[str, Callable[[Path], None]] = {
    held.__name__: held
    for held in (flip, flip_and_mend, replace, touch, add, Path.unlink, change_mode, link, flip_and_change_mode)
}
WRITTEN = ["flip", "flip_and_mend", "replace", "touch", "add", "unlink", "flip_and_change_mode"]


@pytest.mark.parametrize("how", WRITTEN)
@pytest.mark.parametrize("fresh", [True, False], ids=["made_in_this_run", "made_before"])
def test_an_input_that_is_written_to_while_it_is_read_is_not_built_on(prefix: str, how: str, fresh: bool) -> None:
    run(prefix, source=SOURCE)
    path = file_of(prefix, SOURCE)
    if fresh:
        path = path.parent.parent / path.parent.name.replace(".0001", ".0002") / path.name
    reader = Meddle(source=SOURCE, how=how, file=str(path), label="reader")
    ended = run(prefix, ("source",) if fresh else (), reader=reader)
    assert statuses(ended)["toy-meddle/reader"] == "failed"
    said = error_of(ended, reader)
    assert "input toy-write/source of toy-meddle/reader" in said
    assert ("more.txt" if how == "add" else "text.txt") in said
    assert Store(prefix).record(reader.identity) is None


@pytest.mark.parametrize("how", ["change_mode", "link"])
def test_another_mode_or_link_of_an_input_is_no_change_of_it(prefix: str, how: str) -> None:
    run(prefix, source=SOURCE)
    reader = Meddle(source=SOURCE, how=how, file=str(file_of(prefix, SOURCE)), label="reader")
    assert ran(run(prefix, reader=reader)) == {"toy-meddle/reader"}


def test_work_in_progress_made_from_an_input_that_changed_is_thrown_away(prefix: str) -> None:
    run(prefix, source=SOURCE)
    path = file_of(prefix, SOURCE)
    meddling = Meddle(source=SOURCE, how="flip_and_mend", file=str(path), keep=True, label="reader")
    assert statuses(run(prefix, end=meddling))["toy-meddle/reader"] == "failed"
    run(prefix, end=Meddle(source=SOURCE, how="flip_and_mend", keep=True, label="reader"))
    assert not file_of(prefix, meddling, "went_on.txt").exists()


def test_work_in_progress_made_from_an_input_that_was_only_taken_away_is_gone_on_with(prefix: str) -> None:
    run(prefix, source=SOURCE)
    path = file_of(prefix, SOURCE)
    meddling = Meddle(source=SOURCE, how="unlink", file=str(path), keep=True, label="reader")
    assert "text.txt" in error_of(run(prefix, end=meddling), meddling)
    path.write_text(SOURCE.text)
    run(prefix, end=Meddle(source=SOURCE, how="unlink", keep=True, label="reader"))
    assert file_of(prefix, meddling, "went_on.txt").exists()


def test_an_input_that_changed_after_another_step_of_this_run_read_it_is_read_again(prefix: str) -> None:
    """The first reader and the meddler find the input intact. The next reader must not rely on their check."""
    run(prefix, source=SOURCE)
    path = file_of(prefix, SOURCE)
    wait_until_settled(path)
    first = Join(parts=(SOURCE,), label="first")
    meddler = Meddle(source=first, how="flip", file=str(path), label="meddler")  # of another step's input
    late = Join(parts=(SOURCE, meddler), label="late")
    ended = run(prefix, late=late)
    assert statuses(ended)["toy-meddle/meddler"] == "ran"
    assert "input toy-write/source of toy-join/late is damaged: changed: text.txt" in error_of(ended, late)


def wait_until_settled(path: Path) -> None:
    """Wait until the next write to the file would change its times."""
    while time.time() - path.stat().st_ctime < 0.02:
        time.sleep(0.001)


_opened: list[str] = []
_watched: list[str] = []


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and _watched and str(arguments[0]) in _watched:
        _opened.append(str(arguments[0]))


class Ignore(ExecutorStep[Blob], op="toy-ignore"):
    """A step that does not read its input."""

    source: ExecutorStep[Blob]
    number: int

    def run(self, ctx: Context) -> Blob:
        ctx.out.write_text("text.txt", "x")
        return Blob(bytes=1)


def test_an_input_of_ten_steps_is_read_once_a_run_for_the_check(prefix: str) -> None:
    run(prefix, source=SOURCE)
    path = file_of(prefix, SOURCE)
    wait_until_settled(path)
    sys.addaudithook(_hook)
    _watched.append(str(path))
    for first in (0, 10):
        _opened.clear()
        numbers = range(first, first + 10)
        readers: dict[str, Any] = {f"n{n}": Ignore(source=SOURCE, number=n, label=f"n{n}") for n in numbers}
        run(prefix, **readers)
        assert _opened == [str(path)]
    _watched.clear()


class Publish(ExecutorStep[Checkpoint], op="toy-publish"):
    """Publish a milestone before and after damaging the input."""

    source: ExecutorStep[Blob]
    file: str = execution(default="")

    def at(self, step: int) -> PublishedStep:
        return PublishedStep(of=self, step=step, label=f"{self.label}@{step}")

    def run(self, ctx: Context) -> Checkpoint:
        for step in sorted(ctx.milestones):
            if step == 2:
                flip_and_mend(Path(self.file))
            kept = ctx.state / f"step-{step}"
            kept.write_text("count.txt", str(step))
            ctx.publish(self.at(step), checkpoint(step), kept)
        ctx.out.write_text("count.txt", "2")
        return checkpoint(2)


class PublishedStep(ExecutorStep[Checkpoint], op="toy-published-step"):
    of: Publish
    step: int

    @property
    def producer(self) -> Publish:
        return self.of

    run = Milestone.run


def test_a_milestone_is_not_published_from_an_input_that_changed(prefix: str) -> None:
    run(prefix, source=SOURCE)
    training = Publish(source=SOURCE, file=str(file_of(prefix, SOURCE)), label="training")
    ended = run(prefix, one=training.at(1), two=training.at(2))
    assert {name: held for name, held in statuses(ended).items() if name != "toy-write/source"} == {
        "toy-publish/training": "failed",
        "toy-published-step/training@1": "ran",
        "toy-published-step/training@2": "skipped",
    }
    assert "text.txt" in error_of(ended, training)
    assert record_of(prefix, training.at(1)).inputs[0].checked is Checked.FULL


def test_a_pin_is_not_used_for_the_first_time_before_every_byte_was_compared(prefix: str) -> None:
    run(prefix, source=SOURCE)
    record = record_of(prefix, SOURCE)
    pin: Pinned[Blob] = Pinned(at=record.attempt, digest=record.root, label="old")
    flip(file_of(prefix, SOURCE))
    failed = run(prefix, pin=pin)
    assert "the pinned output" in error_of(failed, pin)
    assert "changed: text.txt" in error_of(failed, pin)
    assert Store(prefix).record(pin.identity) is None


class Many(ExecutorStep[Blob], op="toy-many"):
    """Write files of 1000 bytes."""

    files: int

    def run(self, ctx: Context) -> Blob:
        for number in range(self.files):
            ctx.out.write_text(f"{number:02d}.txt", f"{number:04d}" * 250)
        return Blob(bytes=self.files * 1000)


def test_what_is_checked_of_an_input_can_be_bounded_and_the_audit_says_so(prefix: str) -> None:
    many = Many(files=10, label="many")
    run(prefix, many=many)
    sizes, some, all_of = (Ignore(source=many, number=n, label=f"n{n}") for n in range(3))
    run_with(prefix, 0, end=sizes)
    run_with(prefix, 3500, end=some)
    run_with(prefix, 10_000, end=all_of)
    checked = [record_of(prefix, step).inputs[0].checked for step in (sizes, some, all_of)]
    assert checked == [Checked.SIZES, Checked.SAMPLE, Checked.FULL]
    found = {claim.text: audit.names(claim) for audit in [audit_store(Store(prefix))] for claim in audit.of(DOUBTFUL)}
    assert [names for text, names in found.items() if "only names and sizes" in text] == [["toy-ignore/n0"]]
    assert [names for text, names in found.items() if "only some files" in text] == [["toy-ignore/n1"]]


DOUBTFUL = Grade.DOUBTFUL


def test_a_sample_finds_damage_of_the_files_in_it_and_another_reader_takes_another(prefix: str) -> None:
    many = Many(files=10, label="many")
    run(prefix, many=many)
    samples: set[frozenset[str]] = set()
    for number in range(4):
        found: set[str] = set()
        for path in sorted(file_of(prefix, many, "").iterdir()):
            if path.suffix == ".txt":
                flip(path)
                reader = Ignore(source=many, number=number, label="reader")
                if run_with(prefix, 3500, end=reader).results[reader].status == "failed":
                    found.add(path.name)
                    assert Store(prefix).record(reader.identity) is None
                else:
                    forget_wholly(prefix, reader)
                flip(path)
        assert len(found) == 3  # whole files of no more than 3500 bytes
        samples.add(frozenset(found))
    assert len(samples) > 1


def forget_wholly(prefix: str, step: ExecutorStep[Any]) -> None:
    """Forget the output, and also its entry as an output of its action."""
    forget(prefix, step)
    for action in (Path(prefix) / ".marin/actions").glob(f"*-{step.identity}"):
        action.unlink()


def test_sizes_are_checked_whatever_the_bound(prefix: str) -> None:
    run(prefix, source=SOURCE)
    path = file_of(prefix, SOURCE)
    before = path.stat()
    path.write_text("the first tex")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    end = Join(parts=(SOURCE,), label="end")
    assert "truncated: text.txt" in error_of(run_with(prefix, 0, end=end), end)


class Overwrite(ExecutorStep[Blob], op="toy-overwrite"):
    """Overwrite the object that the step reads, on a store of any kind."""

    source: ExecutorStep[Blob]
    prefix: str = execution(default="")
    file: str = execution(default="")

    def run(self, ctx: Context) -> Blob:
        text = ctx[self.source].directory.read_text("text.txt")
        open_objects(self.prefix).write(self.file, text.upper().encode())
        ctx.out.write_text("text.txt", text)
        return Blob(bytes=len(text))


def test_on_any_store_other_bytes_are_refused_before_and_after_a_step_reads_them(any_prefix: str) -> None:
    run(any_prefix, source=SOURCE)
    name = f"{record_of(any_prefix, SOURCE).attempt}/text.txt"
    reader = Overwrite(source=SOURCE, prefix=any_prefix, file=name, label="reader")
    ended = run(any_prefix, end=reader)
    assert "toy-write/source of toy-overwrite/reader" in error_of(ended, reader)
    assert "text.txt" in error_of(ended, reader)
    assert Store(any_prefix).record(reader.identity) is None
    late = Join(parts=(SOURCE,), label="late")
    said = error_of(execute(planned(any_prefix, end=late)), late)
    assert "input toy-write/source of toy-join/late is damaged: changed: text.txt" in said
    open_objects(any_prefix).write(name, SOURCE.text.encode())
    assert ran(run(any_prefix, end=late)) == {"toy-join/late"}


class ReadByPath(ExecutorStep[Blob], op="toy-read-by-path"):
    """Read this machine's local copy of an input in an object store."""

    source: ExecutorStep[Blob]
    number: int

    def run(self, ctx: Context) -> Blob:
        text = (ctx[self.source].directory.path / "text.txt").read_text()
        ctx.out.write_text("text.txt", f"{text} {self.number}")
        return Blob(bytes=len(text))


def test_a_local_copy_of_a_remote_input_that_was_damaged_is_not_read(remote_prefix: str, tmp_path: Path) -> None:
    def read(number: int) -> str:
        reader = ReadByPath(source=SOURCE, number=number, label=f"reader-{number}")
        run(remote_prefix, end=reader)
        return Store(remote_prefix).output(record_of(remote_prefix, reader)).read_text("text.txt")

    assert read(1) == f"{SOURCE.text} 1"
    (copy,) = Path(os.environ["MARIN_CACHE"]).rglob("text.txt")
    flip(copy)
    assert read(2) == f"{SOURCE.text} 2"
    assert copy.read_text() == SOURCE.text


def test_the_command_line_bounds_it(tmp_path: Path) -> None:
    project = Project(tmp_path / "project", EXPERIMENT)
    project.run()
    (path,) = (project.store / "say").glob("*/text.txt")
    flip(path)
    project.file.write_text(EXPERIMENT.replace("* 2)", "* 3)"))
    drifted = ("--on-drift", "rebuild")
    assert "is damaged: changed: text.txt" in project.run(*drifted, expect=1)
    assert "--check-inputs" in project.run(*drifted, "--check-inputs", "some", expect=2)
    project.run(*drifted, "--check-inputs", "sizes")
    (record,) = (json.loads(held.read_text()) for held in (project.store / "repeat").glob("*.0003/.marin/record.json"))
    assert [held["checked"] for held in record["inputs"]] == ["sizes"]
    project.run("--rebuild", "repeat", "--check-inputs", "1GiB", expect=1)


def test_a_verification_holds_for_the_files_as_they_were_then(prefix: str) -> None:
    """marin verifies a copied store once. It verifies files again after a later write."""
    run(prefix, source=SOURCE)
    path = file_of(prefix, SOURCE)
    path.touch()
    store, record = Store(prefix), record_of(prefix, SOURCE)
    store.note_stamp(record)
    assert planned(prefix, source=SOURCE).of(SOURCE).notes == ()
    path.write_bytes(path.read_bytes().upper())
    assert "changed in place: changed: text.txt" in planned(prefix, source=SOURCE).of(SOURCE).reason
