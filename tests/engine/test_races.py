"""Ten drivers race on one plan, on every kind of store: each step is made once, and everybody gets there.

One that is killed with -9 meanwhile is taken over: at once on this host, within the expiry from another.
"""

import os
import re
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from marin.lease import BEAT_EVERY
from marin.lease import EXPIRY as EXPIRY_OF_ALL
from marin.record import Check, Record
from marin.store import Store
from tests.engine.drivers import Driver, Drivers, Where
from tests.engine.servers import StoreServer

DRIVERS = 10
EXPIRY = 2 * BEAT_EVERY

EXPERIMENT = '''
"""Who is first?"""
import os
import time

from marin import Context, ExecutorStep
from marin.experiment import Experiment
from marin.main import executor_main
from marin.scale import Scale
from tests.engine.toy import Blob

FOLDER, LAYERS, WIDE = {folder!r}, {layers}, {wide}


def note(line: str) -> None:
    """Outside of the store: who ran what."""
    journal = os.open(FOLDER + "/journal", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(journal, (line + "\\n").encode())
    os.close(journal)


class Work(ExecutorStep[Blob], op="work"):
    number: int
    parts: tuple[ExecutorStep[Blob], ...]

    def run(self, ctx: Context) -> Blob:
        note(f"{{self.label}} {{os.getpid()}}")
        read = [ctx[part].directory.read_text("text.txt") for part in self.parts]
        ctx.out.write_text("half.txt", str(len(read)))
        if self.label == "gated":
            while os.path.exists(FOLDER + "/gate"):
                time.sleep(0.02)
        if self.number % 3 == 0:
            time.sleep(0.1)
        ctx.out.write_text("text.txt", f"{{self.number}}")
        return Blob(bytes=1)


def build(scale: Scale) -> Experiment:
    layers = [[Work(number=0, parts=(), label="gated" if {gated} else "first")]]
    for layer in range(LAYERS):
        above = tuple(layers[-1])
        first = 1 + layer * WIDE
        layers.append([Work(number=first + at, parts=above, label=f"{{layer}}-{{at}}") for at in range(WIDE)])
    return Experiment(issue=1, question=__doc__, results={{step.label: step for step in layers[-1]}})


if __name__ == "__main__":
    executor_main(build)
'''


class Race:
    """One experiment that many drivers run. gated: its first step lasts as long as a file is there."""

    def __init__(self, folder: Path, layers: int, wide: int, *, gated: bool = False) -> None:
        folder.mkdir(exist_ok=True)
        self.folder, self.steps = folder, 1 + layers * wide
        self.file = folder / "exp1_race.py"
        self.file.write_text(EXPERIMENT.format(folder=str(folder), layers=layers, wide=wide, gated=gated))
        self.journal, self.gate = folder / "journal", folder / "gate"
        if gated:
            self.gate.touch()

    def began(self) -> list[tuple[str, int]]:
        """(label, process) of every run() that began."""
        lines = self.journal.read_text().split("\n")[:-1] if self.journal.exists() else []
        return [(label, int(pid)) for label, pid in (line.split() for line in lines)]

    def wait_until_began(self, label: str, times: int = 1) -> int:
        """The process that began it last."""
        limit = time.monotonic() + 60
        while len(found := [pid for name, pid in self.began() if name == label]) < times:
            assert time.monotonic() < limit, f"{label} did not begin"
            time.sleep(0.02)
        return found[-1]


@pytest.fixture(scope="module")
def drivers() -> Iterator[Drivers]:
    with Drivers() as held:
        yield held


@pytest.fixture(params=["file", "gs", "s3"])
def race_prefix(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "file":
        return str(tmp_path / "store")
    server: StoreServer = request.getfixturevalue(f"_{request.param}")
    server.obey()
    return server.new_prefix()


def records(prefix: str) -> list[Record]:
    """What is committed; asserts that every byte of it is what its record says."""
    store = Store(prefix)
    found = [record for identity in store.identities() if (record := store.record(identity)) is not None]
    for record in found:
        assert store.verify(record, Check.BYTES) == [], record.name
    return found


WAITING = re.compile(r"waiting (\S+): held by \S+@\S+ \(process (\d+)\) since [^;]+; log: (\S+)")


def waited(driver: Driver) -> list[tuple[str, int]]:
    """(step, process that it waited for); asserts that it always said for whom."""
    lines = [line for line in driver.said().splitlines() if line.startswith("waiting ")]
    found = [WAITING.fullmatch(line) for line in lines]
    assert all(found), lines
    return [(match[1], int(match[2])) for match in found if match]


def all_right(race: Race, prefix: str, racers: list[Driver], killed: int = 0) -> None:
    codes = [driver.wait() for driver in racers]
    assert codes == [0] * len(racers), "\n".join(driver.said() for driver in racers if driver.code)
    assert len(records(prefix)) == race.steps
    pids = {driver.pid for driver in racers} | {killed}
    for driver in racers:
        assert {pid for _, pid in waited(driver)} <= pids - {driver.pid}


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
    """Seconds until another one began what the killed one was at; asserts that everything is right in the end."""
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


def test_a_holder_killed_on_this_host_is_taken_over_at_once(drivers: Drivers, tmp_path: Path, race_prefix: str) -> None:
    race = Race(tmp_path, layers=1, wide=3, gated=True)
    assert killed_holder(drivers, race, race_prefix, [Where()] * 4) < EXPIRY_OF_ALL / 2


def test_a_holder_killed_on_another_host_is_taken_over_within_the_expiry(
    drivers: Drivers, tmp_path: Path, race_prefix: str
) -> None:
    race = Race(tmp_path, layers=1, wide=3, gated=True)
    took = killed_holder(drivers, race, race_prefix, [Where(host=f"host-{each}", expiry=EXPIRY) for each in range(4)])
    assert EXPIRY - BEAT_EVERY < took < EXPIRY + 10
