"""Test the live lines of a run: on a terminal, in a pipe, for trainings, for many short steps."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import select
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from marin import Context, ExecutorStep, Scores, execution
from marin.executor.backends.inline import InlineBackend
from marin.executor.scheduler import Scheduler
from marin.report import live
from marin.report.closing import print_results
from marin.report.live import Progress
from marin.report.running import MOST_BYTES, RunningStep, sparkline
from marin.steps.resources import Work
from marin.store.layout import state_name
from marin.store.store import Store
from tests.support.project import Project
from tests.support.toy import Blob, Fail, Write, planned, run
from tests.training.test_health import rows as healthy_rows


class Waits(ExecutorStep[Blob], op="toy-live-waits"):
    number: int = 0
    gate: str = execution(default="")  # a file; it ends when that is there

    def run(self, ctx: Context) -> Blob:
        ctx.progress(3, 4, "steps", note="loss 2.500")
        while self.gate and not Path(self.gate).exists():
            time.sleep(0.01)
        ctx.out.write_text("text.txt", self.label)
        return Blob(bytes=1)


class Learns(ExecutorStep[Blob], op="toy-learns"):
    def work(self) -> Work:
        return Work(steps=9, tokens=9, flops=1.0)

    def run(self, ctx: Context) -> Blob:
        ctx.out.write_text("text.txt", "learned")
        return Blob(bytes=1)


class Scored(ExecutorStep[Scores], op="toy-scored"):
    value: float

    def run(self, ctx: Context) -> Scores:
        ctx.out.write_text("scores.json", "{}")
        return Scores(metrics={"bpb/web": self.value})


EXPERIMENT = '''
"""Does it live?"""
import json, pathlib, time
from marin import Checkpoint, Context, ExecutorStep, Experiment, Scale, executor_main
from marin.steps.resources import Work
from tests.support.toy import Blob, checkpoint

GATE = pathlib.Path(__file__).parent


def wait(name: str) -> None:
    while not (GATE / name).exists():
        time.sleep(0.02)


class Short(ExecutorStep[Blob], op="short"):
    number: int

    def run(self, ctx: Context) -> Blob:
        if self.number == 5:
            wait("short")
        ctx.out.write_text("text.txt", "x")
        return Blob(bytes=self.number)


class Learn(ExecutorStep[Checkpoint], op="learn"):
    parts: tuple[ExecutorStep[Blob], ...]

    def work(self) -> Work:
        return Work(steps=60, tokens=600, flops=1.0)

    def run(self, ctx: Context) -> Checkpoint:
        rows = [{"step": n, "loss": 5.0 - n / 20, "seconds": 0.5, "tokens_per_second": 1234.0} for n in range(60)]
        lines = [json.dumps(row) + "\\n" for row in rows]
        live = ctx.state.path / "metrics.jsonl"
        live.parent.mkdir(parents=True, exist_ok=True)
        live.write_text("".join(lines[:30]))
        ctx.progress(30, 60, "steps")
        wait("learn")
        ctx.out.write_text("metrics.jsonl", "".join(lines))
        return checkpoint(60)


def build(scale: Scale) -> Experiment:
    parts = tuple(Short(number=number, label=f"nemotron_cc/medium-{number}") for number in range(6))
    arm = Learn(parts=parts, label="an-arm-with-a-long-name-of-many-words")
    return Experiment(issue=1, question=__doc__, results={"end": arm})


if __name__ == "__main__":
    executor_main(build)
'''
CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """A project's run in a real pseudo-terminal so many columns wide."""

    def __init__(self, project: Project, columns: int, *arguments: str, backend: str = "inline", **more: str) -> None:
        ours, theirs = pty.openpty()
        environment = {
            **project.environment(),
            "TERM": "xterm-256color",
            "COLUMNS": f"{columns}",
            "LINES": "30",
            **more,
        }
        self.process = subprocess.Popen(
            project.command(*arguments, backend=backend), stdout=theirs, stderr=theirs, stdin=theirs, env=environment
        )
        os.close(theirs)
        self._reading, self.raw = ours, ""

    def until(self, pattern: str) -> str:
        """Everything that was written up to now, once this is in it."""
        while not re.search(pattern, self.shown, re.DOTALL):
            piece = self._read()
            assert piece, self.shown
        return self.shown

    def end(self) -> str:
        while self._read():
            pass
        os.close(self._reading)
        assert self.process.wait(60) == 0, self.shown
        return self.shown

    @property
    def shown(self) -> str:
        return CODES.sub("", self.raw)

    def _read(self) -> bytes:
        assert select.select([self._reading], [], [], 60)[0], f"nothing for a minute after {self.shown}"
        try:
            piece = os.read(self._reading, 1 << 16)
        except OSError:  # as Linux says that it has ended
            return b""
        self.raw += piece.decode(errors="replace")
        return piece


