"""What modules hold in a new Python process that has imported them and done nothing else."""

from __future__ import annotations

import importlib
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from enum import StrEnum
from multiprocessing.connection import Connection
from multiprocessing.context import ForkProcess as Process
from typing import Any

_PROGRAM = (
    "import json, sys\n"
    "given = json.load(sys.stdin)\n"
    "sys.path[:], sys.argv[:] = given['path'], given['argv']\n"
    "from marin.fingerprint.live.fresh_process import answer\n"
    "answer(given['questions'], given['seconds'])\n"
)

PATIENCE = 120.0  # seconds that the imports of one question may take: the heaviest libraries take 30 from a cold disk

# Of modules' names: see marin.fingerprint.live.module_state.
type Descriptions = Mapping[str, Mapping[str, Mapping[str, str]]]


class _Kind(StrEnum):
    """Of a message. IMPORTING: comes before each import, and names the module."""

    IMPORTING = "importing"
    ANSWERED = "answered"
    FAILED = "failed"


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
    given = {
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
            output, _ = process.communicate(json.dumps(given).encode(), timeout=seconds * (len(questions) + 1))
        except subprocess.TimeoutExpired:
            process.kill()
            output, _ = process.communicate()
    messages = [json.loads(line) for line in output.splitlines()]
    answers = [content if kind == _Kind.ANSWERED else NotImported(**content) for kind, content in messages]
    ended = NotImported(module=__name__, error=f"the process ended with {process.returncode}")
    return [*answers, *[ended] * (len(questions) - len(answers))]


def answer(questions: Sequence[Mapping[str, Any]], seconds: float) -> None:
    """In the new process: one line of JSON for each question, from a fork that imports for it alone."""
    from marin.fingerprint.live.module_state import described  # once, before the forks

    output = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    forks = multiprocessing.get_context("fork")
    for question in questions:
        here, there = forks.Pipe(duplex=False)
        fork = forks.Process(target=_answer, args=(question, there, described, output.close))
        fork.start()
        there.close()
        deadline, module, message = time.monotonic() + seconds, "", None
        try:
            while message is None and here.poll(max(0.0, deadline - time.monotonic())):
                try:
                    kind, content = here.recv()
                except EOFError:  # it ended
                    break
                module, message = (content, None) if kind == _Kind.IMPORTING else (module, (kind, content))
            hangs = message is None and time.monotonic() >= deadline
        finally:
            _end(fork)  # it has answered, or it hangs, or Ctrl-C came
        why = f"not done within {seconds:g} s" if hangs else f"the process ended with {fork.exitcode}"
        print(json.dumps(message or (_Kind.FAILED, {"module": module, "error": why})), file=output, flush=True)


def _end(fork: Process) -> None:
    """Kills it and what its imports started."""
    fork.kill()
    if fork.pid is not None:
        with suppress(ProcessLookupError):  # it was killed before it had a group of its own
            os.killpg(fork.pid, signal.SIGKILL)
    fork.join()


def _answer(
    question: Mapping[str, Any],
    there: Connection,
    described: Callable[[object], dict[str, str]],
    let_go: Callable[[], None],
) -> None:
    os.setpgid(0, 0)  # so that what an import leaves running can be ended with it
    let_go()  # of the answers' file: what an import leaves running would hold it open
    module = ""
    try:
        for module in (*question["imports"], *question["names"]):
            there.send((_Kind.IMPORTING, module))
            importlib.import_module(module)
        found = {
            module: {
                name: described(vars(sys.modules[module])[name]) for name in names if name in vars(sys.modules[module])
            }
            for module, names in question["names"].items()
        }
        there.send((_Kind.ANSWERED, found))
    except BaseException as error:  # whatever an import can raise, SystemExit among it
        there.send((_Kind.FAILED, {"module": module, "error": _one_line(error)}))
    os._exit(0)  # at once: threads that imports have started would hold it up


def _one_line(error: BaseException) -> str:
    """``OSError: no display (lib/screen.py:3)``"""
    at = traceback.extract_tb(error.__traceback__)[-1]
    text = " ".join(f"{type(error).__name__}: {error}".split()).removesuffix(":")
    return f"{text} ({os.path.relpath(at.filename)}:{at.lineno})"
