"""Runs programs that a model wrote, each in a restricted process. lm-evaluation-harness scores HumanEval with it.

Each program has a process of its own with an empty environment, an empty folder, and limits on time, memory and files.
If the kernel allows namespaces, the process also has no network, and nothing outlives the process. This is no sandbox:
the program may read every file that its user may read.
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

SECONDS = 3  # of processor time; code_eval gives a program as many by the clock
PATIENCE = 60  # seconds by the clock, for a program that waits

# A program passes by reaching its last line: RUNNER then writes the token. Its output and exit status do not count.
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


@reaches()  # the program is no code of the project, and RUNNER is above
def passes(program: str, seconds: int = SECONDS) -> bool:
    """Return whether the program runs to its end without an error, within these seconds of processor time."""
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
                os.killpg(process.pid, signal.SIGKILL)  # also processes that it left behind
        return process.stdout.read() == token.encode()


@dataclass(frozen=True)
class CodeEval:
    """A replacement for ``evaluate.load("code_eval")`` that needs no hub and restricts programs more."""

    def compute(
        self, references: Sequence[str], predictions: Sequence[Sequence[str]], k: Sequence[int] = (1, 10, 100)
    ) -> tuple[dict[str, float], list[list[bool]]]:
        """Return ({"pass@1": …}, whether each prediction passes).

        references: the tests of each problem. pass@k: the unbiased estimate of the chance that one of k predictions
        passes (Chen et al. 2021), for each k with enough predictions.
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
    """Return the chance that at least one of the drawn predictions passed."""
    none = 1.0
    for other in range(tried - drawn + 1, tried + 1):
        none *= max(0, other - passed) / other
    return 1 - none


@contextmanager
def code_run_apart() -> Generator[None]:
    """Give tasks that load the metric ``code_eval`` CodeEval instead."""
    import evaluate

    stock = evaluate.load

    def load(path: str, *others: Any, **settings: Any) -> Any:
        return CodeEval() if path == "code_eval" else stock(path, *others, **settings)

    evaluate.load = load
    try:
        yield
    finally:
        evaluate.load = stock
