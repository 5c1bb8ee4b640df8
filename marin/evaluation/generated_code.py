"""Programs that a model wrote, run one by one where they can do little: what lm-evaluation-harness scores HumanEval by.

Each has a process of its own with an empty environment, an empty folder, limits on time, memory and files and, where
the kernel lets a process give these up, no network and nothing that outlives it. It is no sandbox: such a program may
read what its user may read.
"""

# pyright: basic
from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from marin.steps.reaches import reaches

SECONDS = 3  # of a processor, as many as code_eval gives a program by the clock
PATIENCE = 60  # seconds by the clock, for a program that waits

# What a program does to its standard output, or how it exits, is no answer: the token is, after its last line.
RUNNER = """
import json, os, resource, sys
program, token, seconds = json.load(sys.stdin)
answer = os.dup(1)
nothing = os.open(os.devnull, os.O_RDWR)
for stream in (0, 1, 2):
    os.dup2(nothing, stream)
try:
    os.unshare(os.CLONE_NEWUSER | os.CLONE_NEWNET | os.CLONE_NEWPID)
except (AttributeError, OSError):
    pass
else:
    if first := os.fork():  # all processes of the new space end with its first
        os.waitpid(first, 0)
        os._exit(0)
limits = {"CPU": seconds, "AS": 4 << 30, "FSIZE": 1 << 20, "NOFILE": 64, "NPROC": 0, "CORE": 0}
for name, most in limits.items():
    try:
        resource.setrlimit(getattr(resource, "RLIMIT_" + name), (most, most))
    except (AttributeError, ValueError, OSError):
        pass
exec(program, {})
os.write(answer, token.encode())
"""


@reaches()  # the program is no text of the project, and RUNNER is above
def passes(program: str, seconds: int = SECONDS) -> bool:
    """Whether it runs to its end without an error, within so many seconds of a processor."""
    token = secrets.token_hex(16)
    with (
        tempfile.TemporaryDirectory(prefix="marin-program-") as folder,
        subprocess.Popen(
            [sys.executable, "-I", "-c", RUNNER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            env={"HOME": folder, "OPENBLAS_NUM_THREADS": "1"},
            start_new_session=True,
        ) as process,
    ):
        assert process.stdin
        assert process.stdout
        try:
            with process.stdin as given:
                given.write(json.dumps([program, token, seconds]).encode())
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            pass
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)  # whatever it has left behind, too
        return process.stdout.read() == token.encode()


@dataclass(frozen=True)
class CodeEval:
    """``evaluate.load("code_eval")``, without the hub and without what that leaves open to a program."""

    def compute(
        self, references: Sequence[str], predictions: Sequence[Sequence[str]], k: Sequence[int] = (1, 10, 100)
    ) -> tuple[dict[str, float], list[list[bool]]]:
        """({"pass@1": …}, whether each prediction passes). references: tests, of each problem. pass@k: the chance that
        one of k predictions passes, without bias (Chen et al. 2021), for each k that there are enough predictions for.
        """
        passed = [
            [passes(f"{prediction}\n{test}") for prediction in each]
            for test, each in zip(references, predictions, strict=True)
        ]
        shares = {
            f"pass@{count}": sum(_chance(len(each), sum(each), count) for each in passed) / len(passed)
            for count in k
            if all(len(each) >= count for each in passed)
        }
        return shares, passed


def _chance(tried: int, passed: int, drawn: int) -> float:
    """That of so many drawn at least one is among those that passed."""
    none = 1.0
    for other in range(tried - drawn + 1, tried + 1):
        none *= max(0, other - passed) / other
    return 1 - none


@contextmanager
def code_run_apart() -> Generator[None]:
    """A task that asks for the metric ``code_eval`` gets CodeEval."""
    import evaluate

    stock = evaluate.load

    def load(path: str, *others: Any, **settings: Any) -> Any:
        return CodeEval() if path == "code_eval" else stock(path, *others, **settings)

    evaluate.load = load
    try:
        yield
    finally:
        evaluate.load = stock
