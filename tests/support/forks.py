"""Commands of ``marin`` and of experiment files, each in a new process that shares only the import of the engine.

Fifteen times faster than new interpreters, so that a table of many rows can be run as a user would run each.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

ROOT = Path(__file__).resolve().parents[2]

SERVER = """
import json, os, sys, warnings
import marin.cli.commands, marin.cli.explain, marin.cli.plan, marin.cli.run, marin.executor.backends.inline
import marin.report.page.page, marin.report.terminal, marin.plan.cost.plan_cost
for line in sys.stdin:
    job = json.loads(line)
    child = os.fork()
    if child == 0:
        said = os.open(job["out"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(said, 1); os.dup2(said, 2)
        if job["reader_gone"]:
            reading, writing = os.pipe()
            os.close(reading); os.dup2(writing, 1); os.close(writing)
        os.environ.update(job["environment"])
        for name in job["unset"]:
            os.environ.pop(name, None)
        os.chdir(job["folder"])
        sys.path[:0] = [job["folder"], *job["path"]]
        sys.argv = ["marin", *job["arguments"]]
        code = 0
        try:
            marin.cli.commands.main(job["arguments"])
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        except BaseException:
            import traceback
            traceback.print_exc()
            code = 99
        sys.stdout.flush(); sys.stderr.flush()
        os._exit(code)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@dataclass(frozen=True)
class Ended:
    code: int
    said: str


class Forks:
    """A server that forks for each command; use it as a context. modules: imported once for all, beside the engine."""

    def __init__(self, *modules: str) -> None:
        self._modules = modules

    def __enter__(self) -> Self:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200"}
        self._process = subprocess.Popen(
            [sys.executable, "-c", "".join(f"import {name}\n" for name in self._modules) + SERVER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=ROOT,
        )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def marin(
        self,
        folder: Path,
        *arguments: str,
        path: tuple[str, ...] = (),
        environment: Mapping[str, str] | None = None,
        unset: tuple[str, ...] = (),
        reader_gone: bool = False,
    ) -> Ended:
        """``marin …`` in a folder, into a pipe. path: further entries of Python's path. environment, unset: what is
        different there. reader_gone: nobody reads stdout, as behind ``| head`` when it has seen enough.
        """
        out = folder / ".said"
        job = {
            "folder": str(folder),
            "arguments": list(arguments),
            "out": str(out),
            "path": list(path),
            "environment": dict(environment or {}),
            "unset": list(unset),
            "reader_gone": reader_gone,
        }
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        code = int(self._process.stdout.readline())
        return Ended(code, out.read_text())
