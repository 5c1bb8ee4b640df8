"""One attempt at one step: take the lease, run, describe what was written, commit. Runs in a worker."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from marin.artifact import Artifact, Checkpoint
from marin.directory import Directory
from marin.errors import CodeChanged, CorruptOutput, CorruptRecord, LeaseLost, MarinError, StepFailed, StoreError
from marin.fingerprint import code_fingerprint
from marin.lease import Held, Lease, LeaseDocument, acquire, this_process
from marin.objects import store_errors
from marin.reasons import describe_fields
from marin.record import (
    FAILURE,
    FORMAT,
    LOG,
    MANIFEST,
    RECORD,
    Input,
    Provenance,
    Record,
    manifest_bytes,
    manifest_of,
    root_digest,
)
from marin.step import ExecutorStep
from marin.store import MadeBy, Store

type Mapper = Callable[[Callable[[Any], Any], Sequence[Any]], list[Any]]
type Capture = Callable[[str], AbstractContextManager[None]]


def no_capture(_: str) -> AbstractContextManager[None]:
    return nullcontext()


@dataclass(frozen=True, kw_only=True)
class Job:
    """Everything a worker needs to make one step.

    code, packages, outside: what builds it, as fingerprinted by the driver. inputs: the dependencies'
    records, by identity. replaces: the attempt that the plan saw committed ("" if none); another one
    found at run time is newer and stands. milestones: what to commit at which optimizer step, while
    running. keep_state: go on with work in progress that other code began (accepted by a person); otherwise
    such work is thrown away. presumed_dead: (token, beat) of a foreign lease that the driver watched stand still.
    """

    prefix: str
    step: ExecutorStep[Any]
    code: str
    packages: dict[str, str]
    outside: dict[str, str]
    inputs: dict[str, Record]
    replaces: str
    milestones: dict[int, Job] = field(default_factory=dict["int", "Job"])
    keep_state: bool = False
    presumed_dead: tuple[int, int] | None = None
    experiment: str = ""
    git: str = ""

    def may_take_over(self, lease: LeaseDocument) -> bool:
        return lease.holder.is_gone() or (lease.token, lease.beat) == self.presumed_dead


class Ending(StrEnum):
    DONE = "done"
    CACHED = "cached"
    HELD = "held"
    FAILED = "failed"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """error: one line; details: the traceback. log: where the attempt's log is."""

    ending: Ending
    record: Record | None = None
    error: str = ""
    details: str = ""
    log: str = ""
    held_by: str = ""
    seconds: float = 0.0


def attempt(job: Job, mapper: Mapper, capture: Capture = no_capture) -> Outcome:
    """Make the step unless somebody else has it. Never raises for what run() does wrong.

    capture(path): a context in which the process's output goes to that log file, where the backend can do that.
    """
    store = Store(job.prefix)
    step = job.step
    try:
        lease = take_lease(store, job)
    except MarinError as error:
        return Outcome(ending=Ending.FAILED, error=f"{type(error).__name__}: {error}")
    if isinstance(lease, Held):
        return Outcome(ending=Ending.HELD, held_by=lease.by.describe())
    if isinstance(lease, Record):
        return Outcome(ending=Ending.CACHED, record=lease)
    started = time.time()
    out = store.directory / lease.document.attempt
    log = f"{lease.document.attempt}/{LOG}"
    context = StepContext(job, store, lease, out, mapper)
    try:
        with store_errors(store.prefix):
            context.log(f"{step.name} {step.identity} token {lease.token} on {this_process()}")
            check_code(job)
            context.check_inputs()
        lease.start_beating(context.stop_on_loss(threading.get_ident()))
        with store_errors(store.prefix), capture(f"{store.prefix}/{log}"):
            artifact = step.run(context)
            if not isinstance(artifact, Artifact):
                raise StepFailed(f"{step.name}: run() returned {type(artifact).__name__}; it must return an Artifact")
            record = commit(job, store, lease, artifact, started)
            if context.used_state:
                store.clear_state(step.identity)
        return Outcome(ending=Ending.DONE, record=record, log=log, seconds=time.time() - started)
    except BaseException as error:
        outcome = _failed(job, store, lease, error, log, time.time() - started)
        lease.release()
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        return outcome


