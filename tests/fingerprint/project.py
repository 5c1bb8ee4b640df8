"""A small project on disk, and the fingerprint of its step in a fresh process."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from marin.fingerprint.fingerprint import CodeFingerprint, compare

CHECKOUT = Path(__file__).resolve().parent.parent.parent

PRINT = """
import json, sys
sys.path[:0] = sys.argv[1:]
import op
from marin.errors import ExperimentError
from marin.fingerprint.of_step import code_fingerprint, must_match_files
step = op.build()
before = set(sys.modules)
try:
    made = code_fingerprint(step).to_json(sources=True)
    must_match_files(step)
except ExperimentError as error:
    made = {"units": {}, "packages": {}, "refused": f"{type(error).__name__}: {error}"}
made["imported"] = sorted(m for m in set(sys.modules) - before if m.split(".")[0] in ("op", "lib", "plugin"))
print(json.dumps(made))
"""

FORK = """
import os, sys
from marin.fingerprint.of_step import code_fingerprint
from tests.support.toy import Write
code_fingerprint(Write(text=""))  # reads the engine's source, for all that follow
projects = sys.argv[1:]
for project in projects:
    child = os.fork()
    if child == 0:
        os.chdir(project)
        sys.argv = ["", project]
        exec(PRINT)
        sys.stdout.flush()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, project
""".replace("PRINT", repr(PRINT))


def write(folder: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def read(project: Path, *, hash_seed: str = "0", cwd: Path | None = None, command: list[str] | None = None):
    """Return the fingerprint of ``op.build()``, computed by a new interpreter."""
    command = command or [sys.executable, "-c", PRINT, str(project), str(CHECKOUT)]
    return _fingerprint(_output(command, hash_seed, cwd or project))


def read_each(projects: Sequence[Path]) -> list[CodeFingerprint]:
    """Do the work of ``read`` for each project. The processes share only the import of the engine: 15 times faster."""
    return [
        _fingerprint(line)
        for line in _output([sys.executable, "-c", FORK, *map(str, projects)], "0", CHECKOUT).splitlines()
    ]


def _output(command: Sequence[str], hash_seed: str, cwd: Path) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": ""}
    finished = subprocess.run(command, env=environment, cwd=cwd, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def _fingerprint(line: str) -> CodeFingerprint:
    made = json.loads(line)
    assert not made.pop("imported", []), "the analysis imported project code"
    refused = made.pop("refused", "")
    return Refused({}, {}, (refused,)) if refused else CodeFingerprint.from_json(made)


class Refused(CodeFingerprint):
    """A refusal in place of a fingerprint. opaque holds the error."""


def changes(old: CodeFingerprint, new: CodeFingerprint) -> set[str]:
    """Return the changes as ``{"changed op.Step", "added lib.rules.keep"}``."""
    return {f"{change.kind} {change.name}" for change in compare(old, new)}
