"""A driver that is told to stop releases its claims and says how it ended. A second signal stops it at once."""

import json
import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from marin.report.history import store_statuses
from marin.store.attempts import AttemptStatus
from marin.store.ends import How
from marin.store.inventory import Inventory
from marin.store.store import Store
from marin.upkeep.gc.garbage import GarbageKind
from marin.upkeep.gc.select import GcOptions
from marin.upkeep.gc.sweep import look
from tests.support.drivers import Drivers, Where
from tests.support.racing import Race, all_right
from tests.support.waiting import wait_until

TOLD = [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
ELSEWHERE = Where(host="elsewhere", patient=True)  # this driver cannot see that the first driver's process is gone


def stopped_by(number: signal.Signals) -> str:
    return "stopped by Ctrl-C" if number is signal.SIGINT else f"stopped by {number.name}"


def an_hour_later() -> float:
    return time.time() + 3600


def last_event(store: Path) -> dict[str, Any]:
    """Return the last event of the latest run."""
    runs = sorted((store / ".marin/runs").glob("*.jsonl"))
    return json.loads(runs[-1].read_text().splitlines()[-1])


@pytest.mark.parametrize(("number", "code"), TOLD, ids=[told[0].name for told in TOLD])
def test_a_driver_that_is_told_to_stop_gives_its_claim_back_and_says_so(
    drivers: Drivers, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    race, store = Race(tmp_path, layers=1, wide=2, gated=True), tmp_path / "store"
    driver = drivers.start(race.file, str(store))
    race.wait_until_began("gated")
    driver.send(number)
    assert driver.wait() == code, driver.said()
    assert "Traceback" not in driver.said()
    assert "the next run continues from them" in driver.said()
    assert len(race.began()) == 2  # it began, and it was stopped
    event = last_event(store)
    assert event["event"] == "stopped"
    assert event["error"] == stopped_by(number)
    garbage = look(Store(str(store)), GcOptions(at_once=True, kinds=frozenset({GarbageKind.UNFINISHED})), an_hour_later)
    assert [piece.why for piece in garbage.goes] == ["stopped"]
    race.gate.unlink()
    other = drivers.start(race.file, str(store), where=ELSEWHERE)
    all_right(race, str(store), [other])


def test_what_a_shell_told_a_driver_to_ignore_is_ignored(drivers: Drivers, tmp_path: Path) -> None:
    """``nohup``, and ``&`` in a script, tell a driver to ignore signals."""
    race, store = Race(tmp_path, layers=1, wide=2, gated=True), tmp_path / "store"
    driver = drivers.start(race.file, str(store), where=Where(ignores=(signal.SIGHUP, signal.SIGINT)))
    race.wait_until_began("gated")
    driver.send(signal.SIGHUP)
    driver.send(signal.SIGINT)
    race.gate.unlink()
    all_right(race, str(store), [driver])


STUBBORN = '''
"""Does it stop?"""
import os
import time

from marin import Context, ExecutorStep
from marin.steps.experiment import Experiment
from marin.cli.experiment_main import executor_main
from marin.executor.backends.inline import InlineBackend
from marin.steps.scale import Scale
from tests.support.toy import Blob


class Stubborn(ExecutorStep[Blob], op="stubborn"):
    def run(self, ctx: Context) -> Blob:
        while True:
            try:
                open({journal!r}, "a").write("went on\\n")
                while True:
                    time.sleep(0.02)
            except BaseException:
                pass


def build(scale: Scale) -> Experiment:
    return Experiment(issue=1, question=__doc__, results={{"end": Stubborn(label="s")}})


if __name__ == "__main__":
    executor_main(build, backend=InlineBackend())
'''


@pytest.mark.parametrize(("number", "code"), TOLD, ids=[told[0].name for told in TOLD])
def test_told_twice_a_driver_stops_at_once_whatever_its_step_does(
    drivers: Drivers, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    journal, file = tmp_path / "journal", tmp_path / "exp1_stubborn.py"
    file.write_text(STUBBORN.format(journal=str(journal)))
    driver = drivers.start(file, str(tmp_path / "store"))
    wait_for_lines(journal, 1)
    driver.send(number)
    driver.send(number)  # the terminal and a wrapper both pass one Ctrl-C on
    wait_for_lines(journal, 2)

    def told_again() -> bool:
        if driver.ended():
            return True
        driver.send(number)
        time.sleep(0.1)
        return False

    wait_until(told_again)
    assert driver.code == code, driver.said()
    assert len(journal.read_text().splitlines()) == 2
    assert "stopped at once" in driver.said()


def wait_for_lines(journal: Path, count: int) -> None:
    wait_until(lambda: journal.exists() and len(journal.read_text().splitlines()) >= count)


def test_a_driver_on_an_object_store_gives_its_claim_back_too(
    drivers: Drivers, tmp_path: Path, remote_prefix: str
) -> None:
    race = Race(tmp_path, layers=1, wide=2, gated=True)
    driver = drivers.start(race.file, remote_prefix)
    race.wait_until_began("gated")
    driver.send(signal.SIGTERM)
    assert driver.wait() == 143, driver.said()
    found = Inventory(Store(remote_prefix))
    assert (found.records, found.claims) == ({}, {})
    assert [end.how for end in found.ends.values()] == [How.RELEASED]


def test_a_step_that_was_stopped_with_its_run_has_not_failed(drivers: Drivers, tmp_path: Path) -> None:
    """The end of the run, ``marin status``, ``logs``, the plan and the page all call the step stopped."""
    race, store = Race(tmp_path, layers=1, wide=2, gated=True), tmp_path / "store"
    driver = drivers.start(race.file, str(store))
    race.wait_until_began("gated")
    driver.send(signal.SIGINT)
    assert driver.wait() == 130, driver.said()
    said = driver.said()
    assert "stopped work/gated: stopped by Ctrl-C" in said
    assert "1 stopped, 2 not begun in" in said
    assert "failed" not in said
    assert "KeyboardInterrupt" not in said
    (report,) = store.glob("work/gated-*/.marin/failure.json")
    assert json.loads(report.read_text())["error"] == "stopped by Ctrl-C"
    assert "Traceback" not in report.with_name("log.txt").read_text()
    (status,) = store_statuses(Store(str(store)))
    assert (status.status, status.step) == (AttemptStatus.STOPPED, "work/gated")
    assert "stopped by Ctrl-C" in status.detail
    page = next((store / ".marin/pages").glob("*.html")).read_text()
    assert "stopped by Ctrl-C" in page
    assert "failed" not in re.sub(r"<style>.*?</style>", "", page, flags=re.S).split("</head>")[1].split("<script")[0]
    again = drivers.start(race.file, str(store), "--dry-run")
    assert again.wait() == 0
    assert "last time: stopped by Ctrl-C" in again.said()
    assert "failed last time" not in again.said()
