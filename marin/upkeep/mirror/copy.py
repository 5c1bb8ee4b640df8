"""Mirror committed outputs: copy them from one store to another, verified, under the same identity.

Mirroring an output also copies its record with the provenance, the code that the record names, its acceptances, its
log, and every revocation of the source store. It copies the records, but not the bytes, of all its ancestors. Lineage
and revocations therefore reach as far as in the source store.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import CancelledError, ThreadPoolExecutor, as_completed
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

from msgspec.structs import replace

from marin.errors import BadPrefix, CorruptOutput, LeaseLost, StoreError
from marin.executor.commit import commit_mirrored, take_new
from marin.plan.outside_data import bring_listings, listing
from marin.report.page.revocations import stamp_pages
from marin.store.ends import Claim, End, Held, Watch, read_end, take_in_turn
from marin.store.files.manifest import FileEntry, root_digest
from marin.store.files.verify import manifest_of
from marin.store.in_use import Uses, needs_of
from marin.store.layout import CODE, LOG, SUPERSEDED, attempt_directory, code_name, mirrored_name
from marin.store.objects.errors import control_errors
from marin.store.process import this_process
from marin.store.record import Mirrored, Record
from marin.store.revocation import bring_revocations
from marin.store.store import Store
from marin.upkeep.mirror.files import Copier, CopyProgress, clear_away, earlier_attempts
from marin.upkeep.mirror.plan import Mirroring, must_be_same

type OnMessage = Callable[[str], None]
OUTPUTS_AT_A_TIME = 8
RUN = "mirror"  # the run's name for gc


@dataclass(frozen=True)
class MirroredOutput:
    """A mirrored output. record: as committed in the target. copied: False if another call copied it meanwhile."""

    record: Record
    copied: bool
    progress: CopyProgress = field(default_factory=CopyProgress)


def mirror(
    plan: Mirroring,
    on_message: OnMessage = lambda _: None,
    moved: Callable[[int], object] = lambda _: None,
    watch: Watch | None = None,
) -> Generator[MirroredOutput]:
    """Copy the plan's outputs, inputs first, several at a time. Yield each output once it is committed.

    Meanwhile gc leaves the outputs alone in both stores. Files that an earlier call verified are not copied again; two
    concurrent calls copy each output once. on_message: takes messages about waiting. moved: called with bytes as they
    arrive. Raises CorruptOutput for bytes that differ from their manifest, RevokedBytes, IdentityConflict, StalePlan,
    StoreError. Outputs that were already yielded stay.
    """
    source, target = plan.source, plan.target
    context = MirrorContext(source, target, on_message, moved, watch or Watch(), plan.last)
    if bring_revocations(source, target):
        with suppress(BadPrefix):  # the revocations count even if the pages cannot be stamped
            stamp_pages(target)
    every = [*plan.there, *plan.todo]
    with ExitStack() as stack:
        codes = {record.code for record in (*every, *plan.ancestors)}
        named = codes | {name for record in every if (name := listing(record.outside))}
        writing = stack.enter_context(Uses(target, RUN, on_message, context.watch))
        writing.add(needs_of((record.identity for record in every), (), named, RUN), ())
        try:
            reading = stack.enter_context(Uses(source, RUN, on_message, context.watch))
            reading.add(needs_of((), plan.todo, named, RUN), plan.todo)
        except BadPrefix:
            on_message(
                f"{source.prefix} cannot be written, so `marin gc` there does not know which outputs are being copied"
            )
        _bring_code(source, target, codes)
        bring_listings(source, target, (record.outside for record in every))
        _bring_ancestors(plan)
        accepted = source.acceptances.keys()
        for record in every:
            if record.identity in accepted:
                _bring_accepted(source, target, record)
        pool = ThreadPoolExecutor(OUTPUTS_AT_A_TIME)
        try:
            for wave in plan.waves():
                for done in as_completed([pool.submit(_bring, context, record) for record in wave]):
                    yield done.result()
        finally:  # also after an error or Ctrl-C: copies in progress stop at their next chunk
            context.stop.set()
            pool.shutdown(cancel_futures=True)


@dataclass(frozen=True)
class MirrorContext:
    """The context that all outputs of one call share. stop: set when the call ends early."""

    source: Store
    target: Store
    on_message: OnMessage
    moved: Callable[[int], object]
    watch: Watch
    last: dict[str, int]  # number of the last end in the target, by identity
    stop: threading.Event = field(default_factory=threading.Event)

    def go_on(self) -> None:
        if self.stop.is_set():
            raise CancelledError


def _bring(context: MirrorContext, record: Record) -> MirroredOutput:
    while True:
        held = _claim(context, record)
        if isinstance(held, Record):
            return MirroredOutput(must_be_same(context.target, record, held), copied=False)
        progress = CopyProgress(context.moved)
        try:
            return MirroredOutput(_committed(context, record, held, progress), copied=True, progress=progress)
        except StoreError:
            if not isinstance(read_end(context.target.objects, held.identity, held.number), End):
                raise
            # This process was suspended or lost the store. The other process's result counts.
            context.on_message(f"{record.name}: another process took over {held.attempt}")
        finally:
            held.stop_beating()
            held.release()


def _committed(context: MirrorContext, record: Record, held: Held, progress: CopyProgress) -> Record:
    original = _original(context.target, record)
    if original is not None:
        made, entries = replace(record, attempt=original.attempt, stamp=original.stamp), list[FileEntry]()
    else:
        held.start_beating(lambda: None)
        made, entries = _copied(context, record, held, progress)
    made = replace(made, token=held.number, lifetime="", mirrored=[*record.mirrored, _mirrored(context.source, record)])
    commit_mirrored(context.target, held, made, entries)
    return made


def _claim(context: MirrorContext, record: Record) -> Held | Record:
    """Return our attempt at an output, or its record. Waits while another process copies or builds the output."""
    message = ""

    def waiting(other: Claim) -> None:
        nonlocal message
        context.go_on()
        if message != (message := f"waiting: {record.name} is {other.describe()}"):
            context.on_message(message)

    identity = record.identity
    is_dead = functools.partial(context.watch.is_dead, identity)
    attempt_of = functools.partial(attempt_directory, record.op, record.label, identity)
    # The same number as in the source, so that a pin fits both stores.
    wanted = int(record.attempt.rpartition(".")[2]) if not record.alias_of else 0

    def turn() -> Held | Claim | Record:
        after = context.last.get(identity, 0)
        while isinstance(taken := take_new(context.target, identity, attempt_of, is_dead, after), Held):
            if taken.number >= wanted:
                break
            taken.release(f"left out: the copy has the number {wanted}, as in {context.source.prefix}")
            after = taken.number - 1  # as in take_new
        return taken

    return take_in_turn(turn, waiting)


def _original(target: Store, record: Record) -> Record | None:
    """Return the target's record of the output whose bytes an alias shares, or None: then the alias gets a copy."""
    entry = target.record(record.alias_of) if record.alias_of else None
    return entry if entry is not None and entry.root == record.root else None


