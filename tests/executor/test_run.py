"""Run, change one thing, run again: assert exactly which steps ran."""

import json
import os
import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from marin import Context, Documents, ExecutorStep, Pinned
from marin.errors import BadField, CorruptRecord, Drift, LeaseLost, UnknownStep
from marin.plan.acceptance import accept_planned
from marin.plan.plan import Action, OnDrift
from marin.store.ends import EXPIRY, Claim, Held, How, Watch, end_attempt, read_claims, take
from marin.store.files.verify import Check
from marin.store.layout import CLAIMS, ENDS, RECORDS, claim_name, end_name
from marin.store.store import Store
from tests.store.test_document import RECORD
from tests.support.toy import (
    Blob,
    Count,
    Fail,
    Join,
    Outside,
    Write,
    execute,
    forget,
    planned,
    ran,
    record_of,
    run,
    statuses,
)


def chain(text: str = "hello", separator: str = " ") -> Join:
    a, b = Write(text=text, label="a"), Write(text="world", label="b")
    first = Join(parts=(a, b), separator=separator, label="first")
    return Join(parts=(first, b), label="second")


def test_everything_runs_once_and_then_nothing(prefix: str) -> None:
    first = run(prefix, end=chain())
    assert ran(first) == {"toy-write/a", "toy-write/b", "toy-join/first", "toy-join/second"}
    record = first.results[chain()].record
    assert record is not None
    assert Store(prefix).output(record).read_text("text.txt") == "hello world world"
    assert ran(run(prefix, end=chain())) == set()


def test_changing_a_field_reruns_that_step_and_what_reads_it(prefix: str) -> None:
    run(prefix, end=chain())
    assert ran(run(prefix, end=chain(separator="-"))) == {"toy-join/first", "toy-join/second"}
    assert ran(run(prefix, end=chain(text="bye"))) == {"toy-write/a", "toy-join/first", "toy-join/second"}
    assert ran(run(prefix, end=chain())) == set()


def test_memory_store_behaves_the_same(request: pytest.FixtureRequest) -> None:
    prefix = f"memory://{request.node.name}"
    assert len(ran(run(prefix, end=chain()))) == 4
    assert ran(run(prefix, end=chain())) == set()
    assert ran(run(prefix, end=chain(separator="-"))) == {"toy-join/first", "toy-join/second"}


def test_the_plan_says_which_field_changed(prefix: str) -> None:
    run(prefix, end=chain())
    plan = planned(prefix, end=chain(separator="-"))
    reasons = {decision.step.name: decision.reason for decision in plan.decisions}
    assert reasons["toy-join/first"] == "separator:   → -"
    assert plan.of(chain(separator="-")).action is Action.RECHECK
    assert plan.of(chain(separator="-")).reason == "runs only if other bytes come from toy-join/first"


def test_planning_writes_nothing(prefix: str) -> None:
    planned(prefix, end=chain())
    assert not os.path.exists(prefix)


def test_rebuild_in_place_reruns_dependents_only_if_the_bytes_change(prefix: str) -> None:
    run(prefix, end=chain())
    again = run(prefix, rebuild=("a",), end=chain())
    assert ran(again) == {"toy-write/a"}
    assert statuses(again)["toy-join/first"] == "cached"


def test_rebuilding_with_other_bytes_reaches_dependents(prefix: str, tmp_path: Path) -> None:
    source = tmp_path / "source.txt"
    source.write_text("one")
    end = Join(parts=(Outside(path=str(source), label="o"),), label="end")
    run(prefix, end=end)
    source.write_text("two")
    with pytest.raises(Drift, match="outside data"):
        run(prefix, end=end)
    assert ran(run(prefix, on_drift=OnDrift.REBUILD, end=end)) == {"toy-outside/o", "toy-join/end"}
    assert ran(run(prefix, end=end)) == set()


def test_accepted_drift_is_recorded_and_stays_accepted(prefix: str, tmp_path: Path) -> None:
    source = tmp_path / "source.txt"
    source.write_text("one")
    end = Outside(path=str(source), label="o")
    run(prefix, end=end)
    source.write_text("one, with a comma")
    plan = planned(prefix, on_drift=OnDrift.ACCEPT, end=end)
    assert plan.accepted_because == {end.identity: "a test"}
    accept_planned(plan)
    after = planned(prefix, end=end)
    assert after.of(end).action is Action.CACHED
    assert "a test" in after.of(end).notes[0]
    source.write_text("three")
    assert planned(prefix, end=end).of(end).action is Action.STOP


