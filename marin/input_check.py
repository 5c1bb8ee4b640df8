"""Are a step's inputs what their manifests say when it starts, and did nobody write to them until it commits?"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from marin.amount import parse_size
from marin.directory import FileStamp
from marin.errors import CorruptOutput, InputRewritten, StoreError
from marin.job import Job
from marin.record import EVERY_BYTE, Check, Checked, Record
from marin.store import Store

RACY = 0.05  # seconds: a write that soon after another may leave a file with the same times

type Stamps = dict[str, FileStamp]


def parse_bound(text: str) -> int:
    """Bytes to read of each input: ``all``, ``sizes`` or a size. Raises BadField."""
    named = {"all": EVERY_BYTE, "sizes": 0}.get(text.strip().lower())
    return parse_size(text) if named is None else named


@dataclass(frozen=True)
class _Looked:
    """The stamps of an input's files at one time."""

    stamps: Stamps
    at: float

    @property
    def is_racy(self) -> bool:
        """Could a write that came after the look have left the same stamps?"""
        return any(held.changed > (self.at - RACY) * 1e9 for held in self.stamps.values())


class _Memory:
    """Stamps of outputs of which this process has compared every byte with the manifest, in one run.

    Not kept from run to run, nor shared by processes: a disk that loses a bit changes no stamp, so each run looks for
    itself.
    """

    def __init__(self) -> None:
        self._run = ""
        self._known: dict[tuple[str, str], Stamps] = {}

    def of(self, run: str) -> dict[tuple[str, str], Stamps]:
        """By the output's URL and root digest."""
        if not run or run != self._run:
            self._run, self._known = run, {}
        return self._known


_memory = _Memory()


class InputCheck:
    """Of one attempt. checked: how well each input was checked at the start, by identity."""

    def __init__(self, store: Store, job: Job) -> None:
        self._store, self._job = store, job
        self._looked: dict[str, _Looked] = {}
        self._checked: dict[str, Checked] = {}

    @property
    def checked(self) -> Mapping[str, Checked]:
        return self._checked

    def begin(self) -> None:
        """Before run() reads a byte. Raises CorruptOutput."""
        known = _memory.of(self._job.run)
        for record in self._job.inputs.values():
            output = self._store.output(record)
            looked = self._looked[record.identity] = _Looked(output.file_stamps(), time.time())
            key = (output.url, record.root)
            if known.get(key) == looked.stamps:
                self._checked[record.identity] = Checked.FULL
                continue
            checked = self._checked[record.identity] = self._compare(record)
            if checked is Checked.FULL and not looked.is_racy:
                known[key] = looked.stamps

    def end(self) -> None:
        """Before anything that was made from the inputs is committed. Raises CorruptOutput."""
        for record in self._job.inputs.values():
            before = self._looked[record.identity]
            now = _Looked(self._store.output(record).file_stamps(), time.time())
            written = _written(before.stamps, now.stamps)
            if written:
                raise InputRewritten(
                    f"input {record.name} of {self._job.step.name} was written to while it was read: "
                    f"{', '.join(written[:3])} in {record.attempt}. Nothing was committed; find out who writes to "
                    "committed outputs, see with `marin verify` what is wrong, and run again"
                )
            if now.stamps != before.stamps or before.is_racy:
                self._compare(record)
                self._looked[record.identity] = now

    def was_rewritten(self) -> bool:
        """Has somebody written to an input since the start? Reads no file; false where the store does not answer."""
        try:
            return any(
                _written(looked.stamps, self._store.output(self._job.inputs[identity]).file_stamps())
                for identity, looked in self._looked.items()
            )
        except (StoreError, OSError):
            return False

    def _compare(self, record: Record) -> Checked:
        at_most = self._job.check_inputs
        found = self._store.examine(record, Check.CHECKSUMS, at_most, self._job.step.identity)
        if found.wrong:
            raise CorruptOutput(
                f"input {record.name} of {self._job.step.name} is damaged: {'; '.join(found.wrong[:3])}; "
                f"{self._store.remedy(record)}"
            )
        return found.checked


def _written(before: Stamps, now: Stamps) -> list[str]:
    """Names of files that may have other bytes than before, or that came or went."""
    names = [name for name, held in before.items() if held.was_written(now.get(name))]
    return sorted([*names, *(now.keys() - before.keys())])
