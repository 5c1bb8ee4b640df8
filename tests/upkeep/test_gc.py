"""gc deletes exactly the outputs that nothing needs, judged by a fresh look at the store."""

import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from marin import Context, ExecutorStep, Lifetime, after_use, execution, unless_read
from marin.errors import BadField, CorruptRecord, StalePlan, StoreError
from marin.fingerprint.fingerprint import store_code, stored_code
from marin.plan.acceptance import accept_planned
from marin.plan.decision import OnDrift
from marin.plan.outside_data import listing
from marin.report.claims import StoreClaims
from marin.steps.lifetime import FOREVER
from marin.steps.pinned import Pinned
from marin.store.ends import End, Held, How, Watch, end_attempt, read_claims, read_end, take
from marin.store.files.manifest import with_manifest
from marin.store.in_use import TURN, Beat, Uses, last_turn, take_turn
from marin.store.inventory import Inventory
from marin.store.layout import GC, RECORD, RECORDS, USES, claim_name, end_name
from marin.store.lineage import Output, read_lineage
from marin.store.process import this_process
from marin.store.record import Record
from marin.store.revocation import revoke, revoked
from marin.store.store import Store
from marin.upkeep.adopt import adopt
from marin.upkeep.gc.garbage import GarbageKind
from marin.upkeep.gc.select import GcOptions, KeepReason, Roots, roots_of
from marin.upkeep.gc.survey import StoreSurvey
from marin.upkeep.gc.sweep import SweepResult, look, sweep
from marin.upkeep.mirror.copy import mirror
from marin.upkeep.mirror.plan import plan_mirroring
from tests.executor.test_random_graphs import Graph, graphs, numbers
from tests.support.aging import DAY, age, tree
from tests.support.servers import Act, Operation, Rule, StoreServer
from tests.support.toy import (
    Blob,
    Fail,
    Join,
    Slowly,
    Write,
    attempt_of,
    execute,
    experiment,
    planned,
    ran,
    run,
    statuses,
)
from tests.support.visible import visible
from tests.support.waiting import wait_until


def in_days(days: float) -> Callable[[], float]:
    return lambda: time.time() + days * DAY


def directories(store: Store) -> set[str]:
    return {each.directory for each in StoreSurvey(store).attempts}


def collect(store: Store, days: float, **asked: Any) -> SweepResult:
    return sweep(store, GcOptions(**asked), clock=in_days(days))


def test_what_nothing_needs_goes_and_everything_else_stays(any_prefix: str) -> None:
    store = Store(any_prefix)
    source = Write(text="a", label="source", lifetime=after_use(days=30))
    end, other = Join(parts=(source,), label="end"), Write(text="b", label="other")
    first = run(any_prefix, end=end, other=other)
    run(any_prefix, rebuild=("toy-write/other",), end=end, other=other)
    run(any_prefix, broken=Fail(source=other, label="broken"))
    gone = first.results[source].record
    assert gone is not None
    assert gone.lifetime
    assert not look(store, GcOptions()).goes, "nothing is old yet"
    assert not collect(store, 6).gone
    swept = collect(store, 40)
    assert {piece.kind for piece in swept.gone} >= {GarbageKind.EXPIRED, GarbageKind.REPLACED, GarbageKind.UNFINISHED}
    assert visible(store).keys() == {end.identity, other.identity}
    assert directories(store) == {record.attempt for record in visible(store).values()}
    assert not store.output(gone).exists()
    assert ran(run(any_prefix, end=end, other=other)) == set()
    assert not collect(store, 40).gone


def test_a_plan_says_that_an_output_was_collected_and_it_is_made_again(prefix: str) -> None:
    source = Write(text="a", label="source", lifetime=after_use(days=1))
    run(prefix, end=Join(parts=(source,), label="end"))
    collect(Store(prefix), 3)
    plan = planned(prefix, again=source)
    assert "collected by `marin gc`" in plan.of(source).reason
    assert "kept 1 day after it was made or last read" in plan.of(source).reason
    assert ran(run(prefix, again=source)) == {"toy-write/source"}
    assert source.identity in visible(Store(prefix))


def test_lineage_still_knows_what_was_collected(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "store"))
    source = Write(text="a", label="source", lifetime=after_use(days=1))
    end = Join(parts=(source,), label="end")
    records = {step: held.record for step, held in run(store.prefix, end=end).results.items()}
    collect(store, 3)
    lineage = read_lineage(store)
    made, read = records[end], records[source]
    assert made is not None
    assert read is not None
    assert Output(read.identity, read.root) in lineage.up([Output(made.identity, made.root)])
    output = Output(read.identity, read.root)
    assert lineage.records[output] == read
    (mark,) = StoreClaims(store, lineage, revoked(store)).of([output])[output]
    assert "collected by `marin gc`" in mark.text