def test_accepting_needs_a_reason(prefix: str) -> None:
    from marin.plan.plan import make_plan
    from tests.support.toy import experiment

    with pytest.raises(BadField, match="--because"):
        make_plan(experiment(end=chain()), Store(prefix), on_drift=OnDrift.ACCEPT)


def test_a_failure_leaves_out_what_only_leads_to_what_it_broke(prefix: str) -> None:
    """A training does not run if its held-out text failed and no other result needs it."""
    a = Write(text="a", label="a")
    tokens = Join(parts=(a, Join(parts=(a,), label="filtered")), label="tokens")
    training = Join(parts=(tokens, a), label="training")
    score = Join(parts=(training, Fail(source=a, label="held-out")), label="score")
    first = run(prefix, score=score)
    assert statuses(first)["toy-join/training"] == "skipped"
    assert first.results[training].reason == "no result needs it: toy-fail/held-out failed"
    assert statuses(execute(planned(prefix, score=score), keep_going=True))["toy-join/training"] == "ran"
    other = Join(parts=(training,), separator="-", label="other")
    assert "toy-join/other" in ran(run(prefix, score=score, other=other)), "a result that can still be made needs it"


def test_two_steps_of_one_action_and_equal_bytes_are_made_once(prefix: str) -> None:
    """Two steps have different inputs with equal bytes, for example through a filter that removes nothing."""
    texts = [Write(text="same", encoding=encoding, label=encoding) for encoding in ("ascii", "latin-1")]
    tokens = [Join(parts=(text, text), label=f"tokens of {text.label}") for text in texts]
    arms = [Join(parts=(each, each), label=text.label) for each, text in zip(tokens, texts, strict=True)]
    first = run(prefix, all=arms[0], filtered=arms[1])
    made = statuses(first)
    assert [made[f"toy-join/tokens of {text.label}"] for text in texts] == ["ran", "alias"]
    assert [made[f"toy-join/{text.label}"] for text in texts] == ["ran", "alias"]
    assert "same action and input bytes as" in first.results[arms[1]].reason


class Keep(ExecutorStep[Documents], op="toy-keep-documents"):
    """Commit an output that claims ``documents`` documents."""

    documents: int

    def run(self, ctx: Context) -> Documents:
        ctx.out.write_text("shard.txt", "")
        return Documents(documents=self.documents, bytes=0, shards=1)


def test_an_output_without_any_document_is_a_failure_unless_the_step_says_otherwise(prefix: str) -> None:
    empty = Keep(documents=0, label="empty")
    result = run(prefix, empty=empty).results[empty]
    assert (result.status, result.record) == ("failed", None)
    assert result.error.startswith("EmptyOutput: toy-keep-documents/empty: its output holds no documents.")
    assert "give the step may_be_empty=True" in result.error
    assert ran(run(prefix, empty=Keep(documents=0, label="empty", may_be_empty=True))) == {empty.name}


def test_a_failure_spares_what_does_not_depend_on_it(prefix: str, tmp_path: Path) -> None:
    switch = tmp_path / "switch"
    a = Write(text="a", label="a")
    broken = Fail(source=a, switch=str(switch), label="broken")
    behind = Join(parts=(broken,), label="behind")
    beside = Join(parts=(a,), label="beside")
    first = run(prefix, one=behind, two=beside)
    assert statuses(first) == {
        "toy-write/a": "ran",
        "toy-fail/broken": "failed",
        "toy-join/behind": "skipped",
        "toy-join/beside": "ran",
    }
    result = first.results[broken]
    assert "the disk of dreams is empty" in result.error
    assert "ValueError" in Path(prefix, result.log).read_text()
    assert "failed last time: ValueError" in planned(prefix, one=behind).of(broken).reason
    switch.touch()
    assert ran(run(prefix, one=behind, two=beside)) == {"toy-fail/broken", "toy-join/behind"}


def test_only_and_rebuild_name_what_does_not_exist(prefix: str) -> None:
    with pytest.raises(UnknownStep, match="toy-join/second"):
        planned(prefix, rebuild=("toy-join/secnd",), end=chain())
    with pytest.raises(UnknownStep, match="results are end"):
        planned(prefix, end=chain()).experiment.only(["start"])


def test_a_missing_upstream_of_a_committed_output_is_not_made_again(prefix: str) -> None:
    run(prefix, end=chain())
    forget(prefix, Write(text="hello"))
    plan = planned(prefix, end=chain())
    assert plan.of(Write(text="hello")).action is Action.NOT_NEEDED
    assert ran(run(prefix, end=chain())) == set()


