"""Ten drivers race on one plan, on every kind of store. Each step runs once, and every driver finishes.

The others take over from a driver killed with -9: at once on the same host, within the expiry from another host.
"""

import os
import signal
import time
from collections import Counter
from pathlib import Path

from marin.store.ends import EXPIRY as EXPIRY_OF_ALL
from tests.support.drivers import EXPIRY, Drivers, Where
from tests.support.racing import Race, all_right, records, waited

DRIVERS = 10


def race_of_ten(drivers: Drivers, race: Race, prefix: str) -> None:
    racers = [drivers.start(race.file, prefix) for _ in range(DRIVERS)]
    all_right(race, prefix, racers)
    assert Counter(label for label, _ in race.began()).most_common(1)[0][1] == 1
    assert len(race.began()) == race.steps
    assert any(waited(driver) for driver in racers)


def test_of_ten_drivers_on_a_disk_each_step_is_made_by_one(drivers: Drivers, tmp_path: Path) -> None:
    race_of_ten(drivers, Race(tmp_path, layers=5, wide=6), str(tmp_path / "store"))


def test_of_ten_drivers_on_an_object_store_each_step_is_made_by_one(
    drivers: Drivers, tmp_path: Path, remote_prefix: str
) -> None:
    race_of_ten(drivers, Race(tmp_path, layers=3, wide=3), remote_prefix)


def killed_holder(drivers: Drivers, race: Race, prefix: str, wheres: list[Where]) -> float:
    """Return the seconds until another driver began the killed driver's step. Asserts that all is right in the end."""
    racers = [drivers.start(race.file, prefix, where=where) for where in wheres]
    holder = race.wait_until_began("gated")
    alive = [driver for driver in racers if driver.pid != holder]
    for driver in alive:
        driver.until_said(f"(process {holder})")
    os.kill(holder, signal.SIGKILL)
    killed = time.monotonic()
    race.wait_until_began("gated", times=2)
    took = time.monotonic() - killed
    race.gate.unlink()
    all_right(race, prefix, alive, holder)
    assert Counter(Counter(label for label, _ in race.began()).values()) == {2: 1, 1: race.steps - 1}
    (gated,) = [record for record in records(prefix) if record.label == "gated"]
    assert gated.token == 2
    return took


def test_a_holder_killed_on_this_host_is_taken_over_at_once(
    drivers: Drivers, tmp_path: Path, shared_prefix: str
) -> None:
    race = Race(tmp_path, layers=1, wide=3, gated=True)
    assert killed_holder(drivers, race, shared_prefix, [Where()] * 4) < EXPIRY_OF_ALL / 2


def test_a_holder_killed_on_another_host_is_taken_over_within_the_expiry(
    drivers: Drivers, tmp_path: Path, shared_prefix: str
) -> None:
    race = Race(tmp_path, layers=1, wide=3, gated=True)
    took = killed_holder(drivers, race, shared_prefix, [Where(host=f"host-{each}", hasty=True) for each in range(4)])
    assert EXPIRY / 2 < took < EXPIRY + 10