def test_a_plan_says_so_also_after_a_later_gc_took_work_in_progress(tmp_path: Path) -> None:
    store, switch = Store(str(tmp_path / "store")), tmp_path / "switch"
    switch.touch()
    slow = Slowly(text="x", switch=str(switch), label="slow", lifetime=after_use(days=1))
    end = Join(parts=(slow,), label="end")
    run(store.prefix, end=end)
    switch.unlink()
    run(store.prefix, rebuild=("slow",), end=end)
    for days, work in ((20, {slow.identity}), (40, set[str]())):
        collect(store, days)
        assert store.state_identities() == work
        assert "collected by `marin gc`" in planned(store.prefix, again=slow).of(slow).reason


def test_packs_of_ends_bring_nothing_back(remote_prefix: str) -> None:
    store = Store(remote_prefix)
    source = Write(text="a", label="source", lifetime=after_use(days=1))
    run(remote_prefix, end=Join(parts=(source,), label="end"))
    store.packs.worth = 1
    assert source.identity in Inventory(store).records
    store.packs.pack()
    collect(store, 3)
    assert source.identity not in Inventory(Store(remote_prefix)).records
    assert planned(remote_prefix, again=source).of(source).action == "run"


def test_what_a_killed_gc_left_half_deleted_is_no_output_and_goes_with_the_next(tmp_path: Path) -> None:
    """The killed gc died between ending the output and deleting its data."""
    store = Store(str(tmp_path / "store"))
    source = Write(text="a", label="source", lifetime=after_use(days=1))
    made = run(store.prefix, end=Join(parts=(source,), label="end")).results[source].record
    assert made is not None
    why = "collected by `marin gc`: a test"
    assert end_attempt(store.objects, source.identity, made.token + 1, How.COLLECTED, "", why)
    assert source.identity not in visible(store)
    decision = planned(store.prefix, again=source).of(source)
    assert (decision.action, decision.reason) == ("run", why)
    assert store.output(made).exists("text.txt")
    (piece,) = [piece for piece in collect(store, 3).gone if piece.kind is GarbageKind.REPLACED]
    assert piece.folders == (made.attempt,)
    assert not store.output(made).exists()
    assert ran(run(store.prefix, again=source)) == {"toy-write/source"}


def test_a_look_at_many_outputs_is_a_few_listings(server: StoreServer, remote_prefix: str) -> None:
    many: dict[str, Any] = {f"r{n}": Write(text=str(n), label=str(n)) for n in range(10)}
    run(remote_prefix, **many)
    server.obey()
    look(Store(remote_prefix), GcOptions())
    counts = server.counts(remote_prefix)
    assert counts[Operation.READ] <= 10 + 16 + 2  # the ends, the packs that could exist, and the needs of one run
    assert counts[Operation.LIST] <= 19
    assert counts.keys() <= {Operation.READ, Operation.LIST}


def test_a_store_that_refuses_to_delete_in_the_middle_loses_nothing(server: StoreServer, remote_prefix: str) -> None:
    store = Store(remote_prefix)
    sources = [Write(text=text, label=text, lifetime=after_use(days=1)) for text in ("a", "b")]
    end = Join(parts=tuple(sources), label="end")
    run(remote_prefix, end=end)
    for skip in range(3):
        deletes = [Operation.DELETE, Operation.OTHER]  # S3 deletes many at once
        server.obey(Rule(act=Act.ANSWER, operations=deletes, status=403, skip=skip))
        assert collect(store, 10).refused
        server.obey()
        assert end.identity in visible(store)
        assert skip or len(visible(store)) == 3, "what cannot be deleted is not given up"
    assert not collect(store, 10).refused
    assert visible(store).keys() == {end.identity}
    assert directories(store) == {record.attempt for record in visible(store).values()}


def test_a_look_changes_nothing_at_all(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "store"))
    source = Write(text="a", label="source", lifetime=after_use(days=1))
    run(store.prefix, end=Join(parts=(source,), label="end"))
    run(store.prefix, broken=Fail(source=source, label="broken"))
    before = tree(tmp_path)
    assert look(store, GcOptions(), in_days(30)).goes
    assert tree(tmp_path) == before


def test_an_output_goes_only_if_nothing_that_stays_was_made_from_it(tmp_path: Path) -> None:
    """Test unless_read over two steps: gc first deletes the middle output, then the source that only it kept."""
    store = Store(str(tmp_path / "store"))
    one = Write(text="a", label="one", lifetime=unless_read(days=1))
    kept = Write(text="b", label="kept", lifetime=unless_read(days=1))
    two = Join(parts=(one,), separator="-", label="two", lifetime=after_use(days=20))
    end = Join(parts=(two, kept), label="end")
    run(store.prefix, end=end)
    assert not collect(store, 10, kinds=frozenset({GarbageKind.EXPIRED})).gone
    collect(store, 30)
    assert visible(store).keys() == {kept.identity, end.identity}


def test_use_counts_from_the_last_commit_that_read_it(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "store"))
    source = Write(text="a", label="source", lifetime=after_use(days=30))
    run(store.prefix, end=Join(parts=(source,), label="end"))
    age(tmp_path / "store", 40)
    run(store.prefix, later=Join(parts=(source,), separator="-", label="later"))
    age(tmp_path / "store", 10)  # made 50 days ago, read 10 days ago
    assert not [piece for piece in sweep(store, GcOptions()).gone if piece.records]
    age(tmp_path / "store", 25)
    assert [piece.name for piece in sweep(store, GcOptions()).gone if piece.records] == ["toy-write/source"]