def test_milestones_are_committed_by_their_run_and_found_later(prefix: str) -> None:
    count = Count(end=5, label="count")
    both = run(prefix, end=count, early=count.at(2))
    assert ran(both) == {"toy-count/count", "toy-milestone/count@2"}
    record = both.results[count.at(2)].record
    assert record is not None
    assert record.facts["step"] == 2
    assert both.results[count.at(2)].reason == "published by its training run"
    late = run(prefix, end=count, late=count.at(4))
    assert ran(late) == {"toy-milestone/count@4"}


def test_a_milestone_of_a_run_that_died_later_is_not_published_again(prefix: str) -> None:
    count = Count(end=5, label="count")
    early = run(prefix, end=count, early=count.at(2)).results[count.at(2)].record
    forget(prefix, count)
    plan = planned(prefix, end=count, early=count.at(2))
    assert plan.of(count.at(2)).action is Action.CACHED
    again = run(prefix, end=count, early=count.at(2))
    assert ran(again) == {"toy-count/count"}
    assert again.results[count.at(2)].record == early
    assert planned(prefix, rebuild=("count",), end=count, early=count.at(2)).of(count.at(2)).action is Action.RECHECK


def test_a_rebuild_in_a_store_of_before_publishes_milestones_again(prefix: str) -> None:
    """marin does not mistake a milestone's old output for the output that the rebuild is about to publish."""
    count = Count(end=5, label="count")
    run(prefix, end=count, early=count.at(2))
    before = record_of(prefix, count.at(2))
    (Path(prefix) / RECORDS).mkdir()
    for path in (Path(prefix) / ENDS).iterdir():
        path.rename(Path(prefix) / RECORDS / f"{path.name.partition('.')[0]}.json")
    shutil.rmtree(Path(prefix) / CLAIMS)
    assert record_of(prefix, count.at(2)) == replace(before, token=0)
    assert ran(run(prefix, end=count, early=count.at(2))) == set()
    again = run(prefix, rebuild=("count",), end=count, early=count.at(2))
    assert ran(again) == {"toy-count/count", "toy-milestone/count@2"}
    after = record_of(prefix, count.at(2))
    assert after == again.results[count.at(2)].record
    assert (after.token, after.attempt == before.attempt) == (2, False)


@pytest.mark.parametrize("collected", [False, True])
def test_a_pin_to_an_output_that_was_made_again_since_is_used(prefix: str, collected: bool) -> None:
    step = Write(text="hello", label="a")
    run(prefix, end=step)
    record = record_of(prefix, step)
    run(prefix, rebuild=("a",), end=step)
    if collected:  # the later output, whose files gc deletes next
        assert end_attempt(Store(prefix).objects, step.identity, 3, How.COLLECTED, "", "nobody needs it")
    pin: Pinned[Blob] = Pinned(at=record.attempt, digest=record.root, label="pin")
    assert statuses(run(prefix, end=pin)) == {"pinned/pin": "alias"}
    assert record_of(prefix, pin).attempt == record.attempt


def test_a_reader_is_stopped_by_a_truncated_input(prefix: str) -> None:
    first = run(prefix, end=Write(text="hello", label="a"))
    record = first.results[Write(text="hello")].record
    assert record is not None
    end = Join(parts=(Write(text="hello", label="a"),), label="j")
    plan = planned(prefix, end=end)
    (Path(prefix) / record.attempt / "text.txt").write_text("hel")
    broken = execute(plan)
    error = next(result.error for result in broken.results.values() if result.status == "failed")
    assert "text.txt has 3 bytes, the manifest says 5" in error
    assert "--rebuild toy-write/a" in error


def test_an_output_that_was_changed_in_place_stops_the_plan(prefix: str) -> None:
    step = Write(text="hello", label="a")
    record = run(prefix, end=step).results[step].record
    assert record is not None
    file = Path(prefix) / record.attempt / "text.txt"
    file.write_text("HELLO")  # as many bytes as before
    with pytest.raises(CorruptRecord, match=r"changed in place: changed: text.txt.*--rebuild toy-write/a"):
        planned(prefix, end=step).must_not_stop()
    file.write_text("hello")  # touched, but with the right bytes
    plan = planned(prefix, end=step)
    assert plan.of(step).action is Action.CACHED
    assert "read every byte again" in plan.of(step).notes[0]
    assert ran(run(prefix, rebuild=("a",), end=step)) == {"toy-write/a"}
    assert planned(prefix, end=step).of(step).notes == ()


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"identity": 3}', b"\xff\xfe"])
def test_a_corrupt_record_stops_the_run_and_rebuild_mends_it(prefix: str, content: bytes) -> None:
    step = Write(text="hello", label="a")
    run(prefix, end=step)
    (Path(prefix) / end_name(step.identity, 1)).write_bytes(content)
    with pytest.raises(CorruptRecord, match="not a readable record"):
        run(prefix, end=step)
    assert ran(run(prefix, rebuild=("a",), end=step)) == {"toy-write/a"}
    assert ran(run(prefix, end=step)) == set()
    assert record_of(prefix, step).token == 2


