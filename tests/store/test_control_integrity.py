"""marin notices edits by hand and power cuts in revocations, acceptances and records before it relies on them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from marin.errors import CorruptRecord
from marin.plan.acceptance import accept_planned
from marin.plan.decision import OnDrift
from marin.plan.plan import Action
from marin.report.audit import audit_store
from marin.report.claims import Grade
from marin.store.files.verify import Check
from marin.store.layout import ENDS, RECORD, claim_name, end_name
from marin.store.lineage import read_lineage
from marin.store.objects.local import LocalObjects
from marin.store.record import Record
from marin.store.revocation import revoke, revoked, withdraw
from marin.store.store import Store
from marin.upkeep.mirror.copy import mirror
from marin.upkeep.mirror.plan import plan_mirroring
from tests.cli.test_cli_store import marin
from tests.support.aging import rewrite_record
from tests.support.faults.hook import note_synced, state_of
from tests.support.toy import Join, Outside, Write, planned, ran, run

A = Write(text="hello", label="a")
REVOCATIONS, ACCEPTED = ".marin/revocations", ".marin/accepted"


def made(prefix: str) -> Record:
    record = run(prefix, end=A).results[A].record
    assert record is not None
    return record


def the_file(prefix: str, folder: str) -> Path:
    (path,) = (Path(prefix) / folder).iterdir()
    return path


def drifted(prefix: str, tmp_path: Path) -> Outside:
    """Return the step of an output whose drift was accepted once, and that has drifted again."""
    source = tmp_path / "source.txt"
    step = Outside(path=str(source), label="o")
    for text in ("one", "two"):
        source.write_text(text)
        plan = planned(prefix, on_drift=OnDrift.ACCEPT, end=step)
        accept_planned(plan)
        run(prefix, on_drift=OnDrift.ACCEPT, end=step)
    source.write_text("three")
    return step


def test_a_revocation_and_an_acceptance_survive_a_power_cut(
    prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    record = made(prefix)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", os.fsync)  # the patch is undone afterwards
        note_synced(lambda held: synced.append(str(held)))
        for because in ("bad", "worse"):
            revoke(Store(prefix), record, because)
            folder = Path(prefix) / REVOCATIONS
            assert all(state_of(held.stat()) in synced for held in (folder, *folder.iterdir()))
        withdraw(Store(prefix), record, "looked at the wrong file")
        assert all(state_of(held.stat()) in synced for held in folder.iterdir())
        assert len(list(folder.iterdir())) == 3
        drifted(prefix, tmp_path)
        assert state_of(the_file(prefix, ACCEPTED).stat()) in synced


def test_bytes_are_on_the_disk_before_they_have_their_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a power cut between the two would leave an empty revocation."""
    order: list[str] = []
    sync, link = os.fsync, os.link
    monkeypatch.setattr(os, "fsync", lambda handle: order.append("sync") or sync(handle))
    monkeypatch.setattr(os, "link", lambda *names, **how: order.append("link") or link(*names, **how))
    objects = LocalObjects(tmp_path)
    assert objects.create("folder/name", b"content", lasting=True)
    assert order.index("sync") < order.index("link")
    assert "sync" in order[order.index("link") :]


@pytest.mark.parametrize("content", [b"", b"\n", b"{", b'{"root": 3}\n', b"\xff\xfe\n"])
def test_a_revocation_that_cannot_be_read_is_damage_for_every_command(prefix: str, content: bytes) -> None:
    revoke(Store(prefix), made(prefix), "bad")
    path = the_file(prefix, REVOCATIONS)
    whole = path.read_bytes()
    path.write_bytes(content)
    for command in ("audit", "gc"):
        assert str(path) in marin(Path(prefix), command, expect=5).stderr.replace("\n", "")
    with pytest.raises(CorruptRecord, match=r"revocation.*revoke again"):
        planned(prefix, end=A)
    with pytest.raises(CorruptRecord, match="revocation"):  # a new revocation does not hide the damaged one
        revoke(Store(prefix), made_before(prefix), "again")
    assert path.read_bytes() == content
    path.write_bytes(whole.rstrip(b"\n"))  # as an editor leaves it
    revoke(Store(prefix), made_before(prefix), "again")
    assert [entry.because for entry in revoked(Store(prefix)).all] == ["again"]


def made_before(prefix: str) -> Record:
    record = Store(prefix).record(A.identity)
    assert record is not None
    return record


