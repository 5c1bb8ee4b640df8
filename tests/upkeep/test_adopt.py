"""marin adopts outside data once and whole, proves its kind by opening the files, and lets experiments pin it."""

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from marin import Documents, Items, Pinned, RawFiles
from marin.data.documents import Document, write_documents
from marin.errors import BadField, InputError, MarinError, Revoked
from marin.plan.decision import Action
from marin.report.claims import StoreClaims, Subject
from marin.report.lineage_tree import Direction
from marin.store.files.directory import Directory
from marin.store.files.verify import Check
from marin.store.inventory import Inventory, read_inventory
from marin.store.lineage import Output, read_lineage
from marin.store.revocation import revoke, revoked, withdraw
from marin.store.store import Store
from marin.upkeep.adopt import Adopted, adopt
from operators.datasets.rehearsal.math_problems import GenerateItems
from operators.datasets.rehearsal.problems import Split
from tests.cli.test_cli import DRIFT, EXPERIMENT_ERROR, FAILED, Command
from tests.store.test_lineage import family
from tests.stories.test_dolmino import CLEAN, DOLMINO, TOKENIZER
from tests.support.project import Project
from tests.support.toy import Blob, Join, artifact_of, execute, planned, ran, run

ITEMS = GenerateItems(seed=1, count=8, split=Split.TRAIN, label="items")
TEXTS = [Document(text, "outside") for text in ("one", "two", "drei")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "outside"
    made.mkdir()
    (made / "text.txt").write_text("hello")
    (made / "sub").mkdir()
    (made / "sub/more ö.txt").write_text("more")
    return made


def take(prefix: str, source: object, kind: str = "raw_files", label: str = "out", **facts: Any) -> Adopted:
    store = Store(prefix)
    return adopt(store, str(source), kind=kind, label=label, because="a test", facts=facts, on_message=lambda _: None)


def refused(prefix: str, source: object, error: type[MarinError], says: str, kind: str = "raw_files") -> None:
    with pytest.raises(error, match=says):
        take(prefix, source, kind)
    assert not Inventory(Store(prefix)).records


def test_what_is_adopted_is_an_output_that_can_be_pinned_and_read(any_prefix: str, folder: Path) -> None:
    done = take(any_prefix, folder, "toy-blob", bytes=5)
    store = Store(any_prefix)
    assert done.new
    assert store.verify(done.record, Check.BYTES) == []
    assert [entry.path for entry in store.manifest(done.record)] == ["sub/more ö.txt", "text.txt"]
    assert done.record.provenance.because == "a test"
    assert done.record.outside.keys() == {str(folder)}
    pin: Pinned[Blob] = eval(done.pin, {"Pinned": Pinned, "Blob": Blob})
    end = Join(parts=(pin, pin), label="end")
    assert ran(run(any_prefix, end=end)) == {"toy-join/end"}
    record = store.record(end.identity)
    assert record is not None
    assert store.output(record).read_text("text.txt") == "hello hello"
    assert ran(run(any_prefix, end=end)) == set()


def test_data_on_another_store_comes_in_too(remote_prefix: str, prefix: str, folder: Path) -> None:
    outside = Directory(f"{remote_prefix}-outside")
    for name in ("text.txt", "sub/more ö.txt"):
        outside.write_bytes(name, (folder / name).read_bytes())
    here = take(prefix, folder)
    there = take(remote_prefix, outside.url)
    assert there.new
    assert there.record.root == here.record.root
    assert there.source == outside.url
    assert not take(prefix, outside.url).new
    one = take(remote_prefix, f"{outside.url}/text.txt", label="one")
    assert one.record.facts == {"files": 1, "bytes": 5}
    with pytest.raises(InputError, match="does not exist"):
        take(remote_prefix, f"{outside.url}/text")


def test_the_same_bytes_come_in_once(prefix: str, folder: Path, tmp_path: Path) -> None:
    first = take(prefix, folder)
    copy = tmp_path / "copy"
    folder.rename(copy)
    again = take(prefix, copy, label="another name")
    assert not again.new
    assert again.pin == first.pin
    assert len(read_inventory(Store(prefix)).records) == 1


def test_documents_are_opened_and_counted(prefix: str, tmp_path: Path) -> None:
    shards = Directory(str(tmp_path / "shards"))
    write_documents(shards, TEXTS, shards=2)
    done = take(prefix, shards.path, "Documents")
    assert done.record.facts == {"documents": 3, "bytes": 10, "shards": 2, "dropped": {}}
    assert isinstance(artifact_of(Store(prefix), done.record), Documents)
    assert done.pin.startswith('Pinned[Documents](at="adopt/out-')


def test_what_its_kind_cannot_open_is_refused(prefix: str, folder: Path, tmp_path: Path) -> None:
    for kind in ("documents", "tokens", "tokenizer", "checkpoint", "scores", "report", "items"):
        refused(prefix, folder, InputError, f"cannot be opened as {kind}", kind)
    shards = Directory(str(tmp_path / "shards"))
    write_documents(shards, TEXTS)
    shard = shards.path / "shard-00000-of-00001.parquet"
    shard.write_bytes(shard.read_bytes()[:-20])
    refused(prefix, shards.path, InputError, "cannot be opened as documents", "documents")
    lines = tmp_path / "items.jsonl"
    lines.write_text('{"id": "1"}\n')
    refused(prefix, lines, InputError, "line 1 is not an item", "items")
    lines.write_text('{"id": "1", "question": "?", "answer": "#### 9", "final": "9"}\n')
    assert artifact_of(Store(prefix), take(prefix, lines, "items").record) == Items(items=1)


def test_what_is_no_outside_data_is_refused(prefix: str, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    refused(prefix, tmp_path / "empty", InputError, "holds no file")
    refused(prefix, tmp_path / "none", InputError, "does not exist")
    refused(prefix, tmp_path, BadField, "holds the store")
    (tmp_path / "store/adopt").mkdir(parents=True)
    refused(prefix, tmp_path / "store/adopt", BadField, "is inside the store")
    refused(prefix, folder, BadField, "did you mean documents", "document")
    refused(prefix, folder, BadField, "--kind is needed", "")
    refused(prefix, "https://example.org/x", BadField, "fetch a web address with a step")
    (folder / "linked").symlink_to(tmp_path / "empty")
    refused(prefix, folder, InputError, "linked is a link to .*empty")
    (folder / "linked").unlink()
    (folder / "dangling").symlink_to(tmp_path / "none")
    refused(prefix, folder, InputError, "dangling is a link to .*none; copy the file")
    (folder / "dangling").unlink()
    record = take(prefix, folder).record
    with pytest.raises(BadField, match=f'as adopt/out; pin it:\n.*at="{record.attempt}"'):
        take(prefix, f"{prefix}/{record.attempt}/sub")


def test_facts_are_given_where_files_do_not_tell_them_and_never_against_them(prefix: str, folder: Path) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({}, "do not hold bytes"),
        ({"bites": 3}, "did you mean bytes"),
        ({"bytes": "many"}, "Blob.bytes is 'many'"),
    ]
    for facts, says in cases:
        with pytest.raises(BadField, match=says):
            take(prefix, folder, "toy-blob", **facts)
    with pytest.raises(BadField, match=r"files = 3, but the files of .* hold 2"):
        take(prefix, folder, files=3)
    assert artifact_of(Store(prefix), take(prefix, folder, files=2).record) == RawFiles(files=2, bytes=9)
    assert take(prefix, folder, f"{Blob.__module__}:Blob", bytes=1).record.kind == "toy-blob"
    for kind, says in (("tests.support.toy:Blab", "Blab"), ("tests.support.toy:Write", "not an artifact class")):
        with pytest.raises(BadField, match=says):
            take(prefix, folder, kind)


def test_bytes_that_are_not_to_be_trusted_stay_out(prefix: str, folder: Path, tmp_path: Path) -> None:
    store = Store(prefix)
    record = take(prefix, folder, "toy-blob", bytes=5).record
    end = Join(parts=(Pinned(at=record.attempt, digest=record.root),), label="end")
    run(prefix, end=end)
    revoke(store, record, "holds test items")
    with pytest.raises(Revoked, match=r"holds the bytes of adopt/out, which were revoked by .*holds test items"):
        take(prefix, folder, label="again")
    with pytest.raises(Revoked, match="holds test items"):
        take(prefix, folder, "toy-blob", bytes=6)
    made = tmp_path / "made"
    made.mkdir()
    (made / "text.txt").write_text("hello")  # the join made this text from the revoked bytes
    with pytest.raises(Revoked, match=r"holds the bytes of toy-join/end, which was made from .*holds test"):
        take(prefix, made)
    withdraw(store, record, "it does not")
    assert not take(prefix, folder, "toy-blob", bytes=5).new


def test_an_output_of_another_store_is_mirrored_and_a_copy_of_it_brings_its_kind(prefix: str, folder: Path) -> None:
    other = f"{prefix}-other"
    record = take(other, folder, "toy-blob", bytes=5).record
    source = f"{other}/{record.attempt}"
    refused(prefix, source, BadField, f"marin mirror {record.attempt} --from {other} --to {prefix}", "")
    revoke(Store(other), record, "holds test items")
    refused(prefix, source, Revoked, "in its own store it was revoked by", "")
    copy = folder.parent / "copy"
    shutil.copytree(source, copy)
    done = take(prefix, copy, "")
    assert (done.record.kind, done.record.facts, done.record.root) == ("toy-blob", {"bytes": 5}, record.root)
    (copy / "text.txt").write_text("HELLO")
    with pytest.raises(InputError, match="differs from its own record"):
        take(f"{prefix}-third", copy, "")


def test_the_bare_files_of_an_output_have_its_digest(prefix: str, tmp_path: Path) -> None:
    """marin reads kind and facts from the files, so it recognises an output that leaves a store and comes back."""
    made = f"{prefix}-made"
    run(made, tokens=DOLMINO, items=ITEMS)
    for step in (CLEAN, TOKENIZER, DOLMINO, ITEMS):
        record = Store(made).record(step.identity)
        assert record is not None
        bare = tmp_path / record.op
        shutil.copytree(Path(made) / record.attempt, bare, ignore=shutil.ignore_patterns(".marin"))
        done = take(prefix, bare, record.kind, label=record.op)
        assert (done.record.facts, done.record.root) == (record.facts, record.root)
        assert not take(made, bare, record.kind).new


def test_a_damaged_one_is_adopted_again_in_its_place(prefix: str, folder: Path) -> None:
    before = take(prefix, folder).record
    (Path(prefix) / before.attempt / "text.txt").write_text("HELLO")
    done = take(prefix, folder)
    assert done.new
    assert done.record.identity == before.identity
    assert Store(prefix).verify(done.record, Check.BYTES) == []


def test_lineage_says_where_it_came_from_and_that_its_bytes_were_made_here(prefix: str, folder: Path) -> None:
    record = take(prefix, folder, "toy-blob", bytes=5).record
    end = Join(parts=(Pinned(at=record.attempt, digest=record.root, label="kept"),), label="end")
    run(prefix, end=end)
    found = family(prefix, Direction.UP, "end")
    marks = {found.lineage.name_of(output): found.claims[output] for output in found.found}
    assert marks.keys() == {"pinned/kept", "adopt/out"}
    (mark,) = marks["adopt/out"]
    assert (mark.subject, mark.text) == (Subject.ADOPTED, f"from {folder}: a test")

    # The same files adopted as another kind share the revocation.
    copy = take(prefix, folder, label="raw").record
    revoke(Store(prefix), record, "bad")
    lineage = read_lineage(Store(prefix))
    marked = StoreClaims(Store(prefix), lineage, revoked(Store(prefix))).of([Output(copy.identity, copy.root)])
    assert [mark.subject for marks in marked.values() for mark in marks] == [
        Subject.REVOKED,
        Subject.ADOPTED,
    ]
    assert planned(prefix, end=end).of(end).action is Action.STOP


def test_what_changes_under_the_copy_is_not_committed(prefix: str, tmp_path: Path) -> None:
    changing = _changing(tmp_path)
    copying = Path(prefix) / "adopt"
    changed: list[bool] = []

    def change(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and arguments[0] == str(changing) and copying.is_dir() and not changed:
            changed.append(True)
            changing.write_text("changed")

    sys.addaudithook(change)
    with pytest.raises(MarinError, match="changed while it was being copied"):
        take(prefix, changing.parent)
    assert changed
    assert not Inventory(Store(prefix)).records


def _changing(tmp_path: Path) -> Path:
    """Return a file that marin reads twice: for the digest and for the copy."""
    (tmp_path / "slow").mkdir()
    (tmp_path / "slow/b.txt").write_text("second")
    return tmp_path / "slow/b.txt"


KILLED_COPYING = """
import os, signal, sys

def end(event, arguments):
    if event == "open" and arguments[0] == os.environ["KILLED_AT"] and os.path.isdir(os.environ["KILLED_SINCE"]):
        os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(end)
"""


def test_killed_in_the_middle_it_comes_in_whole_the_next_time(tmp_path: Path) -> None:
    project = Project(tmp_path / "project")
    marin, changing = Command(project), _changing(tmp_path)
    (changing.parent / "a.txt").write_text("first")
    arguments = ("adopt", str(changing.parent), "--kind", "raw_files", "--label", "x", "--because", "y", "--json")
    where = ("--prefix", str(project.store))
    (project.folder / "sitecustomize.py").write_text(KILLED_COPYING)
    killed = {"KILLED_AT": str(changing), "KILLED_SINCE": str(project.store / "adopt")}
    begun = subprocess.run([*marin.program(), *arguments, *where], env={**project.environment(), **killed}, check=False)
    assert begun.returncode == -signal.SIGKILL
    (project.folder / "sitecustomize.py").unlink()
    (attempt,) = (project.store / "adopt").iterdir()
    assert (attempt / "a.txt").exists()
    assert marin("ls", *where).startswith("0 outputs")
    done = json.loads(marin(*arguments, *where))
    assert done["new"]
    assert done["output"].endswith(".0002")
    assert done["facts"] == {"files": 2, "bytes": 11}
    marin.verify()
    assert not json.loads(marin(*arguments, *where))["new"]


def test_of_two_who_adopt_the_same_at_one_moment_one_does(tmp_path: Path, folder: Path) -> None:
    project = Project(tmp_path / "project")
    marin, where = Command(project), ("--prefix", str(project.store))
    arguments = ("adopt", str(folder), "--kind", "raw_files", "--label", "x", "--because", "y", "--json", *where)
    both = [
        subprocess.Popen([*marin.program(), *arguments], env=project.environment(), stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    told = [json.loads(each.communicate(timeout=60)[0]) for each in both]
    assert sorted(held["new"] for held in told) == [False, True]
    assert told[0]["output"] == told[1]["output"]


def test_the_command_prints_the_line_that_pins_it(tmp_path: Path, folder: Path) -> None:
    project = Project(tmp_path / "project")
    marin, where = Command(project), ("--prefix", str(project.store))
    said = marin("adopt", str(folder), "--kind", "raw_files", "--label", "x", "--because", "the release", *where)
    line = next(line.strip() for line in said.splitlines() if "Pinned" in line)
    pin: Pinned[RawFiles] = eval(line, {"Pinned": Pinned, "RawFiles": RawFiles})
    assert ran(execute(planned(str(project.store), end=pin))) == set()
    given = ("--kind", "raw_files", "--label", "x")
    for arguments, code, says in (
        ((str(folder), *given), EXPERIMENT_ERROR, "--because"),
        ((str(folder / "none"), *given, "--because", "x"), FAILED, "does not exist"),
        ((str(folder), *given, "--because", "x", "--facts", "[]"), EXPERIMENT_ERROR, "wanted a JSON object"),
    ):
        assert says in marin("adopt", *arguments, *where, expect=code)


@pytest.mark.slow
def test_the_commands_of_trust_work_on_object_stores(remote_prefix: str, tmp_path: Path, folder: Path) -> None:
    marin, where = Command(Project(tmp_path / "project")), ("--prefix", remote_prefix)
    given = ("--kind", "tests.support.toy:Blob", "--facts", '{"bytes": 5}', "--label", "x", "--because", "y")
    done = json.loads(marin("adopt", str(folder), *given, "--json", *where))
    pin: Pinned[Blob] = Pinned(at=done["output"], digest=done["root"], label="pin")
    run(remote_prefix, end=Join(parts=(pin,), label="end"))
    told = json.loads(marin("lineage", "adopt/x", "--down", "--json", *where))
    assert [held["step"] for held in told["outputs"]] == ["toy-join/end"]  # the pin holds the same bytes
    assert "nothing is wrong" not in marin("audit", *where)
    marin("audit", "--every-byte", *where)
    marin("revoke", "adopt/x", "--because", "holds test items", *where)
    assert "toy-join/end" in marin("audit", *where, expect=DRIFT)
    marin("adopt", str(folder), *given, *where, expect=DRIFT)
