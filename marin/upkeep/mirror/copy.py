"""Mirror committed outputs: copy them from one store to another, verified, under the same identity.

Mirroring an output also copies its record with the provenance, the code that the record names, its acceptances, its
log, and every revocation of the source store. It copies the records, but not the bytes, of all its ancestors. Lineage
and revocations therefore reach as far as in the source store.

A copy that was interrupted goes on in the same folder, which names the output in ``{attempt}/.marin/mirror.json``.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import CancelledError, ThreadPoolExecutor, as_completed
from contextlib import ExitStack, suppress
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from marin.errors import BadPrefix, CorruptOutput, LeaseLost, StoreError
from marin.executor.commit import commit_mirrored
from marin.plan.outside_data import listing
from marin.report.page.revocations import stamp_pages
from marin.store.documents import json_bytes
from marin.store.ends import Claim, End, Held, Watch, read_end, take, take_in_turn
from marin.store.files.manifest import FileEntry, root_digest
from marin.store.in_use import Uses
from marin.store.layout import CODE, LOG, MIRROR, OUTSIDE, SUPERSEDED, attempt_directory, mirrored_name
from marin.store.objects.errors import control_errors
from marin.store.process import this_process
from marin.store.record import Mirrored, Record
from marin.store.revocation import bring_revocations
from marin.store.store import Store
from marin.upkeep.mirror.files import CopyProgress, copy_files
from marin.upkeep.mirror.plan import Mirroring, must_be_same, waves

OUTPUTS_AT_A_TIME = 8
RUN = "mirror"  # the run's name for gc


class MirroredOutput(Struct, frozen=True):
    """A mirrored output. record: as committed in the target. copied: False if another call copied it meanwhile."""

    record: Record
    copied: bool
    progress: CopyProgress = field(default_factory=CopyProgress)


def mirror(
    plan: Mirroring,
    on_message: Callable[[str], None] = lambda _: None,
    moved: Callable[[int], object] = lambda _: None,
    watch: Watch | None = None,
) -> Generator[MirroredOutput]:
    """Copy the plan's outputs, inputs first, several at a time. Yield each output once it is committed.

    Meanwhile gc leaves the outputs alone in both stores. Files that an interrupted call copied are not copied again;
    two concurrent calls copy each output once. on_message: takes messages about waiting. moved: called with bytes as
    they arrive. Raises CorruptOutput for bytes that differ from their manifest, RevokedBytes, IdentityConflict,
    StalePlan, StoreError. Outputs that were already yielded stay.
    """
    source, target = plan.source, plan.target
    copies = _Copies(source, target, on_message, moved, watch or Watch(), plan.last)
    if bring_revocations(source, target):
        with suppress(BadPrefix):  # the revocations count even if the pages cannot be stamped
            stamp_pages(target)
    every = [*plan.there, *plan.todo]
    with ExitStack() as stack:
        codes = {record.code for record in (*every, *plan.ancestors)}
        lists = {name for record in every if (name := listing(record.outside))}
        writing = stack.enter_context(Uses(target, RUN, on_message, copies.watch))
        writing.add((), (record.identity for record in every), codes | lists)
        try:
            reading = stack.enter_context(Uses(source, RUN, on_message, copies.watch))
            reading.add(plan.todo, code=codes | lists)
        except BadPrefix:
            on_message(
                f"{source.prefix} cannot be written, so `marin gc` there does not know which outputs are being copied; "
                "run no gc there until this copy has ended"
            )
        _bring_missing(source, target, CODE, codes)
        _bring_missing(source, target, OUTSIDE, lists)
        _bring_ancestors(plan)
        _bring_accepted(source, target, every)
        pool = ThreadPoolExecutor(OUTPUTS_AT_A_TIME)
        try:
            for wave in waves(plan.todo):
                for done in as_completed([pool.submit(copies.bring, record) for record in wave]):
                    yield done.result()
        finally:  # also after an error or Ctrl-C: copies in progress stop at their next chunk
            copies.stop.set()
            pool.shutdown(cancel_futures=True)


class _Copies(Struct, frozen=True):
    """The copies of one call. stop: set when the call ends early."""

    source: Store
    target: Store
    on_message: Callable[[str], None]
    moved: Callable[[int], object]
    watch: Watch
    last: dict[str, int]  # number of the last end in the target, by identity
    stop: threading.Event = field(default_factory=threading.Event)

    def bring(self, record: Record) -> MirroredOutput:
        """Copy one output and commit it, unless another process does."""
        while True:
            held = self._claim(record)
            if isinstance(held, Record):
                return MirroredOutput(must_be_same(self.target, record, held), copied=False)
            progress = CopyProgress(self.moved)
            try:
                return MirroredOutput(self._commit(record, held, progress), copied=True, progress=progress)
            except StoreError:
                if not isinstance(read_end(self.target.objects, held.identity, held.number), End):
                    raise
                # This process was suspended or lost the store. The other process's result counts.
                self.on_message(f"{record.name}: another process took over {held.attempt}")
            finally:
                held.stop_beating()
                held.release()

    def _claim(self, record: Record) -> Held | Record:
        """Return our attempt at an output, or its record. Waits while another process copies or builds the output."""
        identity, message, usable = record.identity, "", False
        # The same number as in the source, so that a pin fits both stores.
        wanted = int(record.attempt.rpartition(".")[2]) if not record.alias_of else 0

        def folder(number: int) -> str:
            """Return the folder of the interrupted copy before this attempt, or else a new one."""
            nonlocal usable
            before = self._interrupted(record, number - 1)
            new = attempt_directory(record.op, record.label, identity, number)
            with control_errors(Path(self.target.prefix)):
                usable = before is not None or (number >= wanted and not (self.target.directory / new).exists())
            return before or new

        def turn() -> Held | Claim | Record:
            after = self.last.get(identity, 0)
            is_dead = functools.partial(self.watch.is_dead, identity)
            while isinstance(taken := take(self.target.objects, identity, folder, is_dead, after), Held) and not usable:
                taken.release(f"left out: the copy gets a new folder, with a number of at least {wanted}")
                after = taken.number - 1  # as in take_step
            return taken

        def waiting(other: Claim) -> None:
            nonlocal message
            self._go_on()
            if message != (message := f"waiting: {record.name} is {other.describe()}"):
                self.on_message(message)

        return take_in_turn(turn, waiting)

    def _interrupted(self, record: Record, number: int) -> str | None:
        """Return the folder of an attempt that ended while it copied the same bytes, or None.

        If gc ended the attempt, gc deletes the folder, and its end does not name it.
        """
        end = read_end(self.target.objects, record.identity, number)
        if isinstance(end, End) and self.target.objects.read(f"{end.attempt}/{MIRROR}") == _marker(record):
            return end.attempt
        return None

    def _commit(self, record: Record, held: Held, progress: CopyProgress) -> Record:
        original = self.target.record(record.alias_of) if record.alias_of else None
        if original is not None and original.root == record.root:
            made, entries = replace(record, attempt=original.attempt, stamp=original.stamp), list[FileEntry]()
        else:  # an alias of other bytes gets a copy, too
            held.start_beating()
            entries = self._copy(record, held, progress)
            output = self.target.directory / held.attempt
            made = replace(record, attempt=held.attempt, alias_of="", stamp=output.stamp())
            held.renew()  # the folder is no longer ours if another process took over
        mirrored = [*record.mirrored, _mirrored(self.source, record)]
        made = replace(made, token=held.number, lifetime="", mirrored=mirrored)
        commit_mirrored(self.target, held, made, entries)
        return made

    def _copy(self, record: Record, held: Held, progress: CopyProgress) -> list[FileEntry]:
        """Copy the files and the log, and return the manifest of the copy."""
        entries = self.source.manifest(record)
        if root_digest(entries, record.kind, record.facts) != record.root:
            raise CorruptOutput(
                f"the manifest of {record.name} in {self.source.prefix} differs from its record; it was edited. "
                f"The output was not mirrored; {self.source.remedy(record)}"
            )
        original, output = self.source.output(record), self.target.directory / held.attempt

        def still_ours() -> None:
            self._go_on()
            held.progress = f"mirroring {progress.copied_files + progress.resumed_files} of {len(entries)} files"
            if held.lost:
                raise LeaseLost(held.lost)

        self.target.objects.write(f"{held.attempt}/{MIRROR}", _marker(record))
        with control_errors(Path(output.url if output.is_local else original.url)):
            found = copy_files(original, output, entries, progress, still_ours)
        if root_digest(found, record.kind, record.facts) != record.root:
            raise CorruptOutput(
                f"{output.url} differs from the copied files: another process writes there, or did. "
                "Delete that folder and run again"
            )
        log = f"{held.attempt}/{LOG}"
        with suppress(StoreError):
            if not self.target.objects.read_log(log):  # an interrupted copy may have brought it
                line = f"{_mirrored(self.source, record).describe()}\n".encode(errors="backslashreplace")
                self.target.objects.append(log, self.source.objects.read_log(f"{record.attempt}/{LOG}") + line)
                self.target.objects.flush(log)
        return found

    def _go_on(self) -> None:
        if self.stop.is_set():
            raise CancelledError


def _marker(record: Record) -> bytes:
    """Return the mark of a folder that gets a copy of these bytes, from any store."""
    return json_bytes({"root": record.root})


def _mirrored(source: Store, record: Record) -> Mirrored:
    me = this_process()
    when = time.strftime("%Y-%m-%d %H:%M:%S")
    return Mirrored(origin=f"{source.prefix}/{record.attempt}", who=me.user, host=me.host, when=when)


def _bring_missing(source: Store, target: Store, folder: str, digests: Iterable[str]) -> None:
    """Copy the objects with these digests that the target lacks, before an output that names them becomes visible."""
    there = {name for name, stat in target.objects.stats(folder).items() if stat.size}  # a power cut empties files
    wanted = [f"{folder}/{digest}.json" for digest in digests if f"{digest}.json" not in there]
    for name, content in source.objects.read_many(wanted).items():
        if content:
            target.objects.write(name, content)


def _bring_accepted(source: Store, target: Store, records: Iterable[Record]) -> None:
    accepted = source.acceptances.by_key()
    for identity in {record.identity for record in records} & accepted.keys():
        known = target.acceptances.about(identity)
        new = [entry for entry in source.acceptances.about(identity) if entry not in known]
        if new:
            _bring_missing(source, target, CODE, {entry.code for entry in new})
            target.acceptances.add(identity, *new)


def _bring_ancestors(plan: Mirroring) -> None:
    """Copy the ancestors' records to the place where lineage looks for outputs that are gone."""
    known = {f"{SUPERSEDED}/{name}" for name in plan.target.objects.list(SUPERSEDED)}
    for record in plan.ancestors:
        name = mirrored_name(record.identity, record.root)
        if name not in known:
            known_there = replace(record, mirrored=[*record.mirrored, _mirrored(plan.source, record)])
            plan.target.objects.write(name, known_there.to_bytes())
