"""Mistakes of people and failures of disks give a clear error with its remedy, and no committed output is lost."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from marin import Artifact, Context, ExecutorStep
from marin.errors import BadPrefix, CorruptRecord, InputError, StoreError, StoreFull
from marin.executor.run_results import Run
from marin.report.page.write import page_name
from marin.store.files.manifest import with_manifest
from marin.store.files.verify import Check
from marin.store.inventory import Inventory
from marin.store.layout import ENDS, RECORD, end_name
from marin.store.record import Record
from marin.store.store import Store
from marin.upkeep.mirror.copy import mirror
from marin.upkeep.mirror.plan import plan_mirroring
from tests.support.project import Project
from tests.support.small_disk import SmallDisk, small_disk
from tests.support.toy import Blob, Join, Outside, Write, planned, ran, run, statuses
from tests.support.visible import visible


def record_of(ran_run: Run, step: ExecutorStep[Any]) -> Record:
    record = ran_run.results[step].record
    assert record is not None
    return record


def everything_verifies(store: Store) -> bool:
    found = Inventory(store)
    return not found.damage and all(store.verify(record, Check.CHECKSUMS) == [] for record in found.records.values())


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "disk", mib=4) as disk:
        yield disk


class Big(ExecutorStep[Blob], op="toy-big"):
    """Write ``size`` bytes in pieces, so that a disk can fill up in the middle."""

    size: int

    def run(self, ctx: Context) -> Blob:
        with ctx.out.open("big.bin", "wb") as handle:
            for _ in range(self.size // 4096):
                handle.write(bytes(4096))
        return Blob(bytes=self.size)


class Fill(ExecutorStep[Blob], op="toy-fill"):
    """Fill the disk to the last byte during the run: the step can report, commit and release nothing."""

    source: ExecutorStep[Blob]
    ballast: str

    def run(self, ctx: Context) -> Blob:
        ctx.out.write_text("text.txt", "x")
        SmallDisk(Path(self.ballast).parent).fill()
        return Blob(bytes=1)


def error_of(failed: Run) -> str:
    return next(result.error for result in failed.results.values() if result.status == "failed")


def test_a_disk_that_fills_up_fails_the_step_and_loses_nothing(disk: SmallDisk) -> None:
    prefix = str(disk.folder / "store")
    small, big = Write(text="hello", label="small"), Big(size=3 << 20, label="big")
    run(prefix, end=small)
    disk.fill(leave=1 << 20)
    failed = run(prefix, end=small, big=big)
    assert statuses(failed) == {"toy-write/small": "cached", "toy-big/big": "failed"}
    assert "StoreFull" in error_of(failed)
    assert "no space left; free some or move the store" in error_of(failed)
    assert everything_verifies(Store(prefix))
    disk.free()
    shutil.rmtree(disk.folder / "store/toy-big")  # the files of the failed attempt belong to no output
    assert ran(run(prefix, end=small, big=big)) == {"toy-big/big"}
    assert everything_verifies(Store(prefix))


def test_a_disk_without_a_single_byte_left_is_survived(disk: SmallDisk) -> None:
    prefix = str(disk.folder / "store")
    small = Write(text="hello", label="small")
    fill = Fill(source=small, ballast=str(disk.ballast), label="fill")
    failed = run(prefix, end=fill)
    assert statuses(failed) == {"toy-write/small": "ran", "toy-fill/fill": "failed"}
    assert "StoreFull" in error_of(failed)
    with pytest.raises(StoreFull, match="no space left"):
        run(prefix, end=Write(text="other", label="other"))
    assert everything_verifies(Store(prefix))
    assert not [name for name in disk.folder.rglob(".*") if name.suffix != "" and name.is_file()]
    disk.free()
    assert ran(run(prefix, end=Write(text="other", label="other"))) == {"toy-write/other"}
    assert everything_verifies(Store(prefix))


def test_a_full_and_a_read_only_disk_as_a_person_meets_them(disk: SmallDisk, tmp_path: Path) -> None:
    project = Project(tmp_path / "project")
    project.store = disk.folder / "store"
    project.run("--only", "end")
    project.edit('MARK = "!"', 'MARK = "?"')
    disk.fill()
    said = project.run("--on-drift", "rebuild", expect=5)
    assert "StoreFull" in said
    assert "no space left" in said
    assert "Traceback" not in said
    disk.read_only(True)
    assert "--prefix" in project.run("--on-drift", "rebuild", expect=5)
    assert everything_verifies(Store(str(project.store)))
    disk.read_only(False)
    disk.free()
    project.run("--on-drift", "rebuild")
    assert project.ran() == ["say/say", "repeat/repeat"]
    disk.read_only(True)
    assert "2 cached" in project.run()  # looking at a store needs no permission to write
    disk.read_only(False)


def test_a_full_disk_never_leaves_half_an_acceptance(disk: SmallDisk) -> None:
    from marin.store.record import Acceptance

    store = Store(str(disk.folder / "store"))
    accepted = Acceptance(code="c", inputs={}, outside={}, because="x" * 3000, who="me", when="now")
    store.acceptances.add("0" * 64, accepted)
    disk.fill()
    with pytest.raises(StoreFull):
        store.acceptances.add("0" * 64, accepted)
    assert store.acceptances.about("0" * 64) == [accepted]


def test_a_store_that_became_read_only_is_refused_naming_the_place(disk: SmallDisk) -> None:
    prefix = str(disk.folder / "store")
    run(prefix, end=Write(text="hello", label="a"))
    disk.read_only(True)
    try:
        assert ran(run(prefix, end=Write(text="hello", label="a"))) == set()  # reading needs no permission to write
        with pytest.raises(BadPrefix, match="check the permissions or --prefix") as refused:
            run(prefix, end=Write(text="other", label="b"))
        assert prefix in str(refused.value)
    finally:
        disk.read_only(False)
    assert ran(run(prefix, end=Write(text="other", label="b"))) == {"toy-write/b"}


def test_who_may_only_read_is_served(disk: SmallDisk, tmp_path: Path) -> None:
    prefix, end = str(disk.folder / "store"), Join(parts=(Write(text="hello", label="a"),), label="end")
    run(prefix, end=end)
    disk.read_only(True)
    try:
        assert statuses(run(prefix, end=end)) == {"toy-write/a": "cached", "toy-join/end": "cached"}
        assert len(visible(Store(prefix))) == 2
        plan = plan_mirroring(Store(prefix), Store(str(tmp_path / "copy")), ["end"])
        assert [done.copied for done in mirror(plan)] == [True]
        with pytest.raises(BadPrefix):
            run(prefix, end=Join(parts=(end,), label="more"))
    finally:
        disk.read_only(False)


def test_a_new_store_in_a_folder_that_takes_none_is_refused() -> None:
    with pytest.raises(StoreError, match="/proc/marin-store"):
        run("/proc/marin-store", end=Write(text="hello"))


def test_a_file_where_the_store_keeps_its_ends_is_named(prefix: str) -> None:
    (Path(prefix) / ".marin").mkdir(parents=True)
    (Path(prefix) / ENDS).write_text("")
    with pytest.raises(StoreError, match=ENDS):
        run(prefix, end=Write(text="hello"))


def test_a_permission_that_a_step_lacks_elsewhere_is_not_blamed_on_the_store(prefix: str, tmp_path: Path) -> None:
    source = tmp_path / "source.txt"
    source.write_text("x")
    step = Remove(path="/proc/self/stat", label="remove")
    failed = run(prefix, end=step)
    assert "PermissionError" in error_of(failed)
    assert "/proc/self/stat" in error_of(failed)


class Remove(ExecutorStep[Blob], op="toy-remove"):
    path: str

    def run(self, ctx: Context) -> Blob:
        os.unlink(self.path)
        return Blob(bytes=0)


@pytest.mark.parametrize("content", [b"", b"{", b"null", b"3", b'{"manifest": [{"path": 3}]}', b"\xff"])
def test_a_corrupt_manifest_is_found_and_mended(prefix: str, content: bytes) -> None:
    a = Write(text="hello", label="a")
    record = record_of(run(prefix, end=a), a)
    (Path(prefix) / record.attempt / RECORD).write_bytes(content)
    found = Store(prefix).verify(record, Check.CHECKSUMS)
    assert len(found) == 1
    assert ("not a readable manifest" if content else "is missing or holds no manifest") in found[0]
    assert "--rebuild" in found[0]
    end = Join(parts=(a,), label="j")
    if content:
        error = run(prefix, end=end).results[end].error
    else:  # a power cut leaves an empty file
        with pytest.raises(CorruptRecord) as raised:
            run(prefix, end=end)
        error = str(raised.value)
    assert "record.json" in error
    assert "--rebuild" in error
    assert ran(run(prefix, rebuild=("a",), end=Join(parts=(a,), label="j"))) == {"toy-write/a", "toy-join/j"}
    assert everything_verifies(Store(prefix))


@pytest.mark.parametrize("path", ["../../../secret.txt", "/etc/passwd", "a/../../b", ""])
def test_a_manifest_that_points_outside_is_refused_before_anything_is_read(prefix: str, path: str) -> None:
    a = Write(text="hello", label="a")
    record = record_of(run(prefix, end=a), a)
    listed = {"manifest": [{"path": path, "size": 0, "sha256": "0" * 64}]}
    (Path(prefix) / record.attempt / RECORD).write_text(json.dumps(listed))
    with pytest.raises(CorruptRecord, match="outside the output's directory"):
        Store(prefix).manifest(record)


@pytest.mark.parametrize("attempt", ["../elsewhere", "/etc", "toy-write/../../x", ""])
def test_a_record_that_points_outside_is_refused(prefix: str, attempt: str) -> None:
    a = Write(text="hello", label="a")
    run(prefix, end=a)
    path = Path(prefix) / end_name(a.identity, 1)
    path.write_text(json.dumps({**json.loads(path.read_text()), "attempt": attempt}))
    with pytest.raises(CorruptRecord, match="outside the store"):
        run(prefix, end=a)
    assert ran(run(prefix, rebuild=("a",), end=a)) == {"toy-write/a"}


def test_a_manifest_edited_to_match_a_changed_file_is_found(prefix: str) -> None:
    a = Write(text="hello", label="a")
    record = record_of(run(prefix, end=a), a)
    output = Path(prefix) / record.attempt
    (output / "text.txt").write_text("hallo")
    other = record_of(run(f"{prefix}2", end=Write(text="hallo")), Write(text="hallo"))
    (output / RECORD).write_bytes(with_manifest(record.to_bytes(), Store(f"{prefix}2").manifest(other)))
    found = Store(prefix).verify(record, Check.CHECKSUMS)
    assert len(found) == 1
    assert record.root[:12] in found[0]


def test_facts_edited_by_hand_are_found(prefix: str) -> None:
    a = Write(text="hello", label="a")
    run(prefix, end=a)
    path = Path(prefix) / end_name(a.identity, 1)
    path.write_text(json.dumps({**json.loads(path.read_text()), "facts": {"bytes": 6}}))
    with pytest.raises(CorruptRecord, match="was edited"):
        run(prefix, end=a)


def test_facts_that_are_not_finite_survive_the_record(prefix: str) -> None:
    odd = Odd(label="odd")
    run(prefix, end=odd)
    assert everything_verifies(Store(prefix))
    record = Store(prefix).record(odd.identity)
    assert record is not None
    assert str(record.facts["share"]) == "inf"


class Share(Artifact, kind="toy-share"):
    share: float


class Odd(ExecutorStep[Share], op="toy-odd"):
    def run(self, ctx: Context) -> Share:
        return Share(share=float("inf"))


def test_a_record_of_a_later_format_says_so_whatever_its_fields(prefix: str) -> None:
    a = Write(text="hello", label="a")
    run(prefix, end=a)
    (Path(prefix) / end_name(a.identity, 1)).write_text('{"format": 2, "id": "x"}')
    with pytest.raises(CorruptRecord, match="end format 2, this marin reads up to 1; update marin"):
        run(prefix, end=a)


NAMES = [
    "with  spaces ",
    "日本語の名前",
    "naïve–ümläut 🐍",
    "x" * 300,
    "../../../etc/passwd",
    "/absolute",
    "..",
    ".",
    ".marin",
    "a/b\\c",
    "[red]markup[/red][/]",
    "$(touch /tmp/x); *?",
]


@pytest.mark.parametrize("label", NAMES, ids=range(len(NAMES)))
def test_any_label_stays_inside_the_store_and_its_outputs_apart(tmp_path: Path, label: str) -> None:
    store = tmp_path / "below/store"
    store.parent.mkdir()
    one, two = Write(text="one", label=label), Write(text="two", label=label)
    first, second = run(str(store), end=one), run(str(store), end=two)  # two experiments with one label
    places = [store / record_of(first, one).attempt, store / record_of(second, two).attempt]
    assert [(place / "text.txt").read_text() for place in places] == ["one", "two"]
    assert all(place.resolve().parent == store / "toy-write" for place in places)
    assert [path.name for path in tmp_path.iterdir()] == ["below"]
    assert [path.name for path in store.parent.iterdir()] == ["store"]
    assert ran(run(str(store), end=one)) == ran(run(str(store), end=two)) == set()
    assert everything_verifies(Store(str(store)))


def test_labels_that_look_alike_on_disk_are_two_steps(prefix: str) -> None:
    end = run(prefix, one=Write(text="a", label="a b"), two=Write(text="b", label="a/b"))
    assert len(ran(end)) == 2
    assert len(list((Path(prefix) / "toy-write").iterdir())) == 2


def test_pages_of_long_and_odd_experiment_names_are_kept_apart(prefix: str) -> None:
    names = ["exp1-é-full", "exp1-è-full", "x" * 70 + "-full", "x" * 70 + "-rehearsal", "../x", "x", "exp1-full"]
    pages = [page_name(name) for name in names]
    assert len(set(pages)) == len(names)
    assert all(page.startswith(".marin/pages/") and page.count("/") == 2 and len(page) < 100 for page in pages)
    assert pages[-1] == ".marin/pages/exp1-full.html"


def test_an_operator_may_not_write_where_the_store_keeps_its_own(prefix: str) -> None:
    class Sneaky(ExecutorStep[Blob], op="../.marin"):
        def run(self, ctx: Context) -> Blob:
            ctx.out.write_text("x", "y")
            return Blob(bytes=1)

    record = record_of(run(prefix, end=Sneaky()), Sneaky())
    assert record.attempt.startswith("marin/")
    assert (Path(prefix) / record.attempt / "x").exists()


def test_outside_data_that_is_not_there_is_an_error_of_its_own(prefix: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"toy-outside/.*missing\.txt.*Check that the data exists"):
        planned(prefix, end=Outside(path=str(tmp_path / "missing.txt")))


def test_a_file_url_is_the_same_store_as_its_path(tmp_path: Path) -> None:
    from marin.store.store import open_store

    run(str(tmp_path / "store"), end=Write(text="hello"))
    opened = open_store(f"file://{tmp_path}/store")
    assert Inventory(opened).records.keys() == {Write(text="hello").identity}
    assert everything_verifies(opened)


def test_a_commit_between_plan_and_attempt_is_found(prefix: str) -> None:
    """The step must not run twice."""
    from marin.executor.backends.inline import InlineBackend
    from marin.executor.scheduler import Scheduler

    a = Write(text="hello", label="a")
    plan = planned(prefix, end=a)
    run(prefix, end=a)
    late = Scheduler(plan, InlineBackend(), lambda *_: None).execute()
    assert statuses(late) == {"toy-write/a": "cached"}
    assert len(list((Path(prefix) / "toy-write").iterdir())) == 1
    assert everything_verifies(Store(prefix))
