"""A folder in which the commands of the documentation run as a user types them, and a store to ask."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.forks import Ended, Forks

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
MARIN = re.compile(r"(?:(?:\S*\.venv/bin/)?marin|(?:\./py|python) -m marin)(?!\w)")
PYTHON = re.compile(r"(?:\./py|python) (?=\S+\.py)")
SET = re.compile(r"([A-Z_]+)=([^\s']+) ")

PACKAGES = ("marin", "operators", "infra")  # a checkout holds these
STEPS = '''
"""A checkpoint of tokens, in no time."""
import json

from marin import Checkpoint, Context, ExecutorStep, Tokens


class Train(ExecutorStep[Checkpoint], op="train"):
    tokens: ExecutorStep[Tokens]

    def run(self, ctx: Context) -> Checkpoint:
        seen = ctx[self.tokens]
        rows = [json.dumps({"step": step, "loss": 9 / (step + 1)}) for step in range(9)]
        ctx.out.write_text("metrics.jsonl", "\\n".join(rows) + "\\n")
        ctx.out.write_bytes("weights.bin", seen.directory.read_bytes("tokens.bin")[:64])
        return Checkpoint(step=9, tokens=seen.tokens, parameters=16, architecture="toy", loss=1.0)
'''
MANTIS = '''
"""Exp 1529 in so small that a test makes it.

