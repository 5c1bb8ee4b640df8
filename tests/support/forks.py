"""Experiment files and commands of ``marin``, each in a new process that shares only the import of the engine.

Many times faster than new interpreters, so that a table of many rows can be run as a user would run each.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Self

from tests.support.line_server import ROOT, LineServer


@dataclass(frozen=True)
class Ended:
    """said: stdout, then stderr."""

    code: int
    stdout: str
    stderr: str

    @property
    def said(self) -> str:
        return self.stdout + self.stderr


class Forks:
    """A server that forks for each command; use it as a context. modules: imported once for all, beside the engine."""

    def __init__(self, *modules: str) -> None:
        self._server = LineServer([sys.executable, "-m", "tests.support.fork_server", *modules])

    def __enter__(self) -> Self:
        self._folder = TemporaryDirectory()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.close()
        self._folder.cleanup()

    def marin(
        self,
        folder: Path,
        *arguments: str,
        path: tuple[str, ...] = (),
        environment: Mapping[str, str] | None = None,
        unset: tuple[str, ...] = (),
        reader_gone: bool = False,
    ) -> Ended:
        """Run ``marin …`` in a folder, into a pipe.

        path: further entries of Python's path. environment, unset: variables that the command gets or loses.
        reader_gone: nobody reads stdout, as behind ``| head`` when it has seen enough.
        """
        variables = {**os.environ, "COLUMNS": "200", "PYTHONPATH": str(ROOT), **(environment or {})}
        return self.run(
            folder,
            "",
            arguments,
            path=[str(folder), *path, str(ROOT)],
            environment={name: value for name, value in variables.items() if name not in unset},
            reader_gone=reader_gone,
        )

    def run(
        self,
        folder: Path,
        file: str,
        arguments: Sequence[str],
        *,
        path: Sequence[str],
        environment: Mapping[str, str],
        reader_gone: bool = False,
    ) -> Ended:
        """Run ``python FILE ARGUMENT…`` in a folder, or ``marin ARGUMENT…`` if the file is "".

        path: Python's, before the interpreter's own entries. environment: the whole environment.
        """
        out, err = Path(self._folder.name, "out"), Path(self._folder.name, "err")
        for stream in (out, err):
            stream.unlink(missing_ok=True)  # one that an earlier child's children still write to is theirs
        job = {
            "folder": str(folder),
            "file": file,
            "arguments": list(arguments),
            "out": str(out),
            "err": str(err),
            "path": list(path),
            "environment": dict(environment),
            "reader_gone": reader_gone,
        }
        code: int = self._server.ask(job)
        return Ended(code, out.read_text(), err.read_text())
