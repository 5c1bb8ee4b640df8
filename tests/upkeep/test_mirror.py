"""Test mirroring between all kinds of stores: same identity, verified bytes, whole or not at all, copied once."""

import json
import threading
import uuid
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from marin import Context, ExecutorStep
from marin.errors import BadField, BadPrefix, CorruptOutput, CorruptRecord, IdentityConflict, Revoked, UnknownStep
from marin.executor.run_results import Run
from marin.fingerprint.fingerprint import stored_code
from marin.plan.acceptance import accept_planned
from marin.plan.plan import Action, OnDrift
from marin.report.audit import audit_store
from marin.steps.pinned import Pinned
from marin.store.files.verify import Check
from marin.store.layout import LOG, RECORD, end_name
from marin.store.record import Record
from marin.store.revocation import revoke, withdraw
from marin.store.store import Store
from marin.upkeep.mirror.copy import MirroredOutput, mirror
from marin.upkeep.mirror.plan import plan_mirroring
from tests.support.servers import Act, Operation, Rule, StoreServer
from tests.support.toy import Blob, Count, Join, Outside, Write, planned, ran, run, statuses

PAIRS = ("file-s3", "s3-gs", "gs-file", "memory-file", "file-memory")


class Shards(ExecutorStep[Blob], op="toy-shards"):
    """Write ``files`` files of ``size`` bytes, each with its own content."""

    files: int
    size: int

    def run(self, ctx: Context) -> Blob:
        for number in range(self.files):
            ctx.out.write_bytes(f"deep/shard-{number:02}.bin", bytes([number]) * self.size)
        return Blob(bytes=self.files * self.size)


