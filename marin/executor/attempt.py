"""One attempt at one step, in a worker: claim it, run, describe the files, commit."""

from __future__ import annotations

import dataclasses
import functools
import logging
import os
import time
from contextlib import nullcontext, suppress
from typing import Any

from msgspec.structs import replace

from marin.errors import (
    CodeChanged,
    EmptyOutput,
    LeaseLost,
    MarinError,
    Preempted,
    ProcessLost,
    StepFailed,
    StoreError,
    missing_dependency,
)
from marin.executor.commit import commit, take_step
from marin.executor.context import Hosts, Mapper, StepContext
from marin.executor.failures import details, failure_line
from marin.executor.job import Ending, Job, Outcome
from marin.executor.log_capture import captured
from marin.executor.signals import SIGNALS
from marin.fingerprint.fingerprint import CodeFingerprint
from marin.fingerprint.observation.listening import observing
from marin.fingerprint.observation.observation import Observation
from marin.fingerprint.of_step import executed, must_match_files
from marin.plan.observed import scope_of
from marin.plan.outside_data import must_be_planned, must_be_the_same
from marin.steps.artifact import Artifact
from marin.steps.step import ExecutorStep
from marin.store.ends import Claim, End, Held, Watch, read_claims
from marin.store.layout import FAILURE, LOG
from marin.store.objects.errors import store_errors
from marin.store.process import this_process
from marin.store.record import Failure, Record
from marin.store.redaction import redacted
from marin.store.store import Store

logger = logging.getLogger(__name__)


def attempt(
    job: Job, mapper: Mapper, *, output_to_log: bool = False, watch: Watch | None = None, hosts: Hosts | None = None
) -> Outcome:
    """Build the step unless somebody else makes it. Never raises for an error in run().

    output_to_log: send the process's output to the attempt's log. watch: judges whether another holder is dead, if the
    job does not say so. hosts: reserved for the attempt, if it runs on an accelerator of a cluster.
    """
    store = _store(job.prefix, os.getpid())
    step = job.step
    try:
        held = take_step(store, job, watch)
    except MarinError as error:
        return Outcome(ending=Ending.FAILED, error=f"{type(error).__name__}: {error}")
    if isinstance(held, Claim):
        return Outcome(ending=Ending.HELD, held_by=held.describe())
    if isinstance(held, Record):
        return Outcome(ending=Ending.CACHED, record=held)
    started = time.time()
    log = f"{held.attempt}/{LOG}"
    context = StepContext(job, store, held, mapper, hosts)
    seen: Observation | None = None
    try:
        held.start_beating()
        with store_errors(store.prefix):
            context.log(f"{step.name} {step.identity} attempt {held.number} on {this_process()}")
            code = check_code(job)
            context.input_check.begin()
            outside = context.outside = must_be_planned(step, job.outside)
            scope = dataclasses.replace(scope_of(type(step), job.prefix), code=frozenset(code.units))
            covered = functools.partial(executed().covered, code=code)
            logger.debug("%s runs %.2f s after its claim", step.name, time.time() - started)
            with captured(store, log) if output_to_log else nullcontext(), context.staged():
                with observing(scope, covered, executed().keeps) as seen:
                    artifact = step.run(context)
                if not isinstance(artifact, Artifact):
                    raise StepFailed(
                        f"{step.name}: run() returned {type(artifact).__name__}; it must return an Artifact"
                    )
                _must_hold_something(step, artifact)
                logger.debug("%s: run() took %.2f s", step.name, time.time() - started)
                must_be_the_same(step, outside)
                observed = context.observed(seen, code)
                context.deliver()
                context.input_check.end()
                record = commit(
                    job, store, held, artifact, started, context.input_check.checked, observed, notes=context.notes
                )
    except BaseException as error:
        held.stop_beating()
        if context.used_state and not held.lost:
            with suppress(MarinError, OSError):
                if context.input_check.was_rewritten():  # the work in progress may come from wrong bytes
                    store.clear_state(step.identity)
                elif seen is not None:
                    context.note_reads(seen)
        outcome = replace(_failed(job, store, held, error, log, time.time() - started), began_at=context.began_at)
        held.release(outcome.error)
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        return outcome
    logger.debug("%s is committed after %.2f s", step.name, time.time() - started)
    with suppress(StoreError):
        store.objects.flush(log)
    if context.used_state:
        with suppress(MarinError, OSError):  # the marker shows that what remains is old, so no attempt continues it
            store.clear_state(step.identity)
    return Outcome(ending=Ending.DONE, record=record, log=log, seconds=time.time() - started)


_COUNTED = {"documents": "documents", "tokens": "documents", "items": "items"}  # by kind: the fact that counts content


def _must_hold_something(step: ExecutorStep[Any], artifact: Artifact) -> None:
    """Raise EmptyOutput for an output without a document or item, unless the step allows an empty output."""
    unit = _COUNTED.get(artifact.kind, "")
    if unit and not artifact.facts()[unit] and not step.may_be_empty:
        raise EmptyOutput(
            f"{step.name}: its output holds no {unit}. Look at its inputs; if they are right, give the step "
            "may_be_empty=True"
        )


@functools.lru_cache(maxsize=4)
def _store(prefix: str, _process: int) -> Store:
    """Return the worker's store for many attempts. One for each process: connections do not survive a fork."""
    return Store(prefix)


def check_code(job: Job) -> CodeFingerprint:
    """Return the code that this process read. Raises CodeChanged if it is not the planned code, and PatchedCode.

    Without this check, a worker that starts after an edit would write an output whose record names other code.
    Operators of a notebook or an interactive session travel with the job, so their code is the planned one.
    """
    code = must_match_files(job.step)
    if type(job.step).__module__ != "__main__" and code.digest != job.code:
        raise CodeChanged(
            f"the code of {job.step.name} changed between planning and running ({job.code[:12]} → {code.digest[:12]}); "
            "run again: the plan will show the change"
        )
    return code


def _failed(job: Job, store: Store, held: Held, error: BaseException, log: str, seconds: float) -> Outcome:
    if held.taken_by is not None:  # the result of the new holder counts, however run() ended here
        now: Claim | End = held.taken_by
        with suppress(StoreError):
            store.log(log, f"{held.lost}\n".encode(errors="backslashreplace"))
            store.objects.flush(log)
            now = read_claims(store.objects, {held.identity: held.number}).get(held.identity, held.taken_by)
        held_by = f"taken over from this driver, which stood still or lost the store; {now.describe()}"
        return Outcome(ending=Ending.HELD, held_by=held_by, log=log, seconds=seconds)
    more = details(error)
    error = missing_dependency(error, job.step.name) or error
    if held.lost:
        error = LeaseLost(held.lost)
    preempted, stopped = isinstance(error, Preempted), isinstance(error, KeyboardInterrupt)
    if stopped:
        more = f"{SIGNALS}\n"
    line = redacted(str(SIGNALS) if stopped else str(error) if preempted else failure_line(error))
    with suppress(StoreError):
        store.log(log, more.encode(errors="backslashreplace"))
        store.objects.flush(log)
        when = time.strftime("%Y-%m-%d %H:%M:%S")
        failure = Failure(error=line, when=when, seconds=round(seconds, 3), stopped=stopped or preempted)
        store.objects.write(f"{held.attempt}/{FAILURE}", failure.to_json())
    ending = Ending.PREEMPTED if preempted else Ending.LOST if isinstance(error, ProcessLost) else Ending.FAILED
    return Outcome(ending=ending, error=line, log=log, seconds=seconds)