def test_a_record_of_the_future_or_of_another_step_is_refused(prefix: str) -> None:
    step, other = Write(text="hello", label="a"), Write(text="other", label="b")
    run(prefix, end=step, other=other)
    path, theirs = (Path(prefix) / end_name(each.identity, 1) for each in (step, other))
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 99}))
    with pytest.raises(CorruptRecord, match="format 99"):
        Store(prefix).record(step.identity)
    path.write_bytes(theirs.read_bytes())
    with pytest.raises(CorruptRecord, match="belongs to"):
        Store(prefix).record(step.identity)


def test_verify_finds_missing_changed_extra_and_truncated_files(prefix: str) -> None:
    first = run(prefix, end=Write(text="hello", label="a"))
    record = first.results[Write(text="hello")].record
    assert record is not None
    store, output = Store(prefix), Path(prefix) / record.attempt
    assert store.verify(record, Check.CHECKSUMS) == []
    (output / "text.txt").write_text("hallo")
    assert store.verify(record, Check.SIZES) == []
    assert store.verify(record, Check.CHECKSUMS) == ["changed: text.txt (same size, other bytes)"]
    (output / "text.txt").write_text("hel")
    (output / "more.txt").write_text("x")
    assert store.verify(record, Check.SIZES) == [
        "truncated: text.txt has 3 bytes, the manifest says 5",
        "extra: more.txt",
    ]
    (output / "text.txt").unlink()
    assert "missing: text.txt" in store.verify(record, Check.SIZES)


def test_a_live_holder_keeps_others_out_until_its_beat_stands_still(prefix: str) -> None:
    store, identity = Store(prefix), "0" * 64
    mine = take(store.objects, identity, lambda number: f"x.{number}", lambda _: False)
    assert isinstance(mine, Held)
    foreign = replace(mine.claim, holder=replace(mine.claim.holder, host="elsewhere"), since="2099-01-01")
    store.objects.write(claim_name(identity, 1), foreign.to_json())
    now = [0.0]
    watch = Watch(clock=lambda: now[0])
    seen = read_claims(store.objects, {identity: 0})[identity]
    assert not watch.is_dead(identity, seen)
    now[0] = EXPIRY - 1
    assert not watch.is_dead(identity, seen)
    beaten = replace(seen, beat=1)
    assert not watch.is_dead(identity, beaten)
    now[0] = 2 * EXPIRY - 2
    assert not watch.is_dead(identity, beaten)
    now[0] = 2 * EXPIRY
    assert watch.is_dead(identity, beaten)
    later = replace(beaten, number=2)  # the claim of a later attempt
    assert not watch.is_dead(identity, later)


def test_a_holder_that_was_taken_over_cannot_commit(prefix: str) -> None:
    store, identity = Store(prefix), RECORD.identity
    old = take(store.objects, identity, lambda number: f"x.{number}", lambda _: False)
    assert isinstance(old, Held)
    assert isinstance(take(store.objects, identity, lambda number: f"x.{number}", lambda _: False), Claim)
    new = take(store.objects, identity, lambda number: f"x.{number}", lambda _: True)
    assert isinstance(new, Held)
    assert (old.number, new.number) == (1, 2)
    with pytest.raises(LeaseLost, match="taken over"):
        old.commit(replace(RECORD, token=1).to_bytes())
    new.commit(replace(RECORD, token=2).to_bytes())
    record = store.record(identity)
    assert record is not None
    assert record.token == 2


def test_a_corrupt_claim_stops_the_run_with_the_remedy(prefix: str) -> None:
    step = Write(text="hello", label="a")
    claim = Path(prefix) / claim_name(step.identity, 1)
    claim.parent.mkdir(parents=True)
    claim.write_text("{not json")
    with pytest.raises(CorruptRecord, match="delete the file"):
        run(prefix, end=step)
    claim.unlink()
    assert ran(run(prefix, end=step)) == {"toy-write/a"}
