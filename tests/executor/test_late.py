"""Test a holder that stood still and wakes up too late, and machines whose clocks are an hour apart."""

import os
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from marin.store.ends import Claim
from marin.store.inventory import Inventory
from marin.store.layout import CLAIMS
from marin.store.store import Store
from tests.support.drivers import EXPIRY, Driver, Drivers, Where
from tests.support.racing import TAKEN, Race, all_right, records, waited
from tests.support.servers import Act, Rule, StoreServer

AFTER, MEANWHILE = "after the other's commit", "while the other works"
HASTY = Where(hasty=True)


@pytest.mark.parametrize(
    ("shared_prefix", "wakes"),
    [("file", AFTER), ("file", MEANWHILE), ("gs", MEANWHILE), ("s3", AFTER)],
    indirect=["shared_prefix"],
)
def test_a_paused_holder_that_wakes_up_late_is_stopped_and_takes_what_the_other_made(
    drivers: Drivers, tmp_path: Path, shared_prefix: str, wakes: str
) -> None:
    race = Race(tmp_path, layers=1, wide=2, gated=True)
    late = drivers.start(race.file, shared_prefix, where=HASTY)
    race.wait_until_began("gated")
    race.close_for(late.pid)
    late.pause()
    other = drivers.start(race.file, shared_prefix, where=HASTY)
    race.wait_until_began("gated", times=2)
    if wakes == MEANWHILE:
        late.send(signal.SIGCONT)
        race.wait_until_began("stopped:LeaseLost")
        race.gate.unlink()
    else:
        race.gate.unlink()
        assert other.wait() == 0, other.said()
        late.send(signal.SIGCONT)
    all_right(race, shared_prefix, [late, other])
    assert ("stopped:LeaseLost", late.pid) in race.began()
    assert ("work/gated", late.pid) in waited(other)
    assert TAKEN in late.said()
    assert "work/gated  another driver made it meanwhile" in late.said()
    (gated,) = [record for record in records(shared_prefix) if record.label == "gated"]
    assert gated.token == 2
    assert Store(shared_prefix).output(gated).read_text("late.txt") == str(other.pid)


@pytest.mark.parametrize("shared_prefix", ["file", "gs"], indirect=True)
def test_a_paused_holder_that_ends_its_work_as_it_wakes_up_cannot_commit(
    drivers: Drivers, tmp_path: Path, shared_prefix: str
) -> None:
    race = Race(tmp_path, layers=1, wide=2, gated=True)
    late = drivers.start(race.file, shared_prefix, where=HASTY)
    race.wait_until_began("gated")
    late.pause()
    other = drivers.start(race.file, shared_prefix, where=HASTY)
    race.wait_until_began("gated", times=2)
    race.close_for(other.pid)
    race.gate.unlink()
    late.send(signal.SIGCONT)
    late.until_said("taken over from this driver")
    assert records(shared_prefix) == []
    (race.folder / f"gate-{other.pid}").unlink()
    all_right(race, shared_prefix, [late, other])
    (gated,) = [record for record in records(shared_prefix) if record.label == "gated"]
    assert gated.token == 2


HOUR = 3600.0


