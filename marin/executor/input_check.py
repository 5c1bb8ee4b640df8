"""Check that a step's inputs match their manifests when it starts, and that nobody writes to them until it commits.

Writes are noticed by the files' times. Linux before 6.13 counts times in ticks of up to 10 ms. A file that is written
twice within one tick looks unchanged.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

from marin.errors import CorruptOutput, InputRewritten, StoreError
from marin.executor.job import Job
from marin.store.files.verify import Check, Checked
from marin.store.files.walk import FileStamp
from marin.store.objects.stored import Stored
from marin.store.record import Record
from marin.store.store import Store

type Stamps = dict[str, FileStamp]


@functools.lru_cache(maxsize=1)
def compared_in(run: str) -> dict[tuple[str, str], Stamps]:
    """Return, by URL and root digest, the stamps of outputs that this process has compared in full.

    They are neither kept from run to run nor shared between processes: a disk that loses a bit changes no stamp, so
    each run compares for itself.
    """
    return {}


class InputCheck:
    """The check of one attempt's inputs. checked: how well each input was checked at the start, by identity."""

    def __init__(self, store: Store, job: Job) -> None:
        self._store, self._job = store, job
        self._stamps: dict[str, Stamps] = {}
        self.checked: dict[str, Checked] = {}

    def begin(self) -> None:
        """Check the inputs before run() reads a byte. Raises CorruptOutput."""
        known = compared_in(self._job.run.name)
        for record in self._job.inputs.values():
            output = self._store.output(record)
            listed = None if output.is_local else output.listing()  # a request, which gives stamps and sizes alike
            stamps = self._stamps[record.identity] = output.file_stamps(listed)
            key = (output.url, record.root)
            if known.get(key) == stamps:
                self.checked[record.identity] = Checked.FULL
                continue
            if listed is None:
                listed = {name: Stored(stamp.size, "") for name, stamp in stamps.items()}
            checked = self.checked[record.identity] = self._compare(record, listed)
            if checked is Checked.FULL:
                known[key] = stamps

    def end(self) -> None:
        """Check the inputs again before an output made from them is committed. Raises CorruptOutput."""
        for record in self._job.inputs.values():
            before, now = self._stamps[record.identity], self._store.output(record).file_stamps()
            written = _written(before, now)
            if written:
                raise InputRewritten(
                    f"input {record.name} of {self._job.step.name} was written to while it was read: "
                    f"{', '.join(written[:3])} in {record.attempt}. Nothing was committed; find out who writes to "
                    "committed outputs, look for damage with `marin audit --bytes`, and run again"
                )
            if now != before:
                self._compare(record)
                self._stamps[record.identity] = now

    def was_rewritten(self) -> bool:
        """Return whether somebody has written to a file of an input since the start. Reads no file.

        The answer is False if the store does not answer or files are gone, as when a disk is away: the bytes that were
        read were right.
        """
        try:
            return any(
                name in now and stamp.was_written(now[name])
                for identity, stamps in self._stamps.items()
                for now in [self._store.output(self._job.inputs[identity]).file_stamps()]
                for name, stamp in stamps.items()
            )
        except (StoreError, OSError):
            return False

    def _compare(self, record: Record, listed: Mapping[str, Stored] | None = None) -> Checked:
        at_most = self._job.run.check_inputs
        found = self._store.examine(record, Check.CHECKSUMS, at_most, self._job.step.identity, listed)
        if found.wrong:
            raise CorruptOutput(
                f"input {record.name} of {self._job.step.name} is damaged: {'; '.join(found.wrong[:3])}; "
                f"{self._store.remedy(record)}"
            )
        return found.checked


def _written(before: Stamps, now: Stamps) -> list[str]:
    """Return the names of files that may have other bytes than before, or that came or went."""
    names = [name for name, stamp in before.items() if stamp.was_written(now.get(name))]
    return sorted([*names, *(now.keys() - before.keys())])
