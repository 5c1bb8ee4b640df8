"""Test the messages of failures on Ray, and the display of steps that wait for a worker."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.clusters import RayCluster, ray_cluster
from tests.support.project import ROOT, Project, gated, wait_for
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.slow


EXPERIMENT = '''
"""Whose error is it?"""
from lib.filter import keep
from marin import Context, ExecutorStep
from marin.steps.experiment import Experiment
from marin.cli.experiment_main import executor_main
from marin.steps.scale import Scale
from tests.support.toy import Blob


class Filter(ExecutorStep[Blob], op="filter"):
    how: str

    def run(self, ctx: Context) -> Blob:
        try:
            ctx.map(keep, [f"{self.how} {number}" for number in range(4)])
        except ValueError:
            ctx.log("it can be caught as what it is")
            raise
        ctx.out.write_text("text.txt", "x")
        return Blob(bytes=1)


def build(scale: Scale) -> Experiment:
    steps = [Filter(how=how, label=how) for how in ("value", "lost", "killed")]
    return Experiment(issue=1, question=__doc__, results={step.label: step for step in steps})


if __name__ == "__main__":
    executor_main(build)
'''
FILTER = '''
import os
import signal


class Lost(Exception):
    """Cannot be unpickled."""

    def __init__(self, shard: str, *, why: str) -> None:
        super().__init__(f"{shard} is lost: {why}")


def keep(item: str) -> str:
    how, number = item.split()
    if number == "3":
        if how == "value":
            raise ValueError(f"shard {number} has no text")  # value
        if how == "lost":
            raise Lost("shard 3", why="fire")  # lost
        os.kill(os.getpid(), signal.SIGKILL)
    return item
'''


def run(project: Project, environment: Mapping[str, str], *arguments: str, expect: int) -> str:
    done = subprocess.run(
        [sys.executable, str(project.file), "--prefix", str(project.store), *arguments],
        env={**environment, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.returncode == expect, done.stdout
    return done.stdout


def test_an_error_of_a_map_worker_is_told_as_what_it_is(cluster: RayCluster, tmp_path: Path) -> None:
    project = Project(tmp_path / "project", EXPERIMENT)
    source = project.folder / "lib/filter.py"
    source.write_text(FILTER)
    lines = {name: FILTER.splitlines().index(line) + 1 for line in FILTER.splitlines() for name in line.split("# ")[1:]}
    said = run(project, cluster.environment, "--address", cluster.address, expect=1)
    value = f"ValueError: shard 3 has no text (in filter.py:{lines['value']})"
    lost = f"Lost: shard 3 is lost: fire (in filter.py:{lines['lost']})"
    assert f"failed filter/value: {value}" in said, said
    assert lost in said
    assert re.search(r"failed filter/killed: .*a worker of map\(\) died.*memory", said)
    assert "RayTaskError" not in said
    assert "\x1b" not in said
    assert "(raylet)" not in said
    (report,) = project.store.glob("filter/value-*/.marin/failure.json")
    assert json.loads(report.read_text())["error"] == value
    log = report.with_name("log.txt").read_text()
    assert "it can be caught as what it is" in log
    assert 'raise ValueError(f"shard {number} has no text")' in log  # the remote traceback
    assert "\x1b" not in log


@pytest.mark.parametrize("victim", ["raylet", "gcs_server"])
def test_a_cluster_that_dies_under_a_run_ends_it_within_seconds_with_what_was_running(
    tmp_path: Path, victim: str
) -> None:
    project, gate = gated(tmp_path)
    with ray_cluster(tmp_path / "cluster") as own:
        driver = subprocess.Popen(
            [sys.executable, str(project.file), "--prefix", str(project.store), "--address", own.address],
            env={**own.environment, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        wait_for(Path(f"{gate}.started"))
        while not any(event["event"] == "started" for event in events(project)):
            time.sleep(0.05)
        own.kill(victim)
        began = time.monotonic()
        said, _ = driver.communicate(timeout=PATIENCE)
        assert time.monotonic() - began < 90  # Ray itself would wait more than a minute, or for ever
    assert driver.returncode == 1, said
    assert "ClusterLost: the Ray cluster at" in said
    assert own.address in said
    assert "give the same command" in said
    assert "stopped say/say: stopped: ClusterLost" in said, said
    assert "1 stopped, 1 not begun in" in said
    assert "Traceback" not in said
    assert ".cc:" not in said
    gate.touch()
    project.run()
    assert project.ran() == ["say/say", "repeat/repeat"]


BUSY = '''
"""Who waits?"""
import pathlib
import time

from marin import Context, ExecutorStep, Resources, execution
from marin.steps.experiment import Experiment
from marin.cli.experiment_main import executor_main
from marin.steps.scale import Scale
from tests.support.toy import Blob

GATE = pathlib.Path({gate!r})


class Busy(ExecutorStep[Blob], op="busy"):
    number: int
    resources: Resources = execution(default=Resources(cpus=2))

    def run(self, ctx: Context) -> Blob:
        GATE.with_name("began").open("a").write("x")
        while not GATE.exists():
            time.sleep(0.02)
        ctx.out.write_text("text.txt", "x")
        return Blob(bytes=1)


def build(scale: Scale) -> Experiment:
    steps = [Busy(number=number, label=str(number)) for number in range(2)]
    return Experiment(issue=1, question=__doc__, results={{step.label: step for step in steps}})


if __name__ == "__main__":
    executor_main(build)
'''


def test_a_step_without_a_worker_is_shown_as_waiting_for_what_it_asks(cluster: RayCluster, tmp_path: Path) -> None:
    """The live view, the events and ``marin status`` show the step as waiting."""
    gate = tmp_path / "gate"
    project = Project(tmp_path / "project", BUSY.format(gate=str(gate)))
    terminal, end = pty.openpty()
    driver = subprocess.Popen(
        [sys.executable, str(project.file), "--prefix", str(project.store), "--address", cluster.address],
        env={**cluster.environment, "PYTHONPATH": str(ROOT), "TERM": "xterm", "COLUMNS": "120"},
        stdout=end,
        stderr=end,
        stdin=end,
    )
    os.close(end)
    shown = ""
    while not re.search(r"▸\S* busy/\d.*… busy/\d: waiting for 2 CPU", shown, re.S):
        shown += os.read(terminal, 1 << 16).decode(errors="replace")
    began = gate.with_name("began")
    while not began.exists() or not began.read_text():  # the live view draws again and again
        os.read(terminal, 1 << 16)
    assert began.read_text() == "x"
    states = {row["step"]: row for row in status(project)}
    assert sorted(row["status"] for row in states.values()) == ["queued", "running"]
    (queued,) = [name for name, row in states.items() if row["status"] == "queued"]
    (running,) = [name for name, row in states.items() if row["status"] == "running"]
    assert "waiting for 2 CPU" in states[queued]["detail"]
    assert [event["event"] for event in events(project) if event.get("step") == queued] == ["queued"]
    assert [event["event"] for event in events(project) if event.get("step") == running] == ["queued", "started"]
    gate.touch()
    while driver.poll() is None:
        try:
            os.read(terminal, 1 << 16)
        except OSError:
            break
    assert driver.wait(timeout=PATIENCE) == 0
    assert [event["event"] for event in events(project) if event.get("step") == queued] == [
        "queued",
        "started",
        "ended",
    ]
    assert {row["status"] for row in status(project)} == {"committed"}


def status(project: Project) -> list[dict[str, str]]:
    marin = str(Path(sys.executable).with_name("marin"))
    said = subprocess.run(
        [marin, "status", str(project.file), "--prefix", str(project.store), "--json"],
        env=project.environment(),
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return json.loads(said)


def events(project: Project) -> list[dict[str, Any]]:
    (log,) = (project.store / ".marin/runs").glob("*.jsonl")
    return [json.loads(line) for line in log.read_text().splitlines()]