def test_use_by_what_was_collected_itself_counts_from_when_that_was_made(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "store"))
    source = Write(text="a", label="source", lifetime=after_use(days=30))
    run(store.prefix, end=Join(parts=(source,), label="end"))
    age(tmp_path / "store", 40)
    reader = Join(parts=(source,), separator="-", label="reader", lifetime=after_use(days=1))
    run(store.prefix, later=Join(parts=(reader,), separator="+", label="later"))
    age(tmp_path / "store", 5)
    assert [piece.name for piece in sweep(store, GcOptions()).gone if piece.records] == ["toy-join/reader"]
    assert not [piece for piece in sweep(store, GcOptions()).gone if piece.records]


def test_outputs_that_share_files_stay_together(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "store"))
    one, two = Write(text="a", label="one"), Write(text="a", label="two", encoding="ascii")
    ends = [Join(parts=(part,), label=part.label, lifetime=after_use(days=1)) for part in (one, two)]
    run(store.prefix, top=Join(parts=(ends[0],), separator="-", label="top"))
    done = run(store.prefix, alias=ends[1])  # results stay for good
    alias = done.results[ends[1]].record
    assert alias is not None
    assert alias.alias_of == ends[0].identity
    found = look(store, GcOptions(), in_days(30))
    assert not [piece for piece in found.goes if piece.records]
    assert found.stays[KeepReason.SHARED] == 1
    collect(store, 30)
    assert visible(store).keys() >= {end.identity for end in ends}


def test_outputs_that_share_files_go_together(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "store"))
    one, two = Write(text="a", label="one"), Write(text="a", label="two", encoding="ascii")
    ends = [Join(parts=(part,), label=part.label, lifetime=after_use(days=1)) for part in (one, two)]
    for number, end in enumerate(ends):
        run(store.prefix, top=Join(parts=(end,), separator=str(number), label=f"top{number}"))
    assert visible(store)[ends[1].identity].alias_of == ends[0].identity
    (piece,) = [piece for piece in collect(store, 30).gone if piece.records]
    assert set(piece.identities) == {end.identity for end in ends}
    assert not visible(store).keys() & set(piece.identities)
    assert directories(store) == {record.attempt for record in visible(store).values()}


def test_the_directory_of_an_alias_of_before_stays_while_the_alias_does(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "store"))
    one, two = Write(text="a", label="one"), Write(text="a", label="two", encoding="ascii")
    ends = [Join(parts=(part,), label=part.label) for part in (one, two)]
    run(store.prefix, end=ends[0])
    alias = run(store.prefix, alias=ends[1]).results[ends[1]].record
    assert alias is not None
    assert alias.alias_of
    own = attempt_of(ends[1])(1)
    for name in (f"{own}/{RECORD}", f"{RECORDS}/{alias.identity}.json"):
        store.objects.write(name, alias.to_bytes())
    store.objects.remove([end_name(alias.identity, 1), claim_name(alias.identity, 1)])
    collect(store, 30)
    assert store.directory.path.joinpath(own, RECORD).exists()
    named = frozenset(end.identity for end in ends)
    collect(store, 30, named=named, at_once=True)
    collect(store, 60)
    assert not visible(store).keys() & named
    assert own not in directories(store)


def test_what_an_experiment_names_stays(tmp_path: Path) -> None:
    """Results and pins stay whatever their lifetime. Other steps stay for their lifetime. Nothing else stays."""
    store = Store(str(tmp_path / "store"))
    part = Write(text="a", label="part")
    mid = Join(parts=(part,), label="mid", lifetime=after_use(days=1))
    other, loose = Write(text="o", label="other"), Write(text="l", label="loose")
    made = run(store.prefix, top=Join(parts=(mid,), separator="-", label="top"), other=other, loose=loose).results
    pinned = made[other].record
    assert pinned is not None
    roots = roots_of([experiment(mid=mid, pin=Pinned[Blob](at=pinned.attempt, digest=pinned.root, label="pin"))])
    found = look(store, GcOptions(roots=roots, unreachable=True), in_days(30))
    assert {piece.name for piece in found.goes if piece.records} == {"toy-join/top", "toy-write/loose"}
    assert found.stays == {KeepReason.RESULT: 1, KeepReason.PINNED: 1, KeepReason.REACHED: 1}
    sweep(store, GcOptions(roots=roots, unreachable=True), clock=in_days(30))
    assert visible(store).keys() == {part.identity, mid.identity, other.identity}


def test_data_that_a_pin_names_stays_after_a_rebuild(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "store"))
    source = Write(text="a", label="source")
    old = run(store.prefix, source=source).results[source].record
    run(store.prefix, rebuild=("toy-write/source",), source=source)
    assert old is not None
    pin = Pinned[Blob](at=old.attempt, digest=old.root, label="pin")
    roots = roots_of([experiment(pin=pin)])
    sweep(store, GcOptions(roots=roots), clock=in_days(30))
    assert ran(run(store.prefix, end=Join(parts=(pin,), label="end"))) == {"toy-join/end"}
    sweep(store, GcOptions(), clock=in_days(30))  # a record now points at the pinned data
    assert store.output(old).exists("text.txt")
    visible(store)


