"""The side of a test: asks a server of tests.support.faults for a run that is struck at one operation on its store."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.faults.hook import Strike
from tests.support.line_server import LineServer


@dataclass
class Ended:
    """The end of a run. status: exit code, or minus the signal. operations: its operations on the store, in order."""

    status: int
    said: str
    operations: list[str]


class Strikes:
    """Runs of one file, as children of a server. synced: the file in which a run notes the files safe on the disk."""

    def __init__(self, folder: Path, file: Path, *first: str, environment: Mapping[str, str] | None = None) -> None:
        """first: arguments of the run that imports what all need."""
        self.folder, self.file, self.synced = folder, file, folder / "synced"
        command = [sys.executable, "-m", "tests.support.faults.server", str(file), *first]
        self.server = LineServer(command, environment, first=1)
        self.server.start()

    def strike(
        self,
        store: Path,
        arguments: Sequence[str],
        strike: Strike = Strike.NOTHING,
        at: int = -1,
        error: str = "EIO",
        *,
        costly: bool = False,
    ) -> Ended:
        """costly: every step counts as one that took long."""
        said, log = self.folder / "said", self.folder / "log"
        request = {
            "file": str(self.file),
            "folder": str(self.folder),
            "store": str(store),
            "arguments": list(arguments),
            "said": str(said),
            "log": str(log),
            "synced": str(self.synced),
            "costly": costly,
            "strike": strike,
            "at": at,
            "error": error,
        }
        status: int = self.server.ask(request)["status"]
        return Ended(status, said.read_text(), log.read_text().splitlines())

    def close(self) -> None:
        self.server.close()
