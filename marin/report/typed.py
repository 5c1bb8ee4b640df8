"""Commands for people to type next, with the Python and the ``marin`` that run now."""

from __future__ import annotations

import os
import shlex
import shutil
import sys

from marin.executor.events import SUBMITTED_GIT
from marin.store.redaction import redacted

PREFIX = "store"  # where commands look without --prefix


def marin(*arguments: str, prefix: str = "", folder: str = ".") -> str:
    """Return a ``marin`` command. prefix: of the store that it reads, "" if the arguments name it. folder: where
    people will type it.
    """
    at = ["--prefix", prefix] if prefix and prefix != os.path.abspath(PREFIX) else []
    beside = os.path.join(os.path.dirname(sys.executable), "marin")
    module = [short(sys.executable, "python", folder=folder), "-m", "marin"]
    program = [short(beside, "marin", folder=folder)] if os.path.exists(beside) else module
    return shlex.join([*program, *arguments, *at])


def same_command() -> str:
    """Return the command that is running. A submitted driver names the command that submitted it."""
    program, *arguments = sys.argv
    if SUBMITTED_GIT in os.environ:
        return redacted(marin("submit", *arguments[1:]))
    if os.path.basename(program) in ("marin", "__main__.py"):
        return redacted(marin(*arguments))
    return redacted(shlex.join([short(sys.executable, "python", "python3"), program, *arguments]))


def short(program: str, *names: str, folder: str = ".") -> str:
    """Return a name by which the shell finds the program, or its path from the folder.

    Under `uv run`, only the path finds it.
    """
    for name in names:
        if shutil.which(name) == program and "UV_RUN_RECURSION_DEPTH" not in os.environ:
            return name
    here = os.path.relpath(program, folder)
    return program if here.startswith("..") else here
