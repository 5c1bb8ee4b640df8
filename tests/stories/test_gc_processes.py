"""Test experiments and gc that run at once, in their own processes, on one store."""

import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from marin.store.store import Store
from tests.support.aging import age
from tests.support.project import ROOT, gated, wait_for
from tests.support.visible import visible

RUNS = 12

RUN = """
import sys, time
from pathlib import Path
from marin import after_use, unless_read
from marin.errors import StalePlan
from tests.support.toy import Join, Write, run

prefix, sweeping, name, runs = sys.argv[1], Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
source = Write(text="a", label="source", lifetime=after_use(days=1))
read = Write(text="b", label="read", lifetime=unless_read(days=1))
middle = Join(parts=(source, read), label="middle", lifetime=after_use(days=1))
for number in range(runs):
    end = Join(parts=(middle, source), separator=f"{name}{number}", label=f"end-{name}{number}")
    while True:
        try:
            done = run(prefix, end=end)
            break
        except StalePlan:
            print("planned again")
    bad = done.having("failed", "skipped")
    assert not bad, bad
    if number % 2:
        sweeps = len(sweeping.read_text())
        while len(sweeping.read_text()) < sweeps + 2:
            time.sleep(0.01)
"""

GC = """
import sys, time
from pathlib import Path
from marin.upkeep.gc.select import GcOptions
from marin.store.store import Store
from marin.upkeep.gc.sweep import sweep

store, sweeping, stop, gone = Store(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), 0
while not stop.exists():
    swept = sweep(store, GcOptions(), clock=lambda: time.time() + 10 * 86400)
    gone += len([each for each in swept.gone if each.records])
    sweeping.write_text(sweeping.read_text() + ".")
print(gone)
"""


@contextmanager
def process(code: str, *arguments: str) -> Generator[subprocess.Popen[str]]:
    started = subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    try:
        yield started
    finally:
        started.kill()
        started.communicate()


def ended(of: subprocess.Popen[str]) -> str:
    said, wrong = of.communicate(timeout=120)
    assert of.returncode == 0, said + wrong
    return said


def test_experiments_and_gc_at_once(tmp_path: Path) -> None:
    """Every file is old at once for this gc, so it deletes everything that no run needs, again and again."""
    store, sweeping, stop = Store(str(tmp_path / "store")), tmp_path / "sweeping", tmp_path / "stop"
    sweeping.touch()
    with (
        process(GC, store.prefix, str(sweeping), str(stop)) as collecting,
        process(RUN, store.prefix, str(sweeping), "a", str(RUNS)) as one,
        process(RUN, store.prefix, str(sweeping), "b", str(RUNS)) as two,
    ):
        ended(one)
        ended(two)
        stop.touch()
        assert int(ended(collecting)) > 2, "gc was never in time to take anything away"
    names = {record.name for record in visible(store).values()}
    assert names >= {f"toy-join/end-{name}{number}" for name in "ab" for number in range(RUNS)}


def test_what_a_running_experiment_makes_and_reads_stays(tmp_path: Path) -> None:
    project, gate = gated(tmp_path)
    running = subprocess.Popen(
        project.command(), env=project.environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        wait_for(gate.with_name("gate.started"))
        for folder in project.store.iterdir():  # all but the files that show that it runs
            if folder.name != ".marin":
                age(folder, 60)
        gc = [sys.executable, "-m", "marin", "gc", "--prefix", str(project.store), "--older-than", "0", "--delete"]
        done = subprocess.run(gc, capture_output=True, text=True, env=project.environment(), check=True)
        assert "nothing to free" in done.stdout
        gate.touch()
        said, _ = running.communicate(timeout=60)
    finally:
        running.kill()
        running.communicate()
    assert running.returncode == 0, said
    assert {record.name for record in visible(Store(str(project.store))).values()} == {"say/say", "repeat/repeat"}
