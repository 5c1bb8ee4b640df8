"""A process that answers one line of JSON with one line of JSON."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


class LineServer:
    """Starts when it is first asked, if not before.

    One that does not answer before the test's time is over is killed with its children; the next test gets a new one.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str] | None = None, first: int = 0) -> None:
        """first: lines that it says of itself, before any answer."""
        self._command, self._first = command, first
        self._environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200", **(environment or {})}
        self._process: subprocess.Popen[str] | None = None

    def ask(self, request: object) -> Any:
        try:
            process = self.start()
            assert process.stdin is not None
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            return _answer(process)
        except BaseException:
            self.kill()
            raise

    def close(self) -> None:
        """End the server once it has answered its requests."""
        process, self._process = self._process, None
        if process is not None:
            process.communicate()

    def kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()

    def start(self) -> subprocess.Popen[str]:
        if self._process is None:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=self._environment,
                cwd=ROOT,
                start_new_session=True,
            )
            for _ in range(self._first):
                _answer(self._process)
        return self._process


def _answer(process: subprocess.Popen[str]) -> Any:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, f"{process.args[1:4]} ended with {process.wait()}"
    return json.loads(line)