def _copied(
    context: MirrorContext, record: Record, held: Held, progress: CopyProgress
) -> tuple[Record, list[FileEntry]]:
    source, target = context.source, context.target
    entries = source.manifest(record)
    if root_digest(entries, record.kind, record.facts) != record.root:
        raise CorruptOutput(
            f"the manifest of {record.name} in {source.prefix} differs from its record; it was edited. "
            f"The output was not mirrored; {source.remedy(record)}"
        )
    attempt = held.attempt
    output = target.directory / attempt
    earlier = earlier_attempts(target, record, but=attempt) if held.number > 1 else []

    def still_ours() -> None:
        context.go_on()
        held.report(f"mirroring {progress.copied_files + progress.resumed_files} of {len(entries)} files")
        if held.lost:
            raise LeaseLost(held.lost)

    try:
        with control_errors(Path(output.url if output.is_local else source.output(record).url)):
            Copier(source.output(record), target, attempt, earlier, progress, still_ours).copy(entries, record.root)
            found = manifest_of(output)
    finally:
        if not output.is_local:
            from marin.store.files.written import forget

            forget(output.url)
    if root_digest(found, record.kind, record.facts) != record.root:
        raise CorruptOutput(f"{output.url} differs from the copied files; another process writes there. Run again")
    log = source.objects.read_log(f"{record.attempt}/{LOG}")
    with suppress(StoreError):
        line = f"{_mirrored(source, record).describe()}\n"
        target.objects.append(f"{attempt}/{LOG}", log + line.encode(errors="backslashreplace"))
        target.objects.flush(f"{attempt}/{LOG}")
    with control_errors(Path(output.url)):
        clear_away(target, attempt, earlier)
    return replace(record, attempt=attempt, alias_of="", stamp=output.stamp()), found


def _mirrored(source: Store, record: Record) -> Mirrored:
    me = this_process()
    when = time.strftime("%Y-%m-%d %H:%M:%S")
    return Mirrored(origin=f"{source.prefix}/{record.attempt}", who=me.user, host=me.host, when=when)


def _bring_code(source: Store, target: Store, codes: Iterable[str]) -> None:
    """Copy code. Call it before the outputs of the code become visible."""
    there = set(target.objects.list(CODE))
    wanted = [code_name(code) for code in codes if f"{code}.json" not in there]
    for name, content in source.objects.read_many(wanted).items():
        if content:
            target.objects.write(name, content)


def _bring_accepted(source: Store, target: Store, record: Record) -> None:
    accepted = source.acceptances.about(record.identity)
    known = target.acceptances.about(record.identity) if accepted else []
    _bring_code(source, target, {entry.code for entry in accepted if entry not in known})
    for entry in accepted:
        if entry not in known:
            target.acceptances.add(record.identity, entry)


def _bring_ancestors(plan: Mirroring) -> None:
    """Copy the ancestors' records to the place where lineage looks for outputs that are gone."""
    known = {f"{SUPERSEDED}/{name}" for name in plan.target.objects.list(SUPERSEDED)}
    for record in plan.ancestors:
        name = mirrored_name(record.identity, record.root)
        if name not in known:
            known_there = replace(record, mirrored=[*record.mirrored, _mirrored(plan.source, record)])
            plan.target.objects.write(name, known_there.to_bytes())
