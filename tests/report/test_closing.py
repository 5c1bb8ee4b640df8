"""Test the lines of a run, during the run and at its end: logs of running steps, a summary, the next command."""

from __future__ import annotations

import html
import os
import pty
import re
import subprocess
from pathlib import Path

import pytest

from marin.store.numbers import write_duration
from tests.support.project import EXPERIMENT, ROOT, Project, gated

LOUD = EXPERIMENT.replace(
    "        ctx.out.write_text(", '        ctx.log("beginning " + self.op)\n        ctx.out.write_text('
)
BROKEN = LOUD.replace("shout(self.text))", "shout(self.text))\n        raise ValueError('no more words')")


def test_logs_are_printed_while_a_step_runs_each_line_behind_its_name(tmp_path: Path) -> None:
    project, gate = gated(tmp_path)
    source = project.file.read_text()
    project.file.write_text(
        source.replace("        import pathlib", "        ctx.log('half way')\n" * 2 + "        import pathlib")
    )
    running = subprocess.Popen(
        [*project.command("--logs")], stdout=subprocess.PIPE, text=True, env=project.environment()
    )
    assert running.stdout is not None
    seen: list[str] = []
    while not (seen and seen[-1].endswith("half way\n")):
        seen.append(running.stdout.readline())
        assert seen[-1], seen
    assert re.fullmatch(r"say/say │ \d\d:\d\d:\d\d half way\n", seen[-1])
    gate.touch()
    lines = running.stdout.read().splitlines()  # not communicate(): it misses the lines that readline() read ahead
    running.stdout.close()
    assert running.wait() == 0
    assert sum("say/say │" in line for line in lines) == 1  # the second of the two; none twice
    assert lines.index("say/say │ " + seen[-1].rpartition("│ ")[2].strip()) < lines.index("• end: bytes 1")


def test_without_the_option_no_log_is_printed(tmp_path: Path) -> None:
    project = Project(tmp_path / "project", LOUD)
    assert "beginning" not in project.run()
    assert "repeat/repeat │ " not in project.run("--logs")  # nothing runs


def test_a_failed_step_s_traceback_is_in_the_stream_and_its_log_is_named_at_the_end(tmp_path: Path) -> None:
    project = Project(tmp_path / "project", BROKEN)
    said = project.run("--logs", expect=1).splitlines()
    assert "say/say │ ValueError: no more words" in said
    log = next(line.split("log: ")[1] for line in said if line.strip().startswith("log: "))
    assert "no more words" in Path(log).read_text()
    closing = said[said.index(f"       log: {log}") + 1 :]
    assert closing[0] == "not run: 1 step(s) that need a failed step, or that only broken results need: repeat/repeat"
    assert re.fullmatch(r"1 failed, 1 not run in \d.* s", closing[1])
    assert closing[2].startswith("page: ")
    assert re.fullmatch(rf"next: \S*marin logs say/say --prefix {project.store}", closing[3])


def test_the_next_command_can_be_typed_as_it_is(tmp_path: Path) -> None:
    project = Project(tmp_path / "pro ject", LOUD.replace('label="repeat"', 'label="it\'s here"'))
    said = project.run()
    [command] = re.findall("^next: (.*)$", said, re.MULTILINE)
    path = f"{ROOT}/.venv/bin:{os.environ['PATH']}"
    done = subprocess.run(command, shell=True, env={**project.environment(), "PATH": path}, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert b"HELLO!!HELLO!!" in done.stdout
    [page] = (project.store / ".marin/pages").glob("*.html")
    [shown] = re.findall("<p>(.*): shows what the full run would do and cost</p>", page.read_text())
    done = subprocess.run(html.unescape(shown), shell=True, env=project.environment(), capture_output=True)
    assert b"dry run: nothing was started" in done.stdout, done.stderr


def test_every_kind_of_ending_is_counted(tmp_path: Path) -> None:
    project = Project(tmp_path / "project")
    assert re.search(r"^2 ran in \d.*s$", project.run(), re.MULTILINE)
    assert re.search(r"^2 cached in \d.* s$", project.run(), re.MULTILINE)
    project.file.write_text(project.file.read_text().replace('op="say"', 'op="say", version=2'))
    assert re.search(r"^1 ran, 1 aliased in \d.*s$", project.run(), re.MULTILINE)


def test_a_result_is_listed_with_its_numbers_if_it_has_any(tmp_path: Path) -> None:
    project = Project(tmp_path / "project")
    assert "• end: bytes 1" in project.run().splitlines()
    project.file.write_text(
        EXPERIMENT.replace("from marin import ", "from marin import Artifact, ")
        .replace("class Say(", 'class Mute(Artifact, kind="mute"):\n    """No numbers."""\n\n\nclass Say(')
        .replace("class Repeat(ExecutorStep[Blob]", "class Repeat(ExecutorStep[Mute]")
        .replace(
            'read_text("text.txt") * 2)\n        return Blob(bytes=1)',
            'read_text("text.txt") * 2)\n        return Mute()',
        )
    )
    assert "• end" in project.run("--on-drift", "rebuild", "--because", "no numbers").splitlines()


def test_a_terminal_shows_logs_above_the_live_lines(tmp_path: Path) -> None:
    project = Project(tmp_path / "project", LOUD)
    ours, theirs = pty.openpty()
    environment = {**project.environment(), "TERM": "xterm", "COLUMNS": "100"}
    running = subprocess.Popen(project.command("--logs"), stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    said = b""
    while piece := _read(ours):
        said += piece
    os.close(ours)
    assert running.wait(60) == 0
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", said.decode())
    for op in ("say", "repeat"):
        assert re.search(rf"{op}/{op} │ \d\d:\d\d:\d\d beginning {op}\r?\n", shown), shown
    assert "2 ran in" in shown


def _read(descriptor: int) -> bytes:
    """Empty at the end: Linux says so by an error."""
    try:
        return os.read(descriptor, 1 << 16)
    except OSError:
        return b""


@pytest.mark.slow
def test_what_workers_print_is_streamed(tmp_path: Path) -> None:
    """On Ray: what goes to stdout there goes to the log."""
    source = LOUD.replace('ctx.log("beginning " + self.op)', 'print("printed by", self.op)')
    project = Project(tmp_path / "project", source)
    said = project.run("--logs", backend="ray")
    assert {"say/say │ printed by say", "repeat/repeat │ printed by repeat"} <= set(said.splitlines())


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0, "0.00 s"), (0.42, "0.42 s"), (3.14, "3.1 s"), (59.4, "59 s"), (59.6, "1 min 0 s"), (185, "3 min 5 s"),
     (3600, "1 h 0 min"), (8040, "2 h 14 min"), (360_000, "100 h 0 min")],
)  # fmt: skip
def test_durations(seconds: float, said: str) -> None:
    assert write_duration(seconds) == said