def test_adopted_data_stays_although_nothing_reaches_it(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "store"))
    loose, other = Write(text="a", label="loose"), Write(text="b", label="other")
    run(store.prefix, loose=loose, other=other)
    (tmp_path / "release.txt").write_text("precious")
    adopted = adopt(
        store,
        str(tmp_path / "release.txt"),
        kind="raw_files",
        label="release",
        because="a test",
        facts={},
        on_message=lambda _: None,
    )
    collect(store, 400, roots=roots_of([experiment(other=other)]), unreachable=True)
    assert visible(store).keys() == {adopted.record.identity, other.identity}


def test_an_experiment_of_which_nothing_is_there_does_not_make_everything_unreachable(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "store"))
    run(store.prefix, loose=Write(text="a", label="loose"))
    roots = roots_of([experiment(other=Write(text="b", label="other"))])
    with pytest.raises(BadField, match="so every output would go"):
        collect(store, 400, roots=roots, unreachable=True)
    assert len(visible(store)) == 1


def test_what_is_to_be_used_instead_of_revoked_bytes_stays(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "store"))
    good = Write(text="good", label="good", lifetime=after_use(days=1))
    made = run(store.prefix, bad=Write(text="bad", label="bad"), end=Join(parts=(good,), label="end")).results
    records = {step.label: held.record for step, held in made.items() if held.record}
    revoke(store, records["bad"], "a test", records["good"])
    collect(store, 30)
    assert good.identity in visible(store)


@pytest.mark.parametrize("folder", ["ends", "claims", "uses", "revocations", "records"])
def test_what_cannot_be_read_stops_it(tmp_path: Path, folder: str) -> None:
    store = Store(str(tmp_path / "store"))
    source = Write(text="a", label="source", lifetime=after_use(days=1))
    run(store.prefix, end=Join(parts=(source,), label="end"))
    run(store.prefix, broken=Fail(source=source, label="broken"))
    place = tmp_path / "store/.marin" / folder
    place.mkdir(exist_ok=True)
    number = "" if folder == "records" else ".0002"  # stores of earlier versions hold records here
    (place / f"{Fail(source=source).identity}{number}.json").write_text("{torn")
    before = directories_on_disk(tmp_path / "store")
    for act in (look, sweep):
        with pytest.raises(CorruptRecord, match=f"{folder}/.*(?s:.)*Nothing was deleted"):
            act(store, GcOptions(), clock=in_days(30))
    assert directories_on_disk(tmp_path / "store") == before


def directories_on_disk(place: Path) -> set[Path]:
    return {path for path in place.glob("toy-*/*/**") if path.is_dir()}


def test_an_attempt_under_a_live_claim_stays_and_a_dead_one_cannot_commit(tmp_path: Path) -> None:
    """The holder is on another machine and rewrites its claim in seconds. Only the claim shows that it lives."""
    store = Store(str(tmp_path / "store"))
    step = Write(text="a", label="a")
    held = begun(store, step)
    held.claim = replace(held.claim, holder=replace(this_process(), host="elsewhere"))
    store.objects.write(claim_name(step.identity, held.number), held.claim.to_json())
    (store.directory / held.attempt).write_text("half.txt", "half")
    age(tmp_path / "store/toy-write", 30)
    assert not sweep(store, GcOptions()).gone
    age(tmp_path / "store/.marin/claims", 1)
    assert [piece.folders for piece in sweep(store, GcOptions()).gone] == [(held.attempt,)]
    with pytest.raises(StoreError, match="taken over"):
        held.commit(b"{\n}")


def test_what_is_committed_at_the_last_moment_stays(tmp_path: Path) -> None:
    """A rebuild committed its output after the last look of gc."""
    store = Store(str(tmp_path / "store"))
    source = Write(text="a", label="source", lifetime=after_use(days=1))
    old = run(store.prefix, end=Join(parts=(source,), label="end")).results[source].record
    assert old is not None

    def commit(_: object) -> None:
        commit_copy(store, old, begun(store, source, after=1))

    swept = sweep(store, GcOptions(), commit, in_days(30))
    assert swept.left == {"toy-write/source": "rebuilt meanwhile"}
    assert visible(store)[source.identity].token == 2


def test_an_attempt_that_was_taken_for_dead_and_commits_at_the_last_moment_stays(tmp_path: Path) -> None:
    store, step = Store(str(tmp_path / "store")), Write(text="a", label="a")
    made = run(store.prefix, end=step).results[step].record
    assert made is not None
    held = begun(store, step, after=1)
    elsewhere = replace(held.claim, holder=replace(this_process(), host="elsewhere"))
    store.objects.write(claim_name(step.identity, held.number), elsewhere.to_json())
    (store.directory / held.attempt).write_text("half.txt", "half")
    age(tmp_path / "store", 30)
    swept = sweep(store, GcOptions(), lambda _: commit_copy(store, made, held))
    assert swept.left == {"toy-write/a": "committed meanwhile"}
    assert visible(store)[step.identity].token == 2


