"""A process that stands still writes where, and is killed; one that was allowed to is not."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from marin.training import hanging
from marin.training.hanging import FACTOR, FEWEST, LOOK_SECONDS, STACKS_SIGNAL, HangWatch

pytestmark = pytest.mark.slow

PROCESS = f"""
import faulthandler, time
faulthandler.register({int(STACKS_SIGNAL)}, all_threads=True)
def stands_still():
    print("ready", flush=True)
    time.sleep(600)
stands_still()
"""


def started(log: Path) -> subprocess.Popen[bytes]:
    with log.open("wb") as errors:
        process = subprocess.Popen([sys.executable, "-c", PROCESS], stdout=subprocess.PIPE, stderr=errors)
    assert process.stdout is not None
    with process.stdout as said:
        assert said.readline() == b"ready\n"
    return process


def test_its_stacks_are_kept_and_it_is_killed(tmp_path: Path) -> None:
    process, watch = started(tmp_path / "log"), HangWatch(0.001, last=100)
    with watch.of(process):
        for done in range(1, FEWEST + 2):
            watch.step(done)
        assert process.wait(60) == -signal.SIGKILL
    assert f"s after step {FEWEST + 1}, where one takes" in watch.found
    assert "its stacks are in its log; its process is" in watch.found
    assert "in stands_still" in (tmp_path / "log").read_text()


@pytest.mark.parametrize(("done", "after"), [(0, "since it was started"), (2, "after step 2")])
def test_one_that_never_gets_going_is_killed_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, done: int, after: str
) -> None:
    monkeypatch.setattr(hanging, "START_MINUTES", 0.02)
    process, watch = started(tmp_path / "log"), HangWatch(0.001, last=100)
    with watch.of(process):
        for step in range(1, done + 1):
            watch.step(step)
        assert process.wait(60) == -signal.SIGKILL
    assert f" s {after}; its stacks are in its log" in watch.found


@pytest.mark.parametrize("why", ["first steps", "the end", "a pause", "nobody asked", "its steps are long"])
def test_who_may_take_that_long_lives(tmp_path: Path, why: str) -> None:
    process = started(tmp_path / "log")
    watch = HangWatch(None if why == "nobody asked" else 0.001, last=FEWEST + 1 if why == "the end" else 100)
    with watch.of(process):
        for done in range(1, FEWEST if why == "first steps" else FEWEST + 2):
            watch.step(done)
            if why == "its steps are long":
                time.sleep(8 * LOOK_SECONDS / FACTOR)
        if why == "a pause":
            watch.pause(60)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(3 * LOOK_SECONDS)
        process.kill()
    process.wait()
    assert watch.found == ""