def watched(project: Project, columns: int, backend: str = "inline", **more: str) -> tuple[str, str]:
    """Watch a run before each gate opens; return (shown text, shown text with its terminal codes)."""
    terminal = Terminal(project, columns, backend=backend, **more)
    terminal.until(r"short \d of 6")
    terminal.until(r"▸ short/nemotron_cc/medium-5  \d+ s")  # after a while it has a line of its own
    (project.folder / "short").touch()
    terminal.until(r"30/60 steps, 15 s left\s+loss 3\.550 █+▇[^\n]*, 1\.23K tokens/s")
    (project.folder / "learn").touch()
    return terminal.end(), terminal.raw


@pytest.mark.parametrize("columns", [80, 120])
def test_trainings_are_seen_and_short_steps_counted(tmp_path: Path, columns: int) -> None:
    shown, raw = watched(Project(tmp_path / "project", EXPERIMENT), columns)
    assert re.search(r"▸ learn/an-arm-with-a-long-name-of-many-words  \d+ s, 30/60 steps, 15 s left", shown)
    assert "· short: 6" in shown
    assert "✓ [7/7] learn/an-arm-with-a-long-name-of-many-words  " in shown
    assert not re.search(r"✓[^\n]* short/", shown)
    lines = re.split(r"\r?\n|\r", shown)
    live = [line for line in lines if line.startswith(("▸", "    loss", "short ")) or re.match(r"\d/7 steps", line)]
    assert live
    assert max(map(len, live)) <= columns
    assert "\x1b[36m" in raw
    last = [line for line in lines if line.strip()][-1]
    assert re.fullmatch(r"next: \S*marin cat learn/an-arm-with-a-long-name-of-many-words --prefix \S+", last)


def test_no_color_is_heeded(tmp_path: Path) -> None:
    _, raw = watched(Project(tmp_path / "project", EXPERIMENT), 80, NO_COLOR="1")
    assert not re.search(r"\x1b\[(?:\d+;)*(?:3[0-7]|9[0-7]|38;)[\d;]*m", raw)


@pytest.mark.slow
def test_on_ray_the_same_is_seen(tmp_path: Path) -> None:
    shown, _ = watched(Project(tmp_path / "project", EXPERIMENT), 80, backend="ray")
    assert "✓ [7/7] learn/an-arm-with-a-long-name-of-many-words  " in shown


def piped(
    prefix: str, minute: float, meanwhile: Callable[[io.StringIO], None] | None = None, **results: object
) -> list[str]:
    """Return the lines of a run without a terminal. meanwhile: called in another thread with the output so far."""
    out = io.StringIO()
    plan = planned(prefix, **results)
    other = threading.Thread(target=meanwhile or (lambda _: None), args=(out,))
    other.start()
    with Progress(Console(file=out, width=1000), plan, minute=minute) as progress:
        Scheduler(plan, InlineBackend(), progress).execute()
    other.join()
    return out.getvalue().splitlines()


def test_a_pipe_gets_failures_and_nothing_of_short_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "LONG", 600.0)  # on a machine of which others take the most, too
    first = Write(text="a", label="first")
    lines = piped(
        str(tmp_path / "store"), 60.0, end=Fail(label="broken", source=first), other=Write(text="b", label="b")
    )
    assert len(lines) == 1
    assert re.fullmatch(r"✗ \[\d/3\] toy-fail/broken  ValueError: the disk of dreams is empty .*", lines[0])


def test_a_pipe_gets_a_line_a_minute_of_all_of_it(tmp_path: Path) -> None:
    gate = tmp_path / "gate"

    def open_gate(out: io.StringIO) -> None:
        limit = time.monotonic() + 60
        while "1/2 steps" not in out.getvalue() and time.monotonic() < limit:
            time.sleep(0.01)
        gate.touch()

    steps = {name: Waits(label=name, number=at, gate=str(gate) if name == "b" else "") for at, name in enumerate("ab")}
    lines = piped(str(tmp_path / "store"), 0.05, open_gate, **steps)
    assert any(re.fullmatch(r"\d\d:\d\d:\d\d 1/2 steps, \d+ s · toy-live-waits 1 of 2", line) for line in lines), lines


def test_a_step_without_metrics_says_what_the_one_before_took(tmp_path: Path) -> None:
    prefix = str(tmp_path / "store")
    again = RunningStep(Write(text="a"), Store(prefix), 35.2)
    assert re.fullmatch(r"\d+ s, the one before took 35 s", again.how_far())
    assert re.fullmatch(r"\d+ s", RunningStep(Write(text="a"), Store(prefix), None).how_far())
    assert again.measured() == ""
    step = Write(text="a", label="a")
    run(prefix, end=step)
    rebuilt = planned(prefix, rebuild=("a",), end=step)
    before = rebuilt.of(step).record
    assert before is not None
    assert Progress(Console(file=io.StringIO()), rebuilt).last_time(step) == before.provenance.seconds