def begun(store: Store, step: ExecutorStep[Any], after: int = 0) -> Held:
    """Begin an attempt at a step. after: number of the last end."""
    held = take(store.objects, step.identity, attempt_of(step), lambda _: False, after)
    assert isinstance(held, Held)
    return held


def commit_copy(store: Store, old: Record, held: Held) -> None:
    """End an attempt with a copy of an output."""
    place = store.directory.path / held.attempt
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(store.directory.path / old.attempt, place)
    new = replace(old, attempt=held.attempt, token=held.number)
    store.objects.write(f"{held.attempt}/{RECORD}", with_manifest(new.to_bytes(), store.manifest(old)))
    held.commit(new.to_bytes())


def test_an_output_that_is_being_made_again_stays(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "store"))
    source = Write(text="a", label="source", lifetime=after_use(days=1))
    run(store.prefix, end=Join(parts=(source,), label="end"))
    held = begun(store, source, after=1)
    found = look(store, GcOptions(), in_days(30))
    assert not [piece for piece in found.goes if piece.records]
    assert found.stays[KeepReason.NEEDED] == 1
    held.release()
    assert [piece for piece in look(store, GcOptions(), in_days(30)).goes if piece.records]


def test_what_a_running_run_needs_stays(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "store"))
    source = Write(text="a", label="source", lifetime=after_use(days=1))
    made = run(store.prefix, end=Join(parts=(source,), label="end")).results[source].record
    assert made is not None
    age(tmp_path / "store", 30)
    uses = Uses(store, "a test")
    with uses:
        uses.add([made])
        age(tmp_path / "store/.marin/uses", 2)
        assert not [piece for piece in sweep(store, GcOptions()).gone if piece.records], "it stands still, but is there"
        there = store.objects.read(f"{USES}/{uses.run}.beat")
    assert there is not None
    elsewhere = replace(Beat.parse(there), holder=replace(this_process(), host="elsewhere"))
    store.objects.write(f"{USES}/{uses.run}.beat", elsewhere.to_json())
    assert not [piece for piece in sweep(store, GcOptions()).gone if piece.records], "it was heard of a moment ago"
    age(tmp_path / "store/.marin/uses", 2)
    assert [piece.name for piece in sweep(store, GcOptions()).gone if piece.records] == ["toy-write/source"]


def test_what_a_run_of_the_last_day_needed_stays(tmp_path: Path) -> None:
    """The run may have failed, and somebody may run it again."""
    store = Store(str(tmp_path / "store"))
    source = Write(text="a", label="source", lifetime=after_use(days=1))
    made = run(store.prefix, end=Join(parts=(source,), label="end")).results[source].record
    assert made is not None
    age(tmp_path / "store", 30)
    with Uses(store, "a test") as uses:
        uses.add([made])
    for _ in range(2):
        age(tmp_path / "store/.marin/uses", 0.2)
        swept = sweep(store, GcOptions(older_than=0.1))
        assert not [piece for piece in swept.gone if piece.records], "also after a gc that takes what is hours old"
    age(tmp_path / "store/.marin/uses", 2)
    assert [piece.name for piece in sweep(store, GcOptions()).gone if piece.records] == ["toy-write/source"]


def test_what_a_worker_that_outlives_its_driver_needs_stays(tmp_path: Path) -> None:
    """The worker's claim shows that the worker works. The loss of its driver says nothing about the worker."""
    store = Store(str(tmp_path / "store"))
    source, step = Write(text="a", label="source", lifetime=after_use(days=1)), Write(text="b", label="made from it")
    made = run(store.prefix, end=Join(parts=(source,), label="end")).results[source].record
    assert made is not None
    uses = Uses(store, "a test")
    with uses:
        uses.add([made], [step.identity])
        beat = store.objects.read(f"{USES}/{uses.run}.beat")
    assert beat is not None
    gone = replace(Beat.parse(beat), holder=replace(this_process(), host="elsewhere"))
    store.objects.write(f"{USES}/{uses.run}.beat", gone.to_json())
    age(tmp_path / "store", 30)
    working = begun(store, step)
    assert not [piece for piece in sweep(store, GcOptions()).gone if piece.records]
    working.release()
    assert [piece.name for piece in sweep(store, GcOptions()).gone if piece.records] == ["toy-write/source"]


def test_a_run_that_comes_while_gc_looks_waits_until_gc_has_deleted(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "store"))
    source = Write(text="a", label="source", lifetime=after_use(days=1))
    made = run(store.prefix, end=Join(parts=(source,), label="end")).results[source].record
    assert made is not None
    age(tmp_path / "store", 30)
    told, stale = threading.Event(), threading.Event()

    def need() -> None:
        with Uses(store, "a test", lambda _: told.set()) as uses:
            try:
                uses.add([made])
            except StalePlan:
                stale.set()

    thread = threading.Thread(target=need)

    def clock() -> float:
        thread.start()
        assert told.wait(60)
        return time.time()

    assert [piece.name for piece in sweep(store, GcOptions(), clock=clock).gone if piece.records] == [made.name]
    thread.join()
    assert stale.is_set()


