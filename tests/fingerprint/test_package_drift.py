"""Another version of an installed package gives a warning with both versions, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.forks import Ended, Forks

EXPERIMENT = '''
"""Does the greeter greet?"""
import greeter
from marin import Context, ExecutorStep
from marin.steps.experiment import Experiment
from marin.steps.scale import Scale
from tests.support.toy import Blob


class Greet(ExecutorStep[Blob], op="greet"):
    whom: str

    def run(self, ctx: Context) -> Blob:
        ctx.out.write_text("text.txt", greeter.greet(self.whom))
        return Blob(bytes=1)


def build(scale: Scale) -> Experiment:
    return Experiment(issue=1, question=__doc__, results={n: Greet(whom=n, label=n) for n in ("a", "b", "c", "d")})
'''


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    with Forks() as server:
        yield server


class Machine:
    """An experiment, and the packages that are installed."""

    def __init__(self, forks: Forks, folder: Path) -> None:
        self.forks, self.folder, self.site = forks, folder / "lab", folder / "site-packages"
        self.folder.mkdir()
        (self.folder / "exp.py").write_text(EXPERIMENT)

    def install(self, version: str, ending: str) -> None:
        for old in self.site.glob("greeter-*"):
            (old / "METADATA").unlink()
            old.rmdir()
        metadata = self.site / f"greeter-{version}.dist-info"
        metadata.mkdir(parents=True)
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: greeter\nVersion: {version}\n")
        (self.site / "greeter.py").write_text(f"def greet(whom):\n    return 'hello ' + whom + {ending!r}\n")

    def __call__(self, command: str, *arguments: str) -> Ended:
        how = ("--backend", "inline") if command == "run" else ()
        rest = (*arguments, *how, "--prefix", "store")
        return self.forks.marin(self.folder, command, "exp.py", *rest, path=(str(self.site),))


def test_a_raised_version_warns_with_both_and_nothing_stops_or_runs(forks: Forks, tmp_path: Path) -> None:
    machine = Machine(forks, tmp_path)
    machine.install("1.2.0", "!")
    assert "4 run" in machine("run").said
    assert "greeter" not in machine("plan").said
    machine.install("2.0.0", "?")
    note = "package greeter: 1.2.0 → 2.0.0"

    planned = machine("plan")
    assert planned.code == 0
    assert [line for line in planned.said.splitlines() if "greeter" in line] == [
        f"warning: {note} since 4 of these outputs were made; nothing stops or runs"
    ]
    assert machine("plan", "--every-step").said.count(note) == 5  # at each step, and in all
    steps = json.loads(machine("plan", "--json").said)["steps"]
    assert [(step["action"], step["drift"], step["notes"]) for step in steps] == [("cached", [], [note])] * 4

    ran = machine("run")
    assert (ran.code, note in ran.said, "4 cached" in ran.said) == (0, True, True), ran.said
    explained = machine("plan", "greet/a")
    assert note in explained.said
    [told] = json.loads(machine("plan", "greet/a", "--json").said)
    assert (told["notes"], told["packages"]["greeter"], told["diffs"]) == ([note], "2.0.0", {})

    assert machine("run", "--rebuild", "greet/a").code == 0
    said = machine("plan").said
    assert f"{note} since 3 of these outputs" in said
