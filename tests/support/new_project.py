"""A project that `marin new` made, and commands in it, as a person gives them."""

import os
import subprocess
import sys
from pathlib import Path

MARIN = Path(sys.executable).with_name("marin")


def marin(folder: Path, *arguments: str, ends: int = 0) -> str:
    """Run the command and return its output; ends: the exit code that it must have.

    The command finds the installed marin, and nothing else.
    """
    return told(folder, str(MARIN), *arguments, ends=ends)


def told(folder: Path, *command: str, ends: int = 0, **environment: str) -> str:
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        command, cwd=folder, env={**kept, "COLUMNS": "160", **environment}, capture_output=True, text=True, check=False
    )
    assert done.returncode == ends, done.stdout + done.stderr
    return done.stdout + done.stderr


def new_project(folder: Path) -> Path:
    marin(folder.parent, "new", folder.name)
    return folder