def test_a_run_that_would_share_what_gc_deletes_makes_it_itself(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "store"))
    one, two = Write(text="a", label="one"), Write(text="a", label="two", encoding="ascii")
    ends = [Join(parts=(part,), label=part.label, lifetime=after_use(days=1)) for part in (one, two)]
    run(store.prefix, top=Join(parts=(ends[0],), separator="-", label="top"), two=two)
    age(tmp_path / "store", 30)
    plan, stale = planned(store.prefix, alias=ends[1]), threading.Event()
    assert plan.of(ends[1]).action == "alias"

    def share() -> None:
        try:
            execute(plan)
        except StalePlan:
            stale.set()

    thread = threading.Thread(target=share)

    def clock() -> float:
        known = store.objects.list(USES)
        thread.start()
        wait_until(lambda: store.objects.list(USES) != known)
        return time.time()

    sweep(store, GcOptions(), clock=clock)
    thread.join()
    assert stale.is_set()
    assert ran(run(store.prefix, alias=ends[1])) == {"toy-join/two"}
    assert visible(store).keys() >= {two.identity, ends[1].identity}


def test_the_last_turn_is_found_without_a_listing(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "store"))
    for number in range(1, 12):
        turn = take_turn(store, Watch())
        assert isinstance(turn, Held)
        assert turn.number == number
        assert {last_turn(store, after) for after in range(number)} == {number - 1}
        turn.release()
        assert {last_turn(store, after) for after in range(number + 1)} == {number}


def test_one_gc_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("marin.store.ends.BEAT_EVERY", 0.05)
    store = Store(str(tmp_path / "store"))
    run(store.prefix, a=Write(text="a", label="a"))
    turn = take_turn(store, Watch())
    assert isinstance(turn, Held)
    turn.start_beating()
    with pytest.raises(StoreError, match="has been running on"):
        sweep(store, GcOptions())
    turn.release()
    sweep(store, GcOptions())


def test_the_turn_of_a_gc_that_died_elsewhere_is_taken_over(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "store"))
    run(store.prefix, a=Write(text="a", label="a"))
    turn = take_turn(store, Watch())
    assert isinstance(turn, Held)
    elsewhere = replace(turn.claim, holder=replace(this_process(), host="elsewhere"))
    store.objects.write(claim_name(TURN, turn.number), elsewhere.to_json())
    told: list[str] = []
    sweep(store, GcOptions(), on_message=told.append, watch=Watch(expiry=0.1))
    assert len(told) == 1
    assert "elsewhere" in told[0]


def test_a_gc_that_stood_still_and_was_given_up_deletes_nothing_more(tmp_path: Path) -> None:
    """A run ends the turn of gc, and continues."""
    store = Store(str(tmp_path / "store"))
    source = Write(text="a", label="source", lifetime=after_use(days=1))
    made = run(store.prefix, end=Join(parts=(source,), label="end")).results[source].record
    assert made is not None
    turn = take_turn(store, Watch())
    assert isinstance(turn, Held)
    with Uses(store, "a test", watch=Watch(expiry=0.1)) as uses:
        uses.add([made])
    with pytest.raises(StoreError, match="taken over"):
        turn.renew()


def test_a_gc_whose_turn_was_ended_stops(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "store"))
    source = Write(text="a", label="source", lifetime=after_use(days=1))
    run(store.prefix, end=Join(parts=(source,), label="end"))

    def end_turn(_: object) -> None:
        turn = take(store.objects, TURN, lambda number: f"{GC}/{number}", lambda _: True)
        assert isinstance(turn, Held)
        turn.release()

    with pytest.raises(StoreError, match="taken over"):
        sweep(store, GcOptions(), end_turn, in_days(30))
    assert source.identity in visible(store)


def test_forgotten_work_in_progress_goes_and_that_of_a_named_experiment_stays(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "store"))
    slow = Slowly(text="x", switch=str(tmp_path / "never"), label="slow")
    run(store.prefix, slow=slow)
    assert store.state_identities() == {slow.identity}
    collect(store, 20)
    assert store.state_identities(), "a training run may rest for weeks"
    collect(store, 40, roots=roots_of([experiment(slow=slow)]))
    assert store.state_identities() == {slow.identity}
    collect(store, 40)
    assert store.state_identities() == set()
    (tmp_path / "never").touch()
    assert statuses(run(store.prefix, slow=slow)) == {"toy-slowly/slow": "ran"}


