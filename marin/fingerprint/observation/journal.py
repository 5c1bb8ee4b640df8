"""Report the reads of forked processes (``multiprocessing.Pool``, workers of a data loader) to their parent."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from itertools import islice

from marin.fingerprint.observation.observation import CodePlace, Observation


class Journal:
    """A file without a name to which all forked processes append.

    A child appends a line for each new observation, because it may be killed at any moment.
    """

    def __init__(self) -> None:
        handle, path = tempfile.mkstemp(prefix="marin-reads-")
        os.unlink(path)
        self._file, self._taken = handle, 0
        self._told = Observation()
        self._counts = (0, 0, 0)

    def begin(self, seen: Observation, code: Mapping[CodePlace, None]) -> None:
        """Begin in a child. The child does not report observations that the parent knows."""
        self._counts = (len(seen.files), len(seen.folders), len(code))
        self._told = Observation(modules=dict(seen.modules), own=set(seen.own), programs=set(seen.programs))

    def tell(self, seen: Observation, code: Mapping[CodePlace, None]) -> None:
        """Report new observations of a child."""
        counts, reported = (len(seen.files), len(seen.folders), len(code)), self._told
        if counts == self._counts and (seen.modules, seen.own, seen.programs) == (
            reported.modules,
            reported.own,
            reported.programs,
        ):
            return
        files, folders, functions = self._counts
        line = Observation(
            files=dict(islice(seen.files.items(), files, None)),
            folders=dict(islice(seen.folders.items(), folders, None)),
            code=set(islice(code, functions, None)),
            modules=dict(seen.modules),
            own=seen.own - reported.own,
            updated=set(seen.updated),
            programs=seen.programs - reported.programs,
        )
        os.write(self._file, json.dumps(line.to_plain()).encode() + b"\n")
        self.begin(seen, code)

    def take(self, seen: Observation) -> None:
        """Join the reports since the last call, in the parent."""
        content = os.pread(self._file, os.fstat(self._file).st_size - self._taken, self._taken)
        whole = content[: content.rfind(b"\n") + 1]
        self._taken += len(whole)
        for line in whole.splitlines():
            seen.join(Observation.from_plain(json.loads(line)))

    def close(self) -> None:
        os.close(self._file)
