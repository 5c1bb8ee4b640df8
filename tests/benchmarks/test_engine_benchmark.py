"""Test that the benchmark is honest: right answers, every step once, and no tool that only looks quick."""

import itertools
import json
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from benchmarks.engine.cell import samples
from benchmarks.engine.peers import dag
from benchmarks.engine.tools import TOOLS, Answer, Phase, Tool

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(sys.executable).parent


def a_tool(cold: str, cached: str = "pass") -> Tool:
    """A tool that is one line of Python."""
    return Tool(
        name="toy",
        cold=("{bin}/python", "-c", f"import dag; {cold}"),
        cached=("{bin}/python", "-c", f"import dag; {cached}"),
        answer=Answer.FILES,
    )


RIGHT = "[dag.make_file('.', node.name, node.reads) for layer in dag.layers({steps}) for node in layer]"


def problems(tool: Tool, tmp_path: Path, timeout: float = 60) -> dict[Phase, str]:
    return {held.phase: held.problem for held in samples(tool, HERE, 20, tmp_path / "cell", timeout)}


@pytest.mark.parametrize("tool", ["marin", "marin-layers"])
def test_our_engine_is_measured_cold_cached_and_planned(tool: str, tmp_path: Path) -> None:
    out = tmp_path / "results.json"
    command = [sys.executable, "benchmarks/engine/run.py", "--peers", tool, "--sizes", "30", "--repeats", "1"]
    subprocess.run([*command, "--out", str(out), "--scratch", str(tmp_path)], cwd=ROOT, check=True)
    held = json.loads(out.read_text())["samples"]
    assert [(sample["phase"], sample["ran"], sample["problem"]) for sample in held] == [
        ("cold", 30, ""),
        ("cached", 0, ""),
        ("plan", 0, ""),
    ]
    assert f"| {tool} |" in out.with_suffix(".md").read_text()


def test_a_tool_that_does_the_work_counts(tmp_path: Path) -> None:
    assert problems(a_tool(RIGHT), tmp_path) == {Phase.COLD: "", Phase.CACHED: ""}


@pytest.mark.parametrize(
    ("tool", "said"),
    [
        (a_tool("[dag.note_execution('.') for _ in range(5)]"), "ran 5 steps where 20 were right"),
        (a_tool(RIGHT + "; open('s9_00001', 'w').write('other')"), "gave a wrong answer"),
        (a_tool("raise SystemExit('broken')"), "failed: broken"),
    ],
)
def test_what_is_wrong_takes_the_place_of_a_time(tool: Tool, said: str, tmp_path: Path) -> None:
    assert problems(tool, tmp_path) == {Phase.COLD: said}


def test_a_command_that_takes_too_long_is_ended_with_what_it_started(tmp_path: Path) -> None:
    sleeper = "[sys.executable, '-c', 'import time; time.sleep(600)']"
    note = "open('pid', 'w').write(str(child.pid)); child.wait()"
    tool = a_tool(f"import subprocess, sys; child = subprocess.Popen({sleeper}, start_new_session=True); {note}")
    said = {Phase.COLD: "did not finish in 5 s (0 of 20 steps ran)"}
    assert problems(tool, tmp_path, timeout=5) == said
    assert not psutil.pid_exists(int((tmp_path / "cell" / "pid").read_text()))


def test_a_cached_run_that_runs_steps_again_does_not_count(tmp_path: Path) -> None:
    again = problems(a_tool(RIGHT, RIGHT), tmp_path)
    assert again == {Phase.COLD: "", Phase.CACHED: "ran 20 steps where 0 were right"}


def test_every_tool_is_pinned_and_its_program_is_there() -> None:
    for tool in TOOLS:
        assert all("==" in requirement for requirement in tool.requires), tool.name
        for command in (tool.prepare, tool.cold):
            programs = [part.rpartition("/")[2] for part in command if part.startswith("{peers}/")]
            assert all((Path(dag.__file__).parent / program).is_file() for program in programs), tool.name


def test_each_layer_reads_the_one_before() -> None:
    layers = list(dag.layers(100))
    assert [len(layer) for layer in layers] == [10] * 10
    for before, layer in itertools.pairwise(layers):
        names = {node.name for node in before}
        assert all(2 <= len(node.reads) <= 3 and set(node.reads) <= names for node in layer)