def take_lease(store: Store, job: Job) -> Lease | Held | Record:
    """The lease, or who has it, or what somebody committed since the plan was made. Raises StoreError."""
    step = job.step
    lease = acquire(store.objects, step.identity, lambda token: store.attempt_name(step, token), job.may_take_over)
    if isinstance(lease, Held):
        return lease
    try:
        newer = store.record(step.identity)
        if lease.before is not None and (newer is None or newer.attempt == job.replaces):
            newer = store.finish(lease.before)  # we came between the two writes of another's commit
    except CorruptRecord:
        newer = None  # the plan was told to make this step again; the commit replaces the garbled record
    except MarinError:
        lease.release()
        raise
    if newer is None or newer.attempt == job.replaces:
        return lease
    lease.release()
    return newer


def check_code(job: Job) -> None:
    """The code that this process read must be the code that was planned. Raises CodeChanged.

    A worker that starts after somebody edited a file would otherwise make an output whose record names other code.
    Operators of a notebook or an interactive session travel with the job, so they are what was planned.
    """
    if type(job.step).__module__ == "__main__":
        return
    digest = code_fingerprint(job.step).digest
    if digest != job.code:
        raise CodeChanged(
            f"the code of {job.step.name} changed between planning and running ({job.code[:12]} → {digest[:12]}); "
            "run again: the plan will say what changed"
        )


def commit(job: Job, store: Store, lease: Lease, artifact: Artifact, started: float) -> Record:
    """Describe the attempt's files and make them the committed output. Raises LeaseLost."""
    step, name = job.step, lease.document.attempt
    entries = manifest_of(store.directory / name)
    facts = json.loads(json.dumps(artifact.facts()))
    holder = this_process()
    record = Record(
        format=FORMAT,
        identity=step.identity,
        op=step.op,
        version=step.version,
        label=step.label,
        attempt=name,
        token=lease.token,
        kind=artifact.kind,
        facts=facts,
        config=json.loads(json.dumps(describe_fields(step))),
        inputs=[Input(name=held.name, identity=held.identity, root=held.root) for held in job.inputs.values()],
        outside=job.outside,
        code=job.code,
        packages=job.packages,
        root=root_digest(entries, artifact.kind, facts),
        files=len(entries),
        bytes=sum(entry.size for entry in entries),
        provenance=Provenance(
            who=holder.user,
            host=holder.host,
            started=time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(started)),
            seconds=round(time.time() - started, 3),
            experiment=job.experiment,
            git=job.git,
        ),
    )
    store.objects.write(f"{name}/{MANIFEST}", manifest_bytes(entries))
    store.objects.write(f"{name}/{RECORD}", record.to_bytes())
    lease.commit()
    store.commit(record)
    return record


def _failed(job: Job, store: Store, lease: Lease, error: BaseException, log: str, seconds: float) -> Outcome:
    details = "".join(traceback.format_exception(error))
    if lease.lost:
        error = LeaseLost(lease.lost)
    line = f"{type(error).__name__}: {error}"
    if not isinstance(error, MarinError):
        line = f"{line.splitlines()[0]} (in {_place(error)})"
    try:
        store.objects.append(log, details.encode())
        failure = {"error": line, "when": time.strftime("%Y-%m-%d %H:%M:%S"), "seconds": round(seconds, 3)}
        store.objects.write(f"{lease.document.attempt}/{FAILURE}", json.dumps(failure).encode())
    except StoreError:
        details += "\n(the store could not take the failure report)"
    return Outcome(ending=Ending.FAILED, error=line, details=details, log=log, seconds=seconds)


def _place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f"{os.path.basename(frames[-1].filename)}:{frames[-1].lineno}" if frames else "unknown place"


