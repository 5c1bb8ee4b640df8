"""A small project in a folder of its own, run in fresh processes: an experiment file and a module that it uses."""

import atexit
import functools
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.forks import Ended, Forks
from tests.support.line_server import ROOT
from tests.support.waiting import wait_until

EXPERIMENT = '''
"""Does it run?"""
from marin import Context, ExecutorStep
from marin.steps.experiment import Experiment
from marin.cli.experiment_main import executor_main
from marin.steps.scale import Scale
from tests.support.toy import Blob
from lib.words import shout


class Say(ExecutorStep[Blob], op="say"):
    text: str

    def run(self, ctx: Context) -> Blob:
        ctx.out.write_text("text.txt", shout(self.text))
        return Blob(bytes=1)


class Repeat(ExecutorStep[Blob], op="repeat"):
    source: ExecutorStep[Blob]

    def run(self, ctx: Context) -> Blob:
        ctx.out.write_text("text.txt", ctx[self.source].directory.read_text("text.txt") * 2)
        return Blob(bytes=1)


def build(scale: Scale) -> Experiment:
    say = Say(text="hello", label="say")
    return Experiment(issue=1, question=__doc__, results={"end": Repeat(source=say, label="repeat")})


if __name__ == "__main__":
    executor_main(build)
'''
WORDS = '''
"""Words."""
MARK = "!"


def shout(text: str) -> str:
    """Loud."""
    return text.upper() + ending()


def ending(times: int = 2) -> str:
    return MARK * times


def unrelated() -> int:
    return 1
'''
MARIN = str(Path(sys.executable).with_name("marin"))


@functools.cache
def forks() -> Forks:
    """One server for all that this process tests."""
    server = Forks().__enter__()
    atexit.register(server.__exit__, None, None, None)
    return server


class Project:
    """A small project with one experiment and a store.

    The project runs commands as children of a server that has imported the engine, except those that start Ray.
    new_interpreters: it runs them in new interpreters, exactly as a person does, at several times the cost.
    """

    def __init__(self, folder: Path, experiment: str = EXPERIMENT, *, new_interpreters: bool = False) -> None:
        self.folder = folder
        self.new_interpreters = new_interpreters
        (folder / "lib").mkdir(parents=True)
        (folder / "lib/__init__.py").write_text("")
        self.words = folder / "lib/words.py"
        self.words.write_text(WORDS)
        self.file = folder / "exp1_toy.py"
        self.file.write_text(experiment)
        self.store = folder / "store"

    def command(self, *arguments: str, backend: str = "inline") -> list[str]:
        return [sys.executable, str(self.file), "--prefix", str(self.store), "--backend", backend, *arguments]

    def environment(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": f"{self.folder}:{ROOT}", "COLUMNS": "200"}

    def run(self, *arguments: str, expect: int = 0, backend: str = "inline") -> str:
        ended = self.started(self.command(*arguments, backend=backend), fork=backend == "inline")
        assert ended.code == expect, ended.said
        return ended.said

    def marin(self, command: str, *arguments: str) -> str:
        """``marin COMMAND FILE ARGUMENT… --prefix STORE``"""
        ended = self.started([MARIN, command, str(self.file), *arguments, "--prefix", str(self.store)])
        assert ended.code == 0, ended.said
        return ended.stdout

    def started(
        self,
        command: Sequence[str],
        *,
        cwd: Path | None = None,
        environment: Mapping[str, str] | None = None,
        fork: bool = True,
    ) -> Ended:
        """Run ``python FILE ARGUMENT…`` or ``…/bin/marin ARGUMENT…`` to its end. environment: added variables."""
        variables = {**self.environment(), **(environment or {})}
        if self.new_interpreters or not fork:
            done = subprocess.run(command, capture_output=True, text=True, env=variables, cwd=cwd, check=False)
            return Ended(done.returncode, done.stdout, done.stderr)
        file, arguments = ("", command[1:]) if command[0] == MARIN else (command[1], command[2:])
        path = [str(Path(file or MARIN).parent), *variables["PYTHONPATH"].split(":")]
        return forks().run(cwd or Path.cwd(), file, arguments, path=path, environment=variables)

    def ran(self) -> list[str]:
        """Steps that ran in the run that began last, in order; every run's events are in the store."""
        latest = max((self.store / ".marin/runs").glob("*.jsonl"), key=lambda path: path.name)  # begins with the time
        events = [json.loads(line) for line in latest.read_text().splitlines()]
        return [event["step"] for event in events if event["event"] == "ended" and event.get("status") == "ran"]

    def edit(self, old: str, new: str) -> None:
        source = self.words.read_text()
        assert old in source
        self.words.write_text(source.replace(old, new))


def wait_for(path: Path) -> None:
    wait_until(path.exists, lambda: f"{path} did not appear")


SLOW_STEP = EXPERIMENT.replace(
    '        ctx.out.write_text("text.txt", shout(self.text))\n',
    "        import pathlib, time\n"
    "        ctx.out.write_text('half.txt', 'half')\n"
    "        pathlib.Path(GATE + '.started').touch()\n"
    "        while not pathlib.Path(GATE).exists(): time.sleep(0.02)\n"
    '        ctx.out.write_text("text.txt", shout(self.text))\n',
)


def gated(folder: Path) -> tuple[Project, Path]:
    """A project whose first step waits for a file, and says by another (``….started``) that it does."""
    gate = folder / "gate"
    return Project(folder / "project", SLOW_STEP.replace("class Say", f"GATE = {str(gate)!r}\n\n\nclass Say")), gate