@pytest.fixture
def new_prefix(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Return a function that makes a fresh store of a kind."""

    def made(kind: str) -> str:
        if kind == "file":
            return str(tmp_path / f"store-{uuid.uuid4().hex[:8]}")
        if kind == "memory":
            return f"memory://{uuid.uuid4().hex}"
        server: StoreServer = request.getfixturevalue(f"_{kind}")
        server.obey()
        return server.new_prefix()

    return made


@pytest.fixture(params=PAIRS)
def pair(request: pytest.FixtureRequest, new_prefix: Any) -> tuple[str, str]:
    here, there = request.param.split("-")
    return new_prefix(here), new_prefix(there)


@pytest.fixture
def two(tmp_path: Path) -> tuple[str, str]:
    """Return two stores on disk."""
    return str(tmp_path / "here"), str(tmp_path / "there")


def chain(separator: str = " ") -> Join:
    a, b = Write(text="hello", label="a"), Write(text="world", label="b")
    return Join(parts=(Join(parts=(a, b), separator=separator, label="first"), b), label="second")


def mirrored(source: str, target: str, *names: str, with_inputs: bool = False) -> list[MirroredOutput]:
    return list(mirror(plan_mirroring(Store(source), Store(target), names, with_inputs=with_inputs)))


def record_of(made: Run, step: ExecutorStep[Any]) -> Record:
    record = made.results[step].record
    assert record is not None
    return record


def committed(prefix: str, step: ExecutorStep[Any]) -> Record | None:
    return Store(prefix).record(step.identity)


def test_what_was_mirrored_serves_there_and_is_what_it_was(pair: tuple[str, str]) -> None:
    source, target = pair
    shards = Shards(files=3, size=1000, label="shards")
    made = run(source, end=chain(), shards=shards)
    done = mirrored(source, target, "second", "shards", with_inputs=True)
    names = [held.record.name for held in done]
    assert sorted(names) == ["toy-join/first", "toy-join/second", "toy-shards/shards", "toy-write/a", "toy-write/b"]
    assert names.index("toy-write/a") < names.index("toy-join/first") < names.index("toy-join/second")
    assert statuses(run(target, end=chain(), shards=shards)) == {name: "cached" for name in names}
    there = Store(target)
    for step in made.results:
        was, now = record_of(made, step), committed(target, step)
        assert now is not None
        assert there.verify(now, Check.BYTES) == []
        assert (now.identity, now.root, now.provenance, now.attempt) == (
            was.identity, was.root, was.provenance, was.attempt,
        )  # fmt: skip
        assert [held.origin for held in now.mirrored] == [f"{source}/{was.attempt}"]
        assert stored_code(there, now.code) is not None
        log = there.objects.read_log(f"{now.attempt}/{LOG}")
        assert log.startswith(Store(source).objects.read_log(f"{was.attempt}/{LOG}"))
        assert b"mirrored from" in log
    # marin copies nothing twice, and a change re-runs the same steps as in the source.
    assert mirrored(source, target, "second", "shards", with_inputs=True) == []
    assert ran(run(target, end=chain(separator="-"))) == {"toy-join/first", "toy-join/second"}


@pytest.mark.parametrize("kind", ["gs", "s3"])
def test_between_buckets_the_store_copies_and_no_byte_passes_here(
    kind: str, new_prefix: Any, request: pytest.FixtureRequest
) -> None:
    source, target = new_prefix(kind), new_prefix(kind)
    run(source, end=Shards(files=3, size=1000, label="shards"))
    server: StoreServer = request.getfixturevalue(f"_{kind}")
    server.obey()
    mirrored(source, target, "shards")
    read = [name for operation, name, _ in server.calls() if operation is Operation.READ and "shard-" in name]
    assert read == []
    record = committed(target, Shards(files=3, size=1000))
    assert record is not None
    assert Store(target).verify(record, Check.BYTES) == []
    assert planned(target, end=Shards(files=3, size=1000)).of(Shards(files=3, size=1000)).action is Action.CACHED


def test_one_output_without_its_inputs_serves_and_is_known_by_what_it_was_made_from(two: tuple[str, str]) -> None:
    source, target = two
    run(source, end=chain())
    [done] = mirrored(source, target, "second")
    assert done.record.name == "toy-join/second"
    plan = planned(target, end=chain())
    assert [held.action for held in plan.decisions] == [Action.NOT_NEEDED] * 3 + [Action.CACHED]
    assert {claim.subject for claim in audit_store(Store(target)).claims} == {"elsewhere"}
    # The target revokes an input two steps up, although it never held that input.
    a = committed(source, Write(text="hello"))
    assert a is not None
    revoke(Store(target), a, "not so nice")
    assert planned(target, end=chain()).of(chain()).action is Action.STOP


def test_milestones_and_pins_serve_there(two: tuple[str, str]) -> None:
    source, target = two
    count = Count(end=3, label="count")
    run(source, end=count, early=count.at(2), a=Write(text="hello", label="a"))
    rebuilt = run(source, rebuild=("a",), a=Write(text="hello", label="a"))
    record = record_of(rebuilt, Write(text="hello"))
    assert record.attempt.endswith(".0002")
    pin: Pinned[Blob] = Pinned(at=record.attempt, digest=record.root, label="pin")
    mirrored(source, target, "count@2", record.attempt)
    assert ran(run(target, early=count.at(2))) == set()
    assert statuses(run(target, end=Join(parts=(pin,), label="end"))) == {"pinned/pin": "alias", "toy-join/end": "ran"}


def test_what_somebody_accepted_is_accepted_there(two: tuple[str, str], tmp_path: Path) -> None:
    source, target = two
    file = tmp_path / "source.txt"
    file.write_text("one")
    step = Outside(path=str(file), label="o")
    run(source, end=step)
    file.write_text("two")
    accept_planned(planned(source, on_drift=OnDrift.ACCEPT, end=step))
    mirrored(source, target, "o")
    decision = planned(target, end=step).of(step)
    assert decision.action is Action.CACHED
    assert "drift accepted" in " ".join(decision.notes)
    file.write_text("three")
    assert planned(target, end=step).of(step).action is Action.STOP


def test_an_alias_shares_there_what_it_shares_here(two: tuple[str, str]) -> None:
    source, target = two
    one = Join(parts=(Write(text="hello", label="plain"),), label="one")
    same = Join(parts=(Write(text="hello", encoding="ascii", label="ascii"),), label="same")
    run(source, one=one)
    assert statuses(run(source, same=same))["toy-join/same"] == "alias"
    done = mirrored(source, target, "same")
    assert [held.record.name for held in done] == ["toy-join/one", "toy-join/same"]
    original, alias = (committed(target, step) for step in (one, same))
    assert original is not None
    assert alias is not None
    assert (alias.attempt, alias.alias_of) == (original.attempt, one.identity)
    assert ran(run(target, one=one, same=same)) == set()
    # After a rebuild of the original to other bytes, the alias gets a copy of its bytes.
    changed = replace(original, root="0" * 64, attempt="toy-join/elsewhere.0002", token=2)
    Store(source).objects.write(end_name(one.identity, 2), changed.to_bytes())
    third = f"{target}-3"
    [alone] = mirrored(source, third, "same")
    assert alone.record.alias_of == ""
    assert alone.record.attempt.startswith("toy-join/same-")
    assert Store(third).verify(alone.record, Check.BYTES) == []


def test_revocations_travel_and_what_is_revoked_does_not(two: tuple[str, str]) -> None:
    source, target = two
    run(source, end=chain(), other=Write(text="other", label="other"))
    mirrored(source, target, "second", with_inputs=True)
    a = committed(source, Write(text="hello"))
    assert a is not None
    revoke(Store(source), a, "holds test items")
    for name in ("toy-write/a", "second"):
        with pytest.raises(Revoked, match="holds test items"):
            mirrored(source, f"{target}-2", name)
    assert not Path(f"{target}-2").exists()
    assert planned(target, end=chain()).of(chain()).action is Action.CACHED
    mirrored(source, target, "other")
    assert "holds test items" in planned(target, end=chain()).of(chain()).reason
    # The target holds the revocation as its own. A withdrawal travels, too.
    withdraw(Store(source), a, "it does not")
    mirrored(source, target, "other")
    assert planned(target, end=chain()).of(chain()).action is Action.CACHED
    revoke(Store(target), a, "it does after all")
    with pytest.raises(Revoked, match="after all"):
        mirrored(source, target, "second")


def test_told_differently_about_the_same_bytes_they_stay_revoked(two: tuple[str, str]) -> None:
    source, target = two
    a, other = Write(text="hello", label="a"), Write(text="other", label="other")
    run(source, end=a, other=other)
    mirrored(source, target, "a")
    record = committed(source, a)
    assert record is not None
    revoke(Store(target), record, "said there")
    revoke(Store(source), record, "said here")
    withdraw(Store(source), record, "taken back here")
    for _ in range(2):
        mirrored(source, target, "other")
        assert "said there" in planned(target, end=a).of(a).reason


def tampered(prefix: str, record: Record, path: str, content: bytes) -> None:
    Store(prefix).output(record).write_bytes(path, content)


@pytest.mark.parametrize("kinds", ["file-file", "gs-gs", "s3-file"])
def test_tampered_bytes_are_never_visible_there(kinds: str, new_prefix: Any) -> None:
    source, target = (new_prefix(kind) for kind in kinds.split("-"))
    shards = Shards(files=4, size=100, label="shards")
    step = Join(parts=(Write(text="hello", label="a"),), label="join")
    made = run(source, end=shards, join=step)
    record = record_of(made, shards)
    tampered(source, record, "deep/shard-02.bin", bytes(100))
    mirrored(source, target, "join")
    with pytest.raises(CorruptOutput, match=r"deep/shard-02\.bin differs from its manifest"):
        mirrored(source, target, "join", "shards")
    assert committed(target, shards) is None
    assert committed(target, step) is not None, "what came before stays"
    assert not any("shard-02" in name for name in (Store(target).directory / "toy-shards").names())
    # After the repair, marin does not copy the other files again.
    tampered(source, record, "deep/shard-02.bin", bytes([2]) * 100)
    [done] = mirrored(source, target, "join", "shards")
    assert done.progress.copied_files + done.progress.resumed_files == 4
    assert done.progress.resumed_files >= 1
    assert Store(target).verify(done.record, Check.BYTES) == []


def test_what_is_damaged_is_refused_before_anything_is_copied(two: tuple[str, str]) -> None:
    source, target = two
    shards = Shards(files=2, size=100, label="shards")
    record = record_of(run(source, end=shards), shards)
    tampered(source, record, "deep/shard-01.bin", b"short")
    with pytest.raises(CorruptOutput, match=r"truncated: deep/shard-01\.bin"):
        mirrored(source, target, "shards")
    tampered(source, record, "deep/shard-01.bin", bytes([1]) * 100)
    manifest = Path(source, record.attempt, RECORD)
    manifest.write_text(manifest.read_text().replace('"sha256": "', '"sha256": "0', 1).replace('",\n"path"', '"', 1))
    with pytest.raises(CorruptOutput, match="damaged"):
        mirrored(source, target, "shards")
    assert not Path(target).exists()


def test_other_bytes_under_the_same_identity_stay_as_they_are(two: tuple[str, str], tmp_path: Path) -> None:
    source, target = two
    file = tmp_path / "file"
    step = Outside(path=str(file), label="o")
    for prefix, text in ((source, "one"), (target, "two")):
        file.write_text(text)
        run(prefix, end=step)
    before = committed(target, step)
    with pytest.raises(IdentityConflict, match="with other bytes"):
        mirrored(source, target, "o")
    assert committed(target, step) == before


def test_what_cannot_be_meant_is_refused(two: tuple[str, str]) -> None:
    source, target = two
    with pytest.raises(BadPrefix, match="no store"):
        mirrored(source, target, "a")
    run(source, end=chain())
    with pytest.raises(UnknownStep, match="did you mean"):
        mirrored(source, target, "secnod")
    with pytest.raises(BadField, match="itself"):
        mirrored(source, source, "second")
    assert not Path(target).exists()


def test_an_input_that_was_made_again_is_named_and_left_out(two: tuple[str, str], tmp_path: Path) -> None:
    source, target = two
    file = tmp_path / "file"
    file.write_text("one")
    outside = Outside(path=str(file), label="o")
    run(source, end=Join(parts=(outside,), label="end"))
    file.write_text("two")
    run(source, on_drift=OnDrift.REBUILD, o=outside)
    plan = plan_mirroring(Store(source), Store(target), ["end"], with_inputs=True)
    assert [record.name for record in plan.todo] == ["toy-join/end"]
    assert "rebuilt since" in "".join(plan.notes)


def test_two_at_once_copy_once(new_prefix: Any, request: pytest.FixtureRequest) -> None:
    source, target = new_prefix("s3"), new_prefix("file")
    run(source, end=Shards(files=4, size=100, label="shards"))
    server: StoreServer = request.getfixturevalue("_s3")
    server.obey(Rule(Act.DELAY, name="shard-", operations=[Operation.READ], seconds=0.2))
    found: list[MirroredOutput] = []
    threads = [threading.Thread(target=lambda: found.extend(mirrored(source, target, "shards"))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    read = [name for operation, name, _ in server.calls() if operation is Operation.READ and "shard-" in name]
    assert len(read) == len(set(read)) == 4
    assert sum(held.copied for held in found) == 1


def test_a_source_that_cannot_be_written_to_is_mirrored_and_a_target_that_cannot_says_so(
    server: StoreServer, two: tuple[str, str]
) -> None:
    prefix, target = server.new_prefix(), two[1]
    run(prefix, end=Write(text="hello", label="a"))
    path = prefix.split("/", 3)[3]
    writes = [Operation.WRITE, Operation.BEGIN, Operation.DELETE]
    server.obey(Rule(Act.ANSWER, name=path, operations=writes, status=403))
    said: list[str] = []
    plan = plan_mirroring(Store(prefix), Store(target), ["a"])
    [done] = mirror(plan, said.append)
    assert done.copied
    assert "gc" in said[0]
    # In the other direction, the store refuses the copy and holds nothing.
    run(two[0], end=Write(text="bye", label="b"))
    with pytest.raises(BadPrefix, match="refused to write"):
        mirrored(two[0], prefix, "b")
    server.obey()
    assert committed(prefix, Write(text="bye")) is None


def test_json_of_records_keeps_where_they_came_from(two: tuple[str, str]) -> None:
    source, target = two
    run(source, end=Write(text="hello", label="a"))
    mirrored(source, target, "a")
    mirrored(target, f"{target}-2", "a")
    record = committed(f"{target}-2", Write(text="hello"))
    assert record is not None
    origins = [held["origin"] for held in json.loads(record.to_bytes())["mirrored"]]
    assert origins == [f"{source}/{record.attempt}", f"{target}/{record.attempt}"]


def test_a_record_that_cannot_be_read_is_named_and_keeps_nobody_else_from_being_mirrored(two: tuple[str, str]) -> None:
    source, target = two
    a, b = Write(text="hello", label="a"), Write(text="world", label="b")
    run(source, a=a, b=b)
    Path(source, end_name(a.identity, 1)).write_text("{")
    with pytest.raises(CorruptRecord, match=a.identity):
        mirrored(source, target, "a")
    plan = plan_mirroring(Store(source), Store(target), ["b"])
    assert a.identity in "".join(plan.notes)
    assert [held.record.name for held in mirror(plan)] == ["toy-write/b"]