def test_control_files_of_what_is_gone_go_too(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "store"))
    place = tmp_path / "store/.marin"
    source = Write(text="a", label="source", lifetime=after_use(days=1))
    end = Join(parts=(source,), label="end")
    made = run(store.prefix, end=end).results[source].record
    assert made is not None
    store.note_stamp(made)
    store_code(store, "0" * 64, {"units": {}})
    (place / "claims/.half.123").write_text("half")
    collect(store, 30)
    collect(store, 30)
    assert [path.name for path in (place / "stamps").iterdir()] == []
    assert {path.name[-64:] for path in (place / "actions").iterdir()} == {end.identity}
    assert "0" * 64 not in {path.stem for path in (place / "code").iterdir()}
    assert stored_code(store, visible(store)[end.identity].code), "an output's own"
    assert stored_code(store, made.code), "a collected output's own, which lineage knows"
    assert not (place / "claims/.half.123").exists()
    assert [path.name for path in (place / "uses").iterdir()] == []


class Folder(ExecutorStep[Blob], op="toy-folder"):
    """Count the files of a folder outside the store."""

    path: str
    fail: bool = execution(default=False)

    def outside(self) -> dict[str, str]:
        return {str(file): file.read_text() for file in Path(self.path).iterdir()}

    def run(self, ctx: Context) -> Blob:
        if self.fail:
            raise ValueError("counts nothing")
        ctx.out.write_text("text.txt", str(len(self.outside())))
        return Blob(bytes=1)


def test_lists_of_outside_data_go_with_the_last_that_names_them(tmp_path: Path) -> None:
    store, place = Store(str(tmp_path / "store")), tmp_path / "data"
    place.mkdir()
    for number in range(30):
        (place / str(number)).write_text("")
    step = Folder(path=str(place), label="step")

    def lists() -> set[str]:
        return {path.stem for path in (tmp_path / "store/.marin/outside").iterdir()}

    def changed(name: str) -> None:
        (place / name).write_text("new")

    run(store.prefix, step=step)
    first = visible(store)[step.identity]
    changed("failed")
    run(store.prefix, on_drift=OnDrift.REBUILD, step=Folder(path=str(place), label="step", fail=True))
    changed("accepted")
    [accepted] = accept_planned(planned(store.prefix, on_drift=OnDrift.ACCEPT, step=step))
    changed("rebuilt")
    run(store.prefix, on_drift=OnDrift.REBUILD, step=step)
    last = visible(store)[step.identity]
    (tmp_path / "store/.marin/outside/.half.123").write_text("half")
    assert len(lists() - {".half"}) == 4
    age(tmp_path / "store", 0.2)
    assert not look(store, GcOptions(older_than=0.1)).goes, "a run of the last day needed it: it may go on"
    names = {listing(first.outside), listing(last.outside), listing(accepted.entry.outside)}
    swept = collect(store, 30)
    assert "lists of outside data that no known output read" in {piece.name for piece in swept.gone}
    assert lists() == names
    changed("later")
    [decision] = planned(store.prefix, step=step).decisions
    assert list(decision.drift) == [f"outside data {place}/later is new: new"], "the list says what was there before"


def test_what_was_never_begun_here_stays_and_is_named(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "store"))
    run(store.prefix, a=Write(text="a", label="a"))
    foreign = tmp_path / "store/train/mine-0123456789ab.0001"
    foreign.mkdir(parents=True)
    (foreign / "weights").write_text("precious")
    (tmp_path / "store/notes").mkdir()
    (tmp_path / "store/notes/paper.md").write_text("precious")
    found = look(store, GcOptions(), in_days(400))
    assert found.unknown == ("train/mine-0123456789ab.0001",)
    collect(store, 400)
    assert (foreign / "weights").exists()
    assert (tmp_path / "store/notes/paper.md").exists()


def test_what_was_copied_by_hand_beside_a_mirrored_output_stays(tmp_path: Path) -> None:
    """Its record came with the output built from it. Its step was never begun in this store."""
    here, there = Store(str(tmp_path / "here")), Store(str(tmp_path / "there"))
    source = Write(text="a", label="source")
    made = run(here.prefix, end=Join(parts=(source,), label="end")).results[source].record
    assert made is not None
    assert len(list(mirror(plan_mirroring(here, there, ["toy-join/end"])))) == 1
    shutil.copytree(here.directory.path / made.attempt, there.directory.path / made.attempt)
    assert look(there, GcOptions(), in_days(400)).unknown == (made.attempt,)
    collect(there, 400)
    assert there.output(made).exists("text.txt")


class Node(ExecutorStep[Blob], op="gc-node"):
    """A step whose bytes come from its number and its parents' numbers. salt changes the identity but no bytes."""

    number: int
    salt: int
    parents: tuple[ExecutorStep[Blob], ...]
    broken: bool = execution(default=False)

    def run(self, ctx: Context) -> Blob:
        texts = [ctx[parent].directory.read_text("text.txt") for parent in self.parents]
        ctx.out.write_text("text.txt", f"({self.number}{''.join(texts)})")
        if self.broken:
            raise RuntimeError("broken")
        return Blob(bytes=1)


LIFETIMES = [FOREVER, unless_read(days=1), after_use(days=1)]