class StepContext:
    """The Context that a real attempt hands to run()."""

    def __init__(self, job: Job, store: Store, lease: Lease, out: Directory, mapper: Mapper) -> None:
        self.out = out
        self.used_state = False
        self.milestones: Sequence[int] = sorted(job.milestones)
        self._job, self._store, self._lease, self._mapper = job, store, lease, mapper
        self._inputs: Mapping[str, Record] = job.inputs

    @property
    def state(self) -> Directory:
        """Checked against what began it, and marked, on first use."""
        if self.used_state:
            return self._store.state(self._job.step.identity)
        job, identity = self._job, self._job.step.identity
        marker = MadeBy(
            code=job.code, inputs={held.identity: held.root for held in job.inputs.values()}, outside=job.outside
        )
        found = self._store.state_marker(identity)
        if found is not None and found != marker and not job.keep_state:
            self.log("the work in progress was made by other code or from other inputs: thrown away, starting over")
            self._store.clear_state(identity)
        if found != marker:
            self._store.mark_state(identity, marker)
        self.used_state = True
        return self._store.state(identity)

    def __getitem__[A: Artifact](self, step: ExecutorStep[A]) -> A:
        if step.identity not in self._inputs:
            raise KeyError(f"{self._job.step.name} reads {step.name}, which is not one of its fields")
        return self._store.artifact(self._inputs[step.identity])  # pyright: ignore[reportReturnType]

    def check_inputs(self) -> None:
        """Names and sizes of every input against its manifest, before run() reads a byte. Raises CorruptOutput."""
        for record in self._inputs.values():
            wrong = self._store.verify(record, checksums=False)
            if wrong:
                raise CorruptOutput(
                    f"input {record.name} of {self._job.step.name} is damaged: "
                    f"{'; '.join(wrong[:3])}; {self._store.remedy(record)}"
                )

    def map[T, R](self, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
        return self._mapper(work, items)

    def progress(self, done: float, total: float, unit: str, note: str = "") -> None:
        self._still_ours()
        self._lease.report(f"{done:,.0f}/{total:,.0f} {unit}" + (f" · {note}" if note else ""))

    def log(self, message: str) -> None:
        self._still_ours()
        line = f"{time.strftime('%H:%M:%S')} {message}\n"
        self._store.objects.append(f"{self._lease.document.attempt}/{LOG}", line.encode())

    def publish(self, milestone: ExecutorStep[Checkpoint], artifact: Checkpoint, source: Directory) -> None:
        self._still_ours()
        job = next((held for held in self._job.milestones.values() if held.step == milestone), None)
        if job is None:
            raise KeyError(f"{milestone.name} is not a milestone that anybody asked {self._job.step.name} for")
        lease = take_lease(self._store, job)
        if isinstance(lease, Held):
            raise LeaseLost(f"{milestone.name} is {lease.by.describe()}; two runs may not write one milestone")
        if isinstance(lease, Record):
            return  # a worker that died after publishing it: its dependents may be reading
        started = time.time()
        try:
            copy_files(source, self._store.directory / lease.document.attempt)
            commit(job, self._store, lease, artifact, started)
        except BaseException:
            lease.release()
            raise

    def stop_on_loss(self, thread: int) -> Callable[[str], None]:
        def stop(_: str) -> None:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(LeaseLost))

        return stop

    def _still_ours(self) -> None:
        if self._lease.lost:
            raise LeaseLost(self._lease.lost)


def copy_files(source: Directory, target: Directory) -> None:
    """Every file below source, hard-linked where both are on one local disk."""
    for name in source.names():
        if source.is_local and target.is_local:
            destination = target.path / name
            destination.parent.mkdir(parents=True, exist_ok=True)
            try:
                os.link(source.path / name, destination)
            except OSError:
                shutil.copyfile(source.path / name, destination)
        else:
            target.write_bytes(name, source.read_bytes(name))
