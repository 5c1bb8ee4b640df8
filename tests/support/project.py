"""A small project in a folder of its own, run in fresh processes: an experiment file and a module that it uses."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

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
ROOT = Path(__file__).resolve().parents[2]


class Project:
    def __init__(self, folder: Path, experiment: str = EXPERIMENT) -> None:
        self.folder = folder
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
        done = subprocess.run(
            self.command(*arguments, backend=backend),
            capture_output=True,
            text=True,
            env=self.environment(),
            check=False,
        )
        said = done.stdout + done.stderr
        assert done.returncode == expect, said
        return said

    def marin(self, command: str, *arguments: str) -> str:
        """``marin COMMAND FILE ARGUMENT… --prefix STORE``"""
        call = [sys.executable, "-m", "marin", command, str(self.file), *arguments, "--prefix", str(self.store)]
        done = subprocess.run(call, capture_output=True, text=True, env=self.environment(), check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def ran(self) -> list[str]:
        """Steps that ran in the run that began last, in order; every run's events are in the store."""
        latest = max((self.store / ".marin/runs").glob("*.jsonl"), key=lambda path: path.name)  # begins with the time
        events = [json.loads(line) for line in latest.read_text().splitlines()]
        return [event["step"] for event in events if event["event"] == "ended" and event.get("status") == "ran"]

    def edit(self, old: str, new: str) -> None:
        source = self.words.read_text()
        assert old in source
        self.words.write_text(source.replace(old, new))


def wait_for(path: Path, seconds: float = 60.0) -> None:
    limit = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < limit, f"{path} did not appear"
        time.sleep(0.02)


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
