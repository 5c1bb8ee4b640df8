"""The Context that a real attempt passes to run()."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import msgspec

from marin.data.artifacts import Checkpoint
from marin.errors import LeaseLost, MarinError, StoreError
from marin.executor.commit import commit, take_step
from marin.executor.input_check import InputCheck
from marin.executor.job import Job
from marin.fingerprint.fingerprint import CodeFingerprint
from marin.fingerprint.observation.listening import current
from marin.fingerprint.observation.observation import Observation
from marin.fingerprint.of_step import code_fingerprint
from marin.plan.digests import Digests
from marin.plan.observed import Present, describe
from marin.steps.artifact import Artifact, artifact_from
from marin.steps.resources import ALONE, Host
from marin.steps.step import ExecutorStep
from marin.store.ends import Held, Watch, take_in_turn
from marin.store.files.directory import Directory
from marin.store.files.walk import must_hold_files
from marin.store.layout import LOG
from marin.store.record import Observed, Record, WorkInProgress
from marin.store.redaction import redacted
from marin.store.store import Store

if TYPE_CHECKING:
    from marin.executor.backends.gang import Gang
    from marin.executor.shards import Made
    from marin.store.files.staging import Staging

PARTS = "shards"  # folder in the work in progress
MARK_SECONDS = 5.0  # of work that may be lost when a process dies
NOTE_SECONDS = 30.0  # between two notes of the reads of an attempt with work in progress

type Told = Callable[[int, Any], None]
type Mapper = Callable[[Callable[[Any], Any], Sequence[Any], Told], Any]
type Hosts = Gang  # hosts that are reserved for one attempt, which runs on the first one


class StepContext:
    def __init__(self, job: Job, store: Store, held: Held, mapper: Mapper, hosts: Hosts | None = None) -> None:
        self.out = store.directory / held.attempt
        self.used_state = False
        self.outside: Mapping[str, str] = {}  # outside data that the step declares before it runs
        self._staging: Staging | None = None
        self._begun: WorkInProgress
        self._noted = -NOTE_SECONDS
        self.milestones: Sequence[int] = sorted(job.milestones)
        self.tracker, self.profile = job.run.tracker, job.run.profile
        self.code = job.code
        self.accelerator = hosts.accelerator if hosts is not None else job.step.resources.accelerator
        self.began_at = 0.0  # the first progress that it reported
        self.notes: list[str] = []
        self._hosts, self._has_begun = hosts, False
        self._job, self._store, self._held, self._mapper = job, store, held, mapper
        self.input_check = InputCheck(store, job)

    @property
    def state(self) -> Directory:
        """Return the work in progress. On first use, compare it with the attempt that began it, and mark it."""
        if self.used_state:
            return self._state
        job, identity = self._job, self._job.step.identity
        begun = WorkInProgress(
            code=job.code,
            inputs={read.identity: read.root for read in job.inputs.values()},
            outside=job.outside,
            replaces=job.replaces,
        )
        found = self._store.state_marker(identity)
        observed = found.observed if found is not None else Observed()
        same = found == msgspec.structs.replace(begun, observed=observed)
        now = Present(type(job.step), Digests()).of(observed)
        if found is None:
            self._store.clear_state(identity)  # the rest of a removal that was cut short
        elif (same and observed == now) or job.keep_state:
            observed = now  # a person has accepted the difference, if there is one
        else:
            self.log("the work in progress came from other code or other inputs: it is thrown away, starting over")
            observed = Observed()
            self._store.clear_state(identity)
        self._begun = msgspec.structs.replace(begun, observed=observed)
        if found != self._begun:
            self._store.mark_state(identity, self._begun)
        self.used_state = True
        return self._state

    def note_reads(self, seen: Observation) -> None:
        """Record the reads of this attempt and of earlier ones, beside unfinished work in progress."""
        if self.used_state:
            observed = self.observed(seen, code_fingerprint(self._job.step), failed=True)
            self._store.mark_state(self._job.step.identity, msgspec.structs.replace(self._begun, observed=observed))

    def observed(self, seen: Observation, code: CodeFingerprint, *, failed: bool = False) -> Observed:
        """Return what this attempt has read, and the earlier attempts whose work it continues."""
        now = describe(self._job.step, seen, code, self.outside, failed=failed)
        return self._begun.observed.joined(now) if self.used_state else now

    def __getitem__[A: Artifact](self, step: ExecutorStep[A]) -> A:
        record = self._job.inputs.get(step.identity)
        if record is None:
            raise KeyError(f"{self._job.step.name} reads {step.name}, which is not one of its fields")
        made = artifact_from(record.kind, record.facts, self._store.output(record))
        return made  # pyright: ignore[reportReturnType]

    def map[T, R](self, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
        done = 0

        def told(_at: int, _result: Any) -> None:
            nonlocal done
            done += 1
            self.progress(done, len(items), "tasks")

        if self.out.is_local:
            return self._mapper(work, items, told)
        from marin.executor.shards import Shipped
        from marin.store.files.written import note

        found = self._mapper(Shipped(work=work, out=self.out.url), items, told)
        for _, files in found:
            note(files)
        return [result for result, _ in found]

    def write_shards[T, R](
        self, work: Callable[[T, Directory], R], items: Sequence[T], kind: type[R], by: Mapper | None = None
    ) -> list[R]:
        from marin.executor.shards import MakeShard, Shards

        shards = Shards(self.state / PARTS, len(items), kind)
        missing, marked = shards.missing, time.monotonic()
        if len(missing) < len(items):
            self.log(f"{len(items) - len(missing)} of {len(items)} shards were made by an attempt before this one")

        def mark() -> None:
            nonlocal marked
            if (seen := current()) is not None:
                self.note_reads(seen)
            shards.mark()
            marked = time.monotonic()

        def told(at: int, made: Made) -> None:
            self._still_ours()  # else the mark would claim a shard that the other attempt is making
            shards.add(missing[at], made)
            if time.monotonic() >= marked + MARK_SECONDS:
                mark()
            self.progress(shards.done, len(items), "shards")

        try:
            (by or self._mapper)(MakeShard(work), [(items[at], shards.folder(at)) for at in missing], told)
        finally:
            if not self._held.lost:
                mark()
        return shards.move_to(self.out)

    @contextmanager
    def staged(self) -> Generator[None]:
        """Replace directories on an object store by local folders meanwhile; see marin.store.files.staging.

        If run() fails, staged work in progress is kept, unless another driver has taken the step over by then.
        """
        if self.out.is_local:
            yield
            return
        from marin.store.files.staging import staging
        from marin.store.files.written import forget

        with staging(self.out.url) as out, staging(self._state.url, filled=True) as state:
            self._staging = out
            try:
                yield
            except BaseException:
                if not self._held.lost:
                    with suppress(MarinError, OSError):
                        state.deliver()
                raise
            finally:
                forget(self.out.url)
                forget(self._state.url)

    def deliver(self) -> None:
        """Upload the files that run() wrote below ``out.path``, if the output is on an object store."""
        self._still_ours()
        if self._staging is not None:
            self._staging.must_hold_files()
            self._staging.deliver()

    @property
    def _state(self) -> Directory:
        return self._store.state(self._job.step.identity)

    def on_hosts[R](self, lead: Callable[[Host], R], follow: Callable[[Host], object]) -> R:
        return lead(ALONE) if self._hosts is None else self._hosts.run(lead, follow)

    def progress(self, done: float, total: float, unit: str, note: str = "") -> None:
        self._still_ours()
        if not self._has_begun:
            self.began_at, self._has_begun = done, True
        now = time.monotonic()
        if self.used_state and now >= self._noted + NOTE_SECONDS and (seen := current()) is not None:
            self._noted = now
            with suppress(MarinError, OSError):  # the end of the attempt notes all reads, unless it is killed before
                self.note_reads(seen)
        self._held.progress = f"{done:,.0f}/{total:,.0f} {unit}" + (f" · {redacted(note)}" if note else "")

    def log(self, message: str) -> None:
        self._still_ours()
        line = f"{time.strftime('%H:%M:%S')} {message}\n"
        self._store.log(f"{self._held.attempt}/{LOG}", line.encode(errors="backslashreplace"))

    def note(self, message: str) -> None:
        self.log(message)
        self.notes.append(redacted(message))

    def publish(self, milestone: ExecutorStep[Checkpoint], artifact: Checkpoint, source: Directory) -> None:
        self._still_ours()
        job = next((each for each in self._job.milestones.values() if each.step == milestone), None)
        if job is None:
            raise KeyError(f"{milestone.name} is not a milestone that anybody requested from {self._job.step.name}")
        watch = Watch()  # a worker that died on another machine may have left an unwatched claim
        held = take_in_turn(lambda: take_step(self._store, job, watch), lambda _: self._still_ours())
        if isinstance(held, Record):
            return  # a worker that died had published it already, and its dependents may be reading it
        started = time.time()
        held.start_beating()
        try:
            line = f"{time.strftime('%H:%M:%S')} published by {self._held.attempt}\n"
            self._store.objects.append(f"{held.attempt}/{LOG}", line.encode())
            must_hold_files(source.url)
            source.share(source.names(), self._store.directory / held.attempt)
            self.input_check.end()
            seen, checked = current(), self.input_check.checked
            observed = Observed() if seen is None else self.observed(seen, code_fingerprint(self._job.step))
            commit(job, self._store, held, artifact, started, checked, observed, notes=self.notes, costly=True)
        except BaseException:
            held.release()
            raise
        with suppress(StoreError):
            self._store.objects.flush(f"{held.attempt}/{LOG}")

    def _still_ours(self) -> None:
        if self._held.lost:
            raise LeaseLost(self._held.lost)
