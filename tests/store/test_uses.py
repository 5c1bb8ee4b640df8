"""Test the needs that runs announce, and lifetimes. gc decides by both."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from marin import Context, ExecutorStep, Lifetime, after_use, unless_read
from marin.errors import BadField, StalePlan
from marin.steps.lifetime import FOREVER, parse_lifetime
from marin.store.ends import Held, How, Watch, end_attempt
from marin.store.in_use import Needs, Uses, read_runs, take_turn
from marin.store.layout import USES
from marin.store.process import this_process
from marin.store.store import Store
from tests.support.servers import Operation, StoreServer
from tests.support.toy import Blob, Join, Write, execute, planned, run


class Ask(ExecutorStep[Blob], op="uses-ask"):
    """Write the needs of its own run, as the store lists them."""

    source: ExecutorStep[Blob]
    prefix: str

    def run(self, ctx: Context) -> Blob:
        (asking,) = [each for each in read_runs(Store(self.prefix)) if each.beat is not None]
        ctx.out.write_text("needs.json", asking.needs.to_json().decode())
        return Blob(bytes=1)


def test_a_run_says_what_it_needs_before_it_starts_anything(prefix: str) -> None:
    source, other = Write(text="a", label="source"), Write(text="b", label="other")
    made = run(prefix, source=source, other=other).results
    ask = Ask(source=source, prefix=prefix, label="ask")
    record = run(prefix, ask=ask, other=other).results[ask].record
    assert record is not None
    store = Store(prefix)
    needs = Needs.parse(store.output(record).read_bytes("needs.json"))
    assert set(needs.identities) == {step.identity[:16] for step in (ask, source, other)}
    records = [made[step].record for step in (source, other)]
    assert set(needs.attempts) == {record.attempt for record in records if record is not None}
    assert record.code in needs.code
    assert all(each.beat is None for each in read_runs(store)), "an ended run goes on saying that it lasts"
    assert len(read_runs(store)) == 2


def test_a_cached_run_says_nothing(prefix: str) -> None:
    run(prefix, a=Write(text="a", label="a"))
    run(prefix, a=Write(text="a", label="a"))
    assert len(read_runs(Store(prefix))) == 1


def test_a_run_whose_inputs_were_taken_away_since_it_was_planned_starts_nothing(any_prefix: str) -> None:
    source = Write(text="a", label="source")
    made = run(any_prefix, source=source).results[source].record
    assert made is not None
    plan = planned(any_prefix, end=Join(parts=(source,), label="end"))
    store = Store(any_prefix)
    assert end_attempt(store.objects, source.identity, made.token + 1, How.COLLECTED, "", "a test")
    store.output(made).remove()
    with pytest.raises(StalePlan, match="toy-write/source"):
        execute(plan)


def test_a_run_waits_while_gc_deletes(tmp_path: Path) -> None:
    """The run also waits if it needs nothing that goes."""
    store = Store(str(tmp_path / "store"))
    source = Write(text="a", label="source")
    made = run(store.prefix, source=source).results[source].record
    assert made is not None
    turn = take_turn(store, Watch())
    assert isinstance(turn, Held)
    told = threading.Event()
    added = threading.Event()

    def add() -> None:
        with Uses(store, "waiting", lambda _: told.set()) as uses:
            uses.add([made])
            added.set()

    thread = threading.Thread(target=add)
    thread.start()
    assert told.wait(30)
    assert not added.is_set()
    turn.release()
    later = take_turn(store, Watch())  # this gc sees the needs, so the run does not wait for it
    assert isinstance(later, Held)
    assert added.wait(30)
    thread.join()
    later.release()


def test_a_run_that_needs_one_more_output_lists_nothing(server: StoreServer, remote_prefix: str) -> None:
    """A run that shares a thousand outputs announces each of the thousand."""
    store, source = Store(remote_prefix), Write(text="a", label="source")
    made = run(remote_prefix, source=source).results[source].record
    assert made is not None
    with Uses(store, "a test") as uses:
        server.obey()
        uses.add([made])
        assert Operation.LIST not in server.counts(remote_prefix)


def test_a_run_of_before_that_was_killed_is_read(prefix: str) -> None:
    """A killed run of an earlier marin left its beat in the form of a lease."""
    store, name = Store(prefix), "20261101T120000000-old-0123456789ab"
    store.objects.write(f"{USES}/{name}.json", Needs(identities=[], attempts=[]).to_json())
    beat: dict[str, Any] = {"format": 1, "state": "held", "token": 1, "attempt": f"{USES}/{name}", "beat": 7}
    beat |= {"holder": this_process().to_plain(), "since": "2026-11-01 12:00:00 UTC", "claim": "", "collected": ""}
    store.objects.write(f"{USES}/{name}.beat", json.dumps(beat).encode())
    (found,) = read_runs(store)
    assert found.beat is not None
    assert (found.beat.holder, found.beat.beat) == (this_process(), 7)


def test_lifetimes_are_written_down_and_results_stay_for_good(tmp_path: Path) -> None:
    source = Write(text="a", label="source", lifetime=unless_read(days=7))
    end = Join(parts=(source,), label="end", lifetime=after_use(days=30))
    records = {step.label: held.record for step, held in run(str(tmp_path / "store"), end=end).results.items()}
    assert {label: record.lifetime for label, record in records.items() if record} == {"source": "unread 7", "end": ""}


def test_a_lifetime_is_no_part_of_the_identity() -> None:
    assert Write(text="a", lifetime=unless_read(days=7)).identity == Write(text="a").identity


@pytest.mark.parametrize("lifetime", [FOREVER, unless_read(days=0.5), after_use(days=30)])
def test_a_lifetime_is_read_back(lifetime: Lifetime) -> None:
    assert parse_lifetime(str(lifetime)) == lifetime


def test_what_cannot_be_read_stays_for_good() -> None:
    for text in ("unread", "unread soon", "unread -1", "someday 3"):
        assert parse_lifetime(text) == FOREVER


def test_a_lifetime_of_no_days_is_refused() -> None:
    with pytest.raises(BadField, match="more than 0"):
        unless_read(days=0)