Question: do all commands of the documentation run?
"""
from lib.steps import Train
from marin import Experiment, Scale, executor_main
from marin.text.presets import CODE, PROSE
from operators.datasets import held_out
from operators.datasets.rehearsal.math_problems import Bundle
from operators.exact_dedup import ExactDedup
from operators.filter import Filter
from operators.tokenize import Tokenize
from operators.train_tokenizer import TrainTokenizer


def build(scale: Scale) -> Experiment:
    text = held_out.domains(Scale.REHEARSAL, ("prose",))["prose"]
    distinct = ExactDedup(documents=text, label="all_math")
    math = Filter(documents=distinct, quality=PROSE, max_removed=1.0, label="all_math")
    web = Filter(documents=text, quality=CODE, max_removed=1.0, label="nemotron_cc/medium")
    tokenizer = TrainTokenizer(documents=(math,), vocabulary=300, label="toy")


    def trained(run: str, bundle: Bundle) -> Train:
        return Train(tokens=Tokenize(documents=bundle, tokenizer=tokenizer, label=bundle.label), label=run)

    runs = {
        "bison": trained("bison", Bundle(parts=(math,), label="dolmino")),
        "mantis": trained("mantis", Bundle(parts=(web, math), label="all_math")),
    }
    return Experiment(issue=1529, question=__doc__, results=runs)


if __name__ == "__main__":
    executor_main(build)
'''
OWN = '''
"""Exp 2: is a file of our own read?"""
from pathlib import Path

from marin import Experiment, Scale, executor_main
from operators.download import FsspecFiles, ReadDocuments


def build(scale: Scale) -> Experiment:
    files = FsspecFiles(urls=(str(Path(__file__).parents[1] / "data/*.jsonl"),), label="own")
    own = ReadDocuments(files=files, text_field="text", label="own")
    return Experiment(issue=2, question=__doc__, results={"own": own})


if __name__ == "__main__":
    executor_main(build)
'''
CAPTURED = '''
"""Exp 3: how long is it?"""
from marin import Artifact, Context, Experiment, ExecutorStep, Scale, executor_main


class Said(Artifact, kind="said"):
    letters: int


def score_with(scorer):
    class Score(ExecutorStep[Said], op="score"):
        def run(self, ctx: Context) -> Said:
            return Said(letters=scorer.count("text"))
    return Score


class Counter:
    def count(self, text): return len(text)


def build(scale: Scale) -> Experiment:
    return Experiment(issue=3, question=__doc__, results={"score": score_with(Counter())(label="score")})


if __name__ == "__main__":
    executor_main(build)
'''


@dataclass
class Lab:
    """A place for commands. folder: the current folder, which ``cd`` changes. environment: added to the tests' own."""

    forks: Forks
    folder: Path
    environment: dict[str, str] = field(default_factory=dict[str, str])
    home: Path = Path()
    places: dict[str, str] = field(default_factory=dict[str, str])

    def copied(self, to: Path) -> Lab:
        shutil.copytree(self.folder, to, symlinks=True)
        return Lab(self.forks, to, dict(self.environment), self.home)

    def run(self, line: str) -> Ended:
        """Run a line as a shell would. If marin is unedited, Python runs in a process that shares its import."""
        environment = {**os.environ, "HOME": str(self.home), "COLUMNS": "200", "LOGNAME": "ada", **self.environment}
        environment["PYTHONPATH"] = f"{self.folder}:{ROOT}"
        environment["PATH"] = f"{BIN}:{environment['PATH']}"
        rest = line
        while found := SET.match(rest):
            environment[found[1]] = found[2]
            rest = rest[found.end() :]
        if rest.startswith("cd "):
            self.folder = (self.folder / rest[3:]).resolve()
            return Ended(0, "", "")
        edited = (self.folder / "marin").exists()
        plain = not re.search(r"[|>&;]", re.sub(r"'[^']*'|\"[^\"]*\"", "", rest))
        if plain and not edited and (program := MARIN.match(rest)):
            path = [str(ROOT)] if f"{ROOT}/experiments" in rest else [str(self.folder), str(ROOT)]
            words = shlex.split(rest[program.end() :])
            return self.forks.run(self.folder, "", words, path=path, environment=environment)
        if plain and not edited and (program := PYTHON.match(rest)):
            file, *words = shlex.split(rest[program.end() :])
            path = [str((self.folder / file).parent), *([] if file.startswith("/") else [str(self.folder)]), str(ROOT)]
            return self.forks.run(self.folder, str(self.folder / file), words, path=path, environment=environment)
        done = subprocess.run(
            ["bash", "-c", rest], cwd=self.folder, env=environment, capture_output=True, text=True, check=False
        )
        return Ended(done.returncode, done.stdout, done.stderr)

    def serve(self, line: str) -> Ended:
        """Start ``marin serve``, ask for the first page at the printed address, and end the server by Ctrl-C."""
        process = subprocess.Popen(
            [str(BIN / "marin"), *shlex.split(line)[1:], "--port", "0"],
            cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        assert process.stdout is not None
        said = ""
        while not (address := re.search(r"http://\S+", said)):
            line = process.stdout.readline()
            assert line, said
            said += line
        with urllib.request.urlopen(address[0]) as page:
            assert b"<h1" in page.read()
        process.send_signal(signal.SIGINT)
        said += process.communicate()[0]
        return Ended(process.returncode, said, "")


def make(forks: Forks, folder: Path) -> Lab:
    """Make a git repository with the tutorial's exp1_split.py, a small exp1529_mantis.py that ran, and other files."""
    lab = Lab(forks, folder / "lab", home=folder / "home")
    (tutorial,) = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs/tutorial.md").read_text(), re.S | re.M)
    (readme,) = re.findall(r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text(), re.S | re.M)
    files = {
        "experiments/exp1.py": readme, "experiments/exp1_split.py": tutorial, "experiments/exp1529_mantis.py": MANTIS,
        "experiments/exp2_own.py": OWN, "experiments/exp3_score.py": CAPTURED,
        "experiments/__init__.py": "", "lib/__init__.py": "", "lib/steps.py": STEPS,
        "README.md": (ROOT / "README.md").read_text(), ".gitignore": "store\n.venv\n",
        "data/a.jsonl": '{"text": "one"}\n', "data/b.jsonl": '{"text": "two"}\n', "release/data.txt": "2\n",
    }  # fmt: skip
    for name, content in files.items():
        (lab.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (lab.folder / name).write_text(content)
    lab.home.mkdir()
    (lab.folder / ".venv").symlink_to(BIN.parent)
    (lab.folder / "py").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (lab.folder / "py").chmod(0o755)
    git = "git -c user.name=ada -c user.email=ada@lab"
    setup = (
        "git init -q -b main && git config remote.origin.url https://github.com/marin-community/marin && git add -A && "
        f"{git} commit -qm first && git update-ref refs/remotes/origin/main HEAD"
    )
    for line in (setup, "marin run experiments/exp1529_mantis.py --backend inline"):
        ended = lab.run(line)
        assert ended.code == 0, ended.said
    return lab


def edit(path: Path, old: str, new: str) -> None:
    source = path.read_text()
    assert old in source, f"{path}: no {old}"
    path.write_text(source.replace(old, new))


def edit_library(lab: Lab) -> None:
    """Edit the library as the pages say: a new bound in marin.text.quality, which commands in this folder see."""
    if not (lab.folder / "marin").exists():
        for package in PACKAGES:
            shutil.copytree(ROOT / package, lab.folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    edit(
        lab.folder / "marin/text/quality.py",
        '< self.least:\n            return "too_few_words"',
        '< self.least + 10:\n            return "too_few_words"',
    )