def training(tmp_path: Path) -> tuple[RunningStep, Path]:
    store = Store(str(tmp_path / "store"))
    step = Learns(label="x")
    metrics = store.directory.path / state_name(step.identity) / "metrics.jsonl"
    metrics.parent.mkdir(parents=True)
    return RunningStep(step, store, None), metrics


def rows(first: int, end: int, pad: int = 0) -> str:
    return "".join(
        json.dumps({"step": n, "loss": float(n), "seconds": 1.0, "pad": "x" * pad}) + "\n" for n in range(first, end)
    )


def test_metrics_are_read_as_they_grow(tmp_path: Path) -> None:
    running, metrics = training(tmp_path)
    running.look()
    assert running.losses == []
    metrics.write_text(rows(0, 3) + '{"step": 3, "lo')
    running.look()
    assert running.losses == [0.0, 1.0, 2.0]
    with metrics.open("a") as more:
        more.write('ss": null, "seconds": 1.0}\n' + rows(4, 5))
    running.look()
    running.look()
    assert [f"{loss}" for loss in running.losses] == ["0.0", "1.0", "2.0", "nan", "4.0"]
    metrics.write_text(rows(0, 2))  # it goes on from an earlier checkpoint
    running.look()
    assert running.losses == [0.0, 1.0]


def test_what_a_training_suffers_from_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("marin.report.running.JUDGED_EVERY", 0.0)
    running, metrics = training(tmp_path)
    made = healthy_rows()
    for row in made[300:]:
        row["loss"] += 1.0
    lines = [json.dumps(row) + "\n" for row in made]
    told: list[str] = []
    for end in range(20, len(lines), 60):
        metrics.write_text("".join(lines[:end]))
        running.look()
        told += [finding.text for finding in running.ills()]
        assert not told or end > 300
    assert len(told) == 1, told
    assert "300" in told[0]


def test_of_long_metrics_only_the_end_is_read(tmp_path: Path) -> None:
    running, metrics = training(tmp_path)
    metrics.write_text(rows(0, 400, pad=5000))
    assert metrics.stat().st_size > MOST_BYTES
    running.look()
    assert 150 < len(running.losses) < 300
    assert running.losses[-1] == 399.0
    with metrics.open("a") as more:
        more.write(rows(400, 402))
    running.look()
    assert running.losses[-3:] == [399.0, 400.0, 401.0]


def test_where_metrics_are_on_the_worker_its_claim_tells(tmp_path: Path) -> None:
    """As on an object store; here a step that keeps none."""
    prefix, gate = str(tmp_path / "store"), tmp_path / "gate"
    step = Waits(label="c", gate=str(gate))
    seen: list[str] = []

    def look(_: io.StringIO) -> None:
        running = RunningStep(step, Store(prefix), None)
        limit = time.monotonic() + 60
        while not running.losses and time.monotonic() < limit:
            running.look()
            time.sleep(0.05)
        seen.append(f"{running.how_far()} | {running.measured(9)}")
        gate.touch()

    piped(prefix, 60.0, look, end=step)
    assert re.fullmatch(r"\d+ s, 3/4 steps \| loss 2\.500", seen[0])


@pytest.mark.parametrize(
    ("values", "width", "line"),
    [
        ([1.0, 2.0, 3.0], 10, "▁▅█"),
        ([4.0] * 8, 4, "▁▁▁▁"),
        ([8.0, 8.0, 1.0, 1.0], 2, "█▁"),
        ([1.0, float("nan"), 8.0], 3, "▁ █"),
        ([float("nan")] * 3, 3, ""),
        ([1.0], 5, ""),
        ([1.0, 2.0], 0, ""),
    ],
)
def test_a_line_of_blocks(values: list[float], width: int, line: str) -> None:
    assert sparkline(values, width) == line


@pytest.mark.parametrize("columns", [40, 80, 1000])
def test_every_result_s_heading_and_number_is_printed(tmp_path: Path, columns: int) -> None:
    arms = [f"mantis-with-seed-{seed}" for seed in range(9)]
    done = run(str(tmp_path / "store"), **{arm: Scored(label=arm, value=float(at)) for at, arm in enumerate(arms)})
    out = io.StringIO()
    print_results(Console(file=out, width=columns), done)
    lines = out.getvalue().splitlines()
    assert all(len(line) <= columns for line in lines)
    words = out.getvalue().split()
    assert all(words.count(arm) == 1 and words.count(f"{at:.4f}") == 1 for at, arm in enumerate(arms))
    assert len(lines) == 2 if columns == 1000 else len(lines) > 2