@pytest.mark.parametrize("content", [b"", b"{", b"\xff"])
def test_an_acceptance_that_cannot_be_read_is_damage(prefix: str, tmp_path: Path, content: bytes) -> None:
    step = drifted(prefix, tmp_path)
    path = the_file(prefix, ACCEPTED)
    path.write_bytes(content)
    with pytest.raises(CorruptRecord, match=f"{path}.*accept again"):
        planned(prefix, end=step)


def test_formats_old_ones_are_read_and_later_ones_refused(prefix: str, tmp_path: Path) -> None:
    record = made(prefix)
    revoke(Store(prefix), record, "bad")
    step = drifted(prefix, tmp_path)
    for folder, use in ((REVOCATIONS, A), (ACCEPTED, step)):
        path = the_file(prefix, folder)
        told: dict[str, Any] = json.loads(path.read_text().splitlines()[0])
        assert told.pop("format") == 1
        path.write_text(json.dumps(told) + "\n")
        assert planned(prefix, end=use).of(use).action is Action.STOP  # marin still reads the old format
        path.write_text(json.dumps({"format": 2, "fields": "others"}) + "\n")
        with pytest.raises(CorruptRecord, match="format 2, this marin reads up to 1; update marin"):
            planned(prefix, end=use)
        path.write_text(json.dumps(told) + "\n")


@pytest.mark.parametrize("folder", [REVOCATIONS, ACCEPTED])
def test_statements_of_an_earlier_marin_count_before_todays(prefix: str, tmp_path: Path, folder: str) -> None:
    """Older statements are lines of one file, which marin no longer changes."""
    record, step = made(prefix), drifted(prefix, tmp_path)
    if folder == REVOCATIONS:
        revoke(Store(prefix), record, "bad")
    path = the_file(prefix, folder)
    before = path.with_name(f"{path.name.partition('.')[0]}.jsonl")
    path.rename(before)
    content = before.read_bytes()
    if folder == ACCEPTED:
        (tmp_path / "source.txt").write_text("two")
        assert planned(prefix, end=step).of(step).action is Action.CACHED
        (said,) = Store(prefix).acceptances.about(step.identity)
        Store(prefix).acceptances.add(step.identity, said)
        assert Store(prefix).acceptances.about(step.identity) == [said, said]
    else:
        assert [entry.because for entry in revoked(Store(prefix)).all] == ["bad"]
        withdraw(Store(prefix), record, "it is not")
        assert revoked(Store(prefix)).all == []
        revoke(Store(prefix), record, "it is")
        assert [entry.because for entry in revoked(Store(prefix)).all] == ["it is"]
    assert before.read_bytes() == content


EDITS: list[dict[str, Any]] = [
    {"packages": {"numpy": "9"}},
    {"bytes": 6},
    {"lifetime": "1d"},
    {"label": "b"},
    {"provenance": {"who": "somebody", "host": "h", "started": "2020-01-01 00:00:00", "seconds": 1.0, "git": "0"}},
    {"outside": {"url": "etag"}},
    {"mirrored": [{"origin": "o", "who": "w", "host": "h", "when": "w"}]},
]


def seen_name(record: Record) -> str:
    return end_name(record.identity, record.token)


def copy_name(record: Record) -> str:
    return f"{record.attempt}/{RECORD}"


@pytest.mark.parametrize("edit", EDITS, ids=[next(iter(edit)) for edit in EDITS])
@pytest.mark.parametrize("copy", [False, True], ids=["visible", "copy"])
def test_a_record_edited_by_hand_is_found(prefix: str, edit: dict[str, Any], copy: bool) -> None:
    record = made(prefix)
    path = Path(prefix) / (copy_name(record) if copy else seen_name(record))
    path.write_text(json.dumps({**json.loads(path.read_text()), **edit}))
    assert "was edited" in marin(Path(prefix), "audit", "--bytes", expect=5).stdout
    assert "was edited" in marin(Path(prefix), "audit", "--json", expect=3).stdout
    if not copy:
        with pytest.raises(CorruptRecord, match=f"{path} was edited"):
            run(prefix, end=A)
    assert ran(run(prefix, rebuild=("a",), end=A)) == {"toy-write/a"}
    assert "0 damaged" in marin(Path(prefix), "audit", "--bytes", expect=0 if copy else 3).stdout  # the old one is


def test_a_record_and_its_copy_that_differ_are_found_though_each_is_whole(prefix: str) -> None:
    record = made(prefix)
    seen = Path(prefix) / seen_name(record)
    before = seen.read_bytes()
    rewrite_record(Store(prefix), record.identity, packages={"numpy": "9"})
    marin(Path(prefix), "audit", "--bytes")
    seen.write_bytes(before)
    assert "differ in packages" in marin(Path(prefix), "audit", "--bytes", expect=5).stdout
    claims = [claim.subject for claim in audit_store(Store(prefix)).of(Grade.UNTRUSTED)]
    assert claims == ["edited record"]
    (Path(prefix) / copy_name(record)).unlink()
    assert "record.json is missing" in marin(Path(prefix), "audit", "--bytes", expect=5).stdout