def nodes(graph: Graph, lifetimes: list[Lifetime], salted: set[int], broken: set[int]) -> list[Node]:
    made: list[Node] = []
    for number, parents in enumerate(graph.parents):
        made.append(
            Node(
                number=number,
                salt=int(number in salted),
                parents=tuple(made[parent] for parent in parents),
                broken=number in broken,
                lifetime=lifetimes[number],
                label=str(number),
            )
        )
    return made


def expected_to_stay(records: dict[str, Record], reached: frozenset[str] | None) -> set[str]:
    """Return the outputs that stay, by the literal rules applied until nothing changes. reached: None for all."""
    by_directory: dict[str, list[Record]] = {}
    for record in records.values():
        by_directory.setdefault(record.attempt, []).append(record)
    stay: set[str] = set()
    while True:
        read = {(each.identity, each.root) for identity in stay for each in records[identity].inputs}
        found: set[str] = set()
        for sharing in by_directory.values():
            for record in sharing:
                wanted = reached is None or record.identity in reached
                soft = record.lifetime.startswith("unread") and (record.identity, record.root) in read
                if wanted and (not record.lifetime or soft):
                    found |= {each.identity for each in sharing}
        if found <= stay:
            return stay
        stay |= found


rounds = st.lists(
    st.tuples(numbers.filter(bool), numbers, numbers, st.none() | st.integers(0, 7)), min_size=1, max_size=4
)


@settings(max_examples=40, deadline=None)
@given(graphs(), rounds, st.lists(st.sampled_from(LIFETIMES), min_size=8, max_size=8), st.booleans())
def test_any_history_keeps_exactly_what_the_rules_say(
    graph: Graph,
    rounds: list[tuple[set[int], set[int], set[int], int | None]],
    lifetimes: list[Lifetime],
    unreachable: bool,
) -> None:
    """rounds: (results, salted nodes, broken nodes, node to rebuild). The last one breaks nothing."""
    size = len(graph.parents)
    with tempfile.TemporaryDirectory() as name:
        store = Store(f"{name}/store")
        results: dict[str, Any] = {}
        for number, (ends, salted, broken, rebuild) in enumerate(rounds):
            broken = broken if number < len(rounds) - 1 else set[int]()
            steps = nodes(graph, lifetimes, salted, broken)
            results = {f"result{end % size}": steps[end % size] for end in ends}
            there = rebuild is not None and rebuild % size in graph.needed({end % size for end in ends})
            run(
                store.prefix, rebuild=(f"gc-node/{rebuild % size}",) if rebuild is not None and there else (), **results
            )
        roots = roots_of([experiment(**results)])
        before = visible(store)
        reached = roots.steps if unreachable else None
        stay = expected_to_stay(before, reached) | (roots.results & before.keys())
        stay = expected_with(before, stay, reached)
        collect(store, 10, roots=roots, unreachable=unreachable)
        after = visible(store)
        assert {after[identity].name for identity in after} == {before[identity].name for identity in stay}
        assert after.keys() == stay
        assert ran(run(store.prefix, **results)) == set()
        named = {record.attempt for record in after.values()}
        assert directories(store) <= named
        assert not collect(store, 10, roots=roots, unreachable=unreachable).gone


def expected_with(records: dict[str, Record], kept: set[str], reached: frozenset[str] | None) -> set[str]:
    """Return the outputs that stay if ``kept`` had no lifetime and were reached."""
    changed = {
        identity: replace(record, lifetime="") if identity in kept else record for identity, record in records.items()
    }
    return expected_to_stay(changed, None if reached is None else reached | kept)


def test_a_run_waits_for_gc_and_makes_again_what_it_took(tmp_path: Path) -> None:
    """One process lets the test hold gc in the middle: gc has selected the garbage and deleted nothing."""
    store = Store(str(tmp_path / "store"))
    source = Write(text="a", label="source", lifetime=after_use(days=1))
    run(store.prefix, end=Join(parts=(source,), label="end"))
    age(tmp_path / "store", 30)
    plan_made, selected = threading.Event(), threading.Event()
    failed: list[BaseException] = []

    def tell(_: object) -> None:
        selected.set()
        assert plan_made.wait(60)

    def gc() -> None:
        try:
            sweep(store, GcOptions(), tell)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=gc)
    thread.start()
    assert selected.wait(60)
    plan = planned(store.prefix, later=Join(parts=(source,), separator="-", label="later"))
    plan_made.set()
    with pytest.raises(StalePlan):
        execute(plan)
    thread.join()
    assert not failed
    assert ran(run(store.prefix, later=Join(parts=(source,), separator="-", label="later"))) == {
        "toy-write/source",
        "toy-join/later",
    }
    visible(store)


def test_what_is_gone_is_free_to_be_made_and_says_why(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "store"))
    source = Write(text="a", label="source", lifetime=after_use(days=1))
    run(store.prefix, end=Join(parts=(source,), label="end"))
    collect(store, 3)
    end = read_end(store.objects, source.identity, 2)
    assert isinstance(end, End)
    assert end.how is How.COLLECTED
    assert end.why.startswith("collected by `marin gc` of ")
    assert not read_claims(store.objects, {source.identity: 0, TURN: 0})
    assert Roots() == roots_of([])