@pytest.mark.parametrize(
    ("shared_prefix", "ahead"),
    [("file", HOUR), ("file", -HOUR), ("gs", HOUR), ("s3", -HOUR)],
    indirect=["shared_prefix"],
)
def test_clocks_an_hour_apart_steal_no_claim_and_keep_none_alive(
    drivers: Drivers, tmp_path: Path, shared_prefix: str, ahead: float
) -> None:
    """Nobody takes over from a living holder, however late it seems. After its death, one does within the expiry."""
    race = Race(tmp_path, layers=1, wide=2, gated=True)

    def elsewhere(host: str, clock: float) -> Driver:
        where = Where(host=host, clock=clock, hasty=True)
        return drivers.start(race.file, shared_prefix, where=where)

    holder = elsewhere("first", ahead)
    race.wait_until_began("gated")
    others = [elsewhere("second", -ahead), elsewhere("third", 0.0)]
    for other in others:
        other.until_said(f"(process {holder.pid})")
    hold = claim_of(shared_prefix)
    limit = time.monotonic() + 60
    while claim_of(shared_prefix).beat < hold.beat + 12:  # one and a half expiries
        assert time.monotonic() < limit
        time.sleep(0.05)
    now = claim_of(shared_prefix)
    assert (now.number, now.id) == (hold.number, hold.id)
    assert race.began() == [("gated", holder.pid)]
    os.kill(holder.pid, signal.SIGKILL)
    killed = time.monotonic()
    race.wait_until_began("gated", times=2)
    assert EXPIRY / 2 < time.monotonic() - killed < EXPIRY + 10
    race.gate.unlink()
    all_right(race, shared_prefix, others, holder.pid)
    assert Counter(label for label, _ in race.began())["gated"] == 2


def claim_of(prefix: str) -> Claim:
    """Return the claim of the one step that a driver runs."""
    (claim,) = Inventory(Store(prefix)).claims.values()
    return claim


def lose_the_store(store: Path) -> None:
    """Make the store unable to read or write any claim."""
    (store / CLAIMS).rename(store / ".marin/away")
    (store / CLAIMS).write_text("not a folder")


def find_the_store(store: Path) -> None:
    (store / CLAIMS).unlink()
    (store / ".marin/away").rename(store / CLAIMS)


def test_a_step_whose_claim_cannot_be_renewed_for_as_long_as_it_lasts_is_stopped_and_says_so(
    drivers: Drivers, tmp_path: Path
) -> None:
    race, store = Race(tmp_path, layers=1, wide=2, gated=True), tmp_path / "store"
    driver = drivers.start(race.file, str(store), where=HASTY)
    race.wait_until_began("gated")
    lose_the_store(store)
    race.wait_until_began("stopped:LeaseLost")
    find_the_store(store)
    assert driver.wait() == 1, driver.said()
    assert f"could not renew its claim for {EXPIRY:.0f} s" in driver.said()
    assert "Not a directory" in driver.said()
    assert records(str(store)) == []
    race.gate.unlink()
    all_right(race, str(store), [drivers.start(race.file, str(store))])


def test_a_store_that_is_away_for_less_than_that_stops_nothing(drivers: Drivers, tmp_path: Path) -> None:
    race, store = Race(tmp_path, layers=1, wide=2, gated=True), tmp_path / "store"
    driver = drivers.start(race.file, str(store), where=HASTY)
    race.wait_until_began("gated")
    hold = claim_of(str(store))
    lose_the_store(store)
    time.sleep(EXPIRY / 2)  # several beats fail
    find_the_store(store)
    limit = time.monotonic() + 30
    while claim_of(str(store)).beat <= hold.beat + 2:
        assert time.monotonic() < limit, driver.said()
        time.sleep(0.02)
    race.gate.unlink()
    all_right(race, str(store), [driver])
    assert [label for label, _ in race.began()].count("gated") == 1


def test_a_step_whose_claim_an_object_store_does_not_take_any_more_is_stopped_and_says_so(
    drivers: Drivers, tmp_path: Path, server: StoreServer, remote_prefix: str
) -> None:
    """The store refuses at once, because clients retry for a minute before they give up on an absent store."""
    race = Race(tmp_path, layers=1, wide=2, gated=True)
    driver = drivers.start(race.file, remote_prefix, where=HASTY)
    race.wait_until_began("gated")
    server.obey(Rule(act=Act.ANSWER, name="claims/", status=403))
    race.wait_until_began("stopped:LeaseLost")
    server.obey()
    assert driver.wait() == 1, driver.said()
    assert "could not renew its claim for" in driver.said()
    race.gate.unlink()
    all_right(race, remote_prefix, [drivers.start(race.file, remote_prefix)])
