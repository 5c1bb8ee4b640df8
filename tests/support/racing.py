"""A plan that many drivers run at once, and the facts that must hold at the end."""

from __future__ import annotations

import re
from pathlib import Path

from marin.store.record import Record
from marin.store.store import Store
from tests.support.drivers import Driver
from tests.support.visible import visible
from tests.support.waiting import wait_until

EXPERIMENT = '''
"""Who is first?"""
import os
import time

from marin import Context, ExecutorStep
from marin.steps.experiment import Experiment
from marin.cli.experiment_main import executor_main
from marin.executor.backends.inline import InlineBackend
from marin.steps.scale import Scale
from tests.support.toy import Blob

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
        if self.label != "gated":
            note(f"{{self.label}} {{os.getpid()}}")
        read = [ctx[part].directory.read_text("text.txt") for part in self.parts]
        ctx.out.write_text("half.txt", str(len(read)))
        if self.label == "gated":
            self.wait(ctx)
        if self.number % 3 == 0:
            time.sleep(0.1)
        ctx.out.write_text("text.txt", f"{{self.number}}")
        return Blob(bytes=1)

    def wait(self, ctx: Context) -> None:
        """As long as the gate is there, or one for this process alone; writes all the time, and tells how it ended."""
        try:
            note(f"{{self.label}} {{os.getpid()}}")  # a signal that comes from now on is told
            ctx.out.write_text("late.txt", str(os.getpid()))
            while os.path.exists(FOLDER + "/gate") or os.path.exists(f"{{FOLDER}}/gate-{{os.getpid()}}"):
                ctx.out.write_text("late.txt", str(os.getpid()))
                ctx.progress(0, 1, "gates")  # raises LeaseLost if another driver took over
                time.sleep(0.02)
        except BaseException as error:
            note(f"stopped:{{type(error).__name__}} {{os.getpid()}}")
            raise


def build(scale: Scale) -> Experiment:
    layers = [[Work(number=0, parts=(), label="gated" if {gated} else "first")]]
    for layer in range(LAYERS):
        above = tuple(layers[-1])
        first = 1 + layer * WIDE
        layers.append([Work(number=first + at, parts=above, label=f"{{layer}}-{{at}}") for at in range(WIDE)])
    return Experiment(issue=1, question=__doc__, results={{step.label: step for step in layers[-1]}})


if __name__ == "__main__":
    executor_main(build, backend=InlineBackend())
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
        """(label, process) of every run() that began; (stopped:<error>, process) where one was stopped at the gate."""
        lines = self.journal.read_text().split("\n")[:-1] if self.journal.exists() else []
        return [(label, int(pid)) for label, pid in (line.split() for line in lines)]

    def close_for(self, pid: int) -> None:
        """Keep this process waiting, even after the gate has opened for the others."""
        (self.folder / f"gate-{pid}").touch()

    def wait_until_began(self, label: str, times: int = 1) -> int:
        """The process that began it last."""

        def pids() -> list[int]:
            return [pid for name, pid in self.began() if name == label]

        def said() -> str:
            return "".join(out.read_text() for out in self.folder.glob("said-*.txt"))

        wait_until(lambda: len(pids()) >= times, said)
        return pids()[-1]


def records(prefix: str) -> list[Record]:
    """Return the committed records; assert that every byte matches its record."""
    return list(visible(Store(prefix)).values())


TAKEN = "taken over from this driver, which stood still or lost the store"
WAITING = re.compile(
    rf"waiting (\S+): (?:{TAKEN}; )?(?:held|taken over) by \S+@\S+ \(process (\d+)\) (?:since|on) .+; log: (\S+)"
)


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