def test_a_record_without_a_digest_or_in_another_layout_is_read(prefix: str) -> None:
    record = made(prefix)
    for name in (copy_name(record), seen_name(record)):
        path = Path(prefix) / name
        path.write_text(json.dumps(json.loads(path.read_text()), indent=3))
    assert ran(run(prefix, end=A)) == set()
    marin(Path(prefix), "audit", "--bytes")
    for name in (copy_name(record), seen_name(record)):
        path = Path(prefix) / name
        told = json.loads(path.read_text())
        assert told.pop("digest")
        path.write_text(json.dumps(told))
    assert ran(run(prefix, end=A)) == set()
    marin(Path(prefix), "audit", "--bytes")


def test_aliases_and_mirrors_have_digests_of_their_own(prefix: str, tmp_path: Path) -> None:
    def joined(encoding: str) -> Join:
        return Join(parts=(Write(text="hello", encoding=encoding, label="a"),), label="end")

    run(prefix, end=joined("utf-8"))
    run(prefix, end=joined("ascii"))
    other = str(tmp_path / "other")
    assert len(list(mirror(plan_mirroring(Store(prefix), Store(other), ["end"])))) == 2
    for place in (prefix, other):
        for path in (Path(place) / ENDS).iterdir():
            assert len(json.loads(path.read_text())["digest"]) == 64
        assert json.loads(marin(Path(place), "audit", "--bytes", "--json").stdout)["bytes"]["wrong"] == {}


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff"])
def test_a_manifest_that_is_no_more_is_seen_by_verify_and_audit(any_prefix: str, content: bytes) -> None:
    record = made(any_prefix)
    store = Store(any_prefix)
    store.objects.write(f"{record.attempt}/{RECORD}", content)
    is_stopped = not content and store.directory.is_local  # marin sees an empty file, as of a power cut, without a read
    assert planned(any_prefix, end=A).of(A).action is (Action.STOP if is_stopped else Action.CACHED)
    assert "record.json" in store.verify(record, Check.SIZES)[0]
    assert "record.json" in next(claim.text for claim in audit_store(Store(any_prefix)).of(Grade.UNTRUSTED))


@pytest.mark.parametrize("content", [b"{", b"[]", b"\xff"])
def test_a_claim_that_is_garbage_is_seen_by_audit_and_by_a_plan_that_needs_it(any_prefix: str, content: bytes) -> None:
    store, other = Store(any_prefix), Write(text="other", label="other")
    made(any_prefix)
    store.objects.write(claim_name(A.identity, 2), content)  # of a rebuild
    store.objects.write(claim_name(other.identity, 1), content)
    assert planned(any_prefix, end=A).of(A).action is Action.CACHED
    assert planned(any_prefix, end=other).of(other).action is Action.STOP
    said = [claim.text for claim in audit_store(Store(any_prefix)).of(Grade.UNTRUSTED)]
    assert [text for text in said if claim_name(A.identity, 2) in text and "is not a readable claim" in text]
    assert [text for text in said if claim_name(other.identity, 1) in text]
    store.objects.remove([claim_name(A.identity, 2), claim_name(other.identity, 1)])
    assert ran(run(any_prefix, rebuild=("a",), end=A, other=other)) == {"toy-write/a", "toy-write/other"}
    assert audit_store(Store(any_prefix)).of(Grade.UNTRUSTED) == []


@pytest.mark.parametrize("content", [b"{", b"[]", b"\xff"])
def test_an_end_that_is_garbage_is_seen_by_audit_and_by_a_plan_that_needs_it(any_prefix: str, content: bytes) -> None:
    """Nobody knows whether the end was a record."""
    store, record, name = Store(any_prefix), made(any_prefix), end_name(A.identity, 2)
    store.objects.write(name, content)
    assert planned(any_prefix, end=A).of(A).action is Action.STOP
    assert name in next(claim.text for claim in audit_store(Store(any_prefix)).of(Grade.UNTRUSTED))
    assert [name in text for text in read_lineage(Store(any_prefix)).unreadable] == [True]
    assert ran(run(any_prefix, rebuild=("a",), end=A)) == {"toy-write/a"}
    now = Store(any_prefix).record(A.identity)
    assert now is not None
    assert (record.token, now.token) == (1, 3)
