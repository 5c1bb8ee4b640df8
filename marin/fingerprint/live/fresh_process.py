"""What modules hold in a new Python process that has imported them and done nothing else."""

from __future__ import annotations

import importlib
import json
import os
import select
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

_PROGRAM = (
    "import json, sys\n"
    "asked = json.load(sys.stdin)\n"
    "sys.path[:], sys.argv[:] = asked['path'], asked['argv']\n"
    "from marin.fingerprint.live.fresh_process import answer\n"
    "answer(asked['questions'], asked['seconds'])\n"
)

PATIENCE = 120.0  # seconds that the imports of one question may take: the heaviest libraries take 30 from a cold disk
_ANSWERED, _FAILED, _IMPORTING = "answered", "failed", "importing"

type Descriptions = Mapping[
    str, Mapping[str, Mapping[str, str]]
]  # of modules' names: see marin.fingerprint.live.module_state


@dataclass(frozen=True, kw_only=True)
class Question:
    """imports: modules, in order. names: what is asked about, by module; those are imported last."""

    imports: Sequence[str]
    names: Mapping[str, Sequence[str]]


@dataclass(frozen=True, kw_only=True)
class NotImported:
    """A module that a new process could not import, and why."""

    module: str
    error: str


def ask(questions: Sequence[Question], hash_seed: int, seconds: float = PATIENCE) -> list[Descriptions | NotImported]:
    """One answer each, none of them knowing what the others import. seconds: that each question may take."""
    asked = {
        "path": sys.path,
        "argv": sys.argv,
        "questions": [asdict(question) for question in questions],
        "seconds": seconds,
    }
    process = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # what imports have to say was said when this process imported the same
        env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
    )
    with process:
        try:
            told, _ = process.communicate(json.dumps(asked).encode(), timeout=seconds * (len(questions) + 1))
        except subprocess.TimeoutExpired:
            process.kill()
            told, _ = process.communicate()
    answers: list[Descriptions | NotImported] = []
    for line in told.decode().splitlines():
        kind, said = json.loads(line)
        answers.append(said if kind == _ANSWERED else NotImported(**said))
    ended = NotImported(
        module="marin.fingerprint.live.fresh_process", error=f"the process ended with {process.returncode}"
    )
    return [*answers, *[ended] * (len(questions) - len(answers))]


def answer(questions: Sequence[Mapping[str, Any]], seconds: float) -> None:
    """In the new process: one line of JSON for each question, from a fork that imports for it alone."""
    from marin.fingerprint.live.module_state import described  # once, before the forks

    told = os.dup(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    for question in questions:
        here, there = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(told)
            _answer(question, there, described)
            os._exit(0)
        os.close(there)
        _say(told, *_heard(child, here, seconds))


def _heard(child: int, here: int, seconds: float) -> tuple[str, Any]:
    """What a fork says last: its answer, or the module at which it ended or hangs."""
    deadline, rest, hangs = time.monotonic() + seconds, b"", False
    kind, said = _IMPORTING, ""
    while kind == _IMPORTING:
        hangs = not select.select([here], [], [], max(0.0, deadline - time.monotonic()))[0]
        more = b"" if hangs else os.read(here, 1 << 20)
        if not more:
            break
        *lines, rest = (rest + more).split(b"\n")
        kind, said = json.loads(lines[-1]) if lines else (kind, said)
    os.close(here)
    with suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)  # it has answered, or it hangs
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if kind != _IMPORTING:
        return kind, said
    why = f"not done within {seconds:g} s" if hangs else f"the process ended with {ended}"
    return _FAILED, {"module": said, "error": why}


def _say(told: int, kind: str, said: object) -> None:
    line = (json.dumps([kind, said]) + "\n").encode()
    while line:
        line = line[os.write(told, line) :]


def _answer(question: Mapping[str, Any], told: int, described: Callable[[object], dict[str, str]]) -> None:
    module = ""
    try:
        for module in (*question["imports"], *question["names"]):
            _say(told, _IMPORTING, module)
            importlib.import_module(module)
        found = {
            module: {
                name: described(vars(sys.modules[module])[name]) for name in names if name in vars(sys.modules[module])
            }
            for module, names in question["names"].items()
        }
        _say(told, _ANSWERED, found)
    except BaseException as error:  # whatever an import can raise, SystemExit among it
        _say(told, _FAILED, {"module": module, "error": _one_line(error)})


def _one_line(error: BaseException) -> str:
    """``OSError: no display (lib/screen.py:3)``"""
    at = traceback.extract_tb(error.__traceback__)[-1]
    said = " ".join(f"{type(error).__name__}: {error}".split()).removesuffix(":")
    return f"{said} ({os.path.relpath(at.filename)}:{at.lineno})"
