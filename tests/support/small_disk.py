"""A disk that fills up."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest


class SmallDisk:
    """A file system of a few MiB that can be filled, freed and made read-only."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ballast = folder / "ballast"

    def fill(self, leave: int = 0) -> None:
        """Until no byte is left, then give ``leave`` bytes back."""
        with self.ballast.open("ab", buffering=0) as handle:
            try:
                while handle.write(bytes(4096)):
                    pass
            except OSError:
                pass
            handle.truncate(handle.tell() - leave)

    def free(self) -> None:
        self.ballast.unlink()

    def read_only(self, yes: bool) -> None:
        subprocess.run(["mount", "-o", f"remount,{'ro' if yes else 'rw'}", str(self.folder)], check=True)


@contextmanager
def small_disk(folder: Path, mib: int) -> Generator[SmallDisk]:
    """Skips the test where it cannot be mounted."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={mib}m", "tmpfs", str(folder)]
    if not shutil.which("mount") or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small file system needs root")
    yield SmallDisk(folder)
    subprocess.run(["umount", "--lazy", str(folder)], check=True)
