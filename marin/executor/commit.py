"""From a finished attempt to a committed output: manifest and record, in an order that no crash can spoil."""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from marin.errors import CorruptOutput, RevokedBytes
from marin.executor.input_check import compared_in
from marin.executor.job import Job
from marin.plan.missing import describe_fields
from marin.steps.artifact import Artifact
from marin.store.ends import Claim, Held, Watch, take
from marin.store.files.manifest import FileEntry, content_digest, root_digest, with_manifest
from marin.store.files.verify import Check, Checked, manifest_and_stamps
from marin.store.layout import RECORD, attempt_directory
from marin.store.process import this_process
from marin.store.record import Acceptance, Input, Observed, Provenance, Record
from marin.store.redaction import redacted, without_credentials
from marin.store.revocation import revoked_bytes
from marin.store.store import Store

WORTH_SYNCING = 1.0  # seconds of work; repeating less work costs hardly more than syncing its files


def take_step(store: Store, job: Job, watch: Watch | None = None) -> Held | Claim | Record:
    """Begin an attempt at a job's step like ``take``, in a directory that was not there when the step was planned.

    watch: judges whether another holder is dead, if the job does not say so. Raises StoreError, CorruptRecord.
    """
    step, after = job.step, job.after
    is_dead = job.is_dead if watch is None else functools.partial(watch.is_dead, step.identity)
    attempt_of = functools.partial(attempt_directory, step.op, step.label, step.identity)
    while isinstance(taken := take(store.objects, step.identity, attempt_of, is_dead, after), Held):
        if taken.attempt not in job.occupied:
            return taken
        taken.release("its directory was there already: of a store of before, of a mirrored output, or made by hand")
        after = taken.number - 1  # not its number: a store that failed just now may not have taken its end
    return taken


def commit(
    job: Job,
    store: Store,
    held: Held,
    artifact: Artifact,
    started: float,
    checked: Mapping[str, Checked],
    observed: Observed,
    *,
    notes: Sequence[str] = (),
    costly: bool = False,
) -> Record:
    """Describe the attempt's files and make them the committed output. Raises LeaseLost.

    checked: how each input was checked, by identity. observed: further reads of run() that the job does not list.
    notes: messages of run() to people. costly: the output took more work than ``started`` shows.
    """
    step, name = job.step, held.attempt
    output = store.directory / name
    entries, stamps = manifest_and_stamps(output)
    facts = without_credentials(json.loads(json.dumps(artifact.facts())))
    root = root_digest(entries, artifact.kind, facts)
    content = content_digest(entries)
    if (revocation := revoked_bytes(store, root, content)) is not None:
        raise RevokedBytes(
            f"{step.name} wrote the very bytes that were {revocation.describe()}. They are not committed: "
            "change the step or its inputs"
        )
    record = Record(
        format=Record.LATEST,
        identity=step.identity,
        op=step.op,
        version=step.version,
        label=step.label,
        attempt=name,
        token=held.number,
        kind=artifact.kind,
        facts=facts,
        config=describe_fields(step),
        inputs=[
            Input(name=read.name, identity=read.identity, root=read.root, checked=checked[read.identity])
            for read in job.inputs.values()
        ],
        outside=job.outside,
        code=job.code,
        packages=job.packages,
        root=root,
        files=len(entries),
        bytes=sum(entry.size for entry in entries),
        provenance=_provenance(job, started, notes),
        action=job.action,
        stamp=output.stamp(stamps),
        content=content,
        lifetime=job.lifetime,
        observed=observed,
    )
    _commit(store, held, record, entries, lasting=costly or time.time() - started >= WORTH_SYNCING)
    # On a disk, a later write within the same tick of the clock would not show, so a step that reads this compares it.
    if not output.is_local:
        compared_in(job.run.name)[output.url, root] = stamps
    return record


def commit_alias(job: Job, original: Record, accepted: Acceptance | None, store: Store) -> Record | Claim:
    """Let an existing output serve this step too. Nothing runs and nothing is copied.

    accepted: the acceptance under which the original stands, if its code differs from today's. Raises StoreError, or
    CorruptOutput if a pinned output has changed.
    """
    started, step = time.time(), job.step
    taken = take_step(store, job)
    if not isinstance(taken, Held):
        return taken
    try:
        if step.pin is not None:
            taken.start_beating()  # reading every byte may take longer than a claim without a beat lasts
            if wrong := store.verify(original, Check.CHECKSUMS):
                raise CorruptOutput(f"the pinned output {original.attempt} is damaged: {'; '.join(wrong[:3])}")
        inputs = [original] if step.pin is not None else list(job.inputs.values())
        record = replace(
            original,
            identity=step.identity,
            op=step.op,
            version=step.version,
            label=step.label,
            token=taken.number,
            config=describe_fields(step),
            inputs=[Input(name=read.name, identity=read.identity, root=read.root) for read in inputs],
            code=job.code if step.pin is not None else original.code,
            outside=job.outside if step.pin is not None else original.outside,
            alias_of=original.alias_of or original.identity,
            provenance=_provenance(job, started),
            lifetime=job.lifetime,
            mirrored=[],
        )
        if accepted is not None:
            here = {read.identity: read.root for read in record.inputs}
            because = f"{accepted.because} (accepted for {original.name} {original.identity[:12]})"
            store.acceptances.add(step.identity, replace(accepted, inputs=here, because=because))
        taken.commit(record.to_bytes())
    except BaseException:
        taken.release()
        raise
    return record


def commit_mirrored(store: Store, held: Held, record: Record, entries: Iterable[FileEntry]) -> None:
    """Make a verified copy the committed output here. entries: its manifest; none for an alias. Raises LeaseLost."""
    if (revocation := revoked_bytes(store, record.root, record.content)) is not None:
        raise RevokedBytes(
            f"{record.name} holds the very bytes that were {revocation.describe()}. marin did not mirror them; if the "
            "revocation was a mistake: `marin revoke STEP --withdraw --because REASON`"
        )
    if record.alias_of:
        return held.commit(record.to_bytes())
    _commit(store, held, record, list(entries), lasting=True)  # it crossed a network, and the source may soon be gone


def _commit(store: Store, held: Held, record: Record, entries: Sequence[FileEntry], *, lasting: bool) -> None:
    """Write record and manifest into the output's directory, and the record as its end: the point of no return.

    lasting: the output's files and both records survive a power cut.
    """
    content, described = record.to_bytes(), f"{held.attempt}/{RECORD}"
    store.objects.write(described, with_manifest(content, entries))
    if lasting:
        store.objects.make_durable([*(f"{held.attempt}/{entry.path}" for entry in entries), described])
    held.commit(content, lasting=lasting)
    if record.action:
        store.note_action(record)


def _provenance(job: Job, started: float, notes: Sequence[str] = ()) -> Provenance:
    holder = this_process()
    return Provenance(
        who=holder.user,
        host=holder.host,
        started=time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(started)),
        seconds=round(time.time() - started, 3),
        experiment=job.run.experiment,
        git=job.run.git,
        because=redacted(job.because),
        scale=job.scale,
        changes=[redacted(line) for line in job.changes],
        notes=list(notes),
    )
