"""From a finished attempt to a committed output: manifest and record, in an order that no crash can spoil."""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from marin.errors import CorruptOutput, RevokedBytes
from marin.executor.job import Job
from marin.plan.missing import describe_fields
from marin.steps.artifact import Artifact
from marin.store.ends import Claim, Held, Watch, take
from marin.store.files.manifest import FileEntry, content_digest, manifest_bytes, root_digest
from marin.store.files.verify import Check, Checked, manifest_and_stamps
from marin.store.layout import MANIFEST, RECORD, attempt_directory
from marin.store.objects.errors import control_errors
from marin.store.process import this_process
from marin.store.record import Acceptance, Input, Observed, Provenance, Record
from marin.store.redaction import redacted, without_credentials
from marin.store.revocation import revoked_bytes
from marin.store.store import Store

WORTH_SYNCING = 1.0  # seconds of work; repeating less work costs hardly more than syncing its files


def take_step(store: Store, job: Job, watch: Watch | None = None) -> Held | Claim | Record:
    """Begin an attempt at a job's step: see ``take``. Raises StoreError, CorruptRecord.

    watch: judges whether another holder is dead, if the job does not say so.
    """
    step = job.step
    is_dead = job.is_dead if watch is None else functools.partial(watch.is_dead, step.identity)
    attempt_of = functools.partial(attempt_directory, step.op, step.label, step.identity)
    return take_new(store, step.identity, attempt_of, is_dead, job.after)


def take_new(
    store: Store, identity: str, attempt_of: Callable[[int], str], is_dead: Callable[[Claim], bool], after: int
) -> Held | Claim | Record:
    """Begin an attempt like ``take``, in a directory that does not exist yet."""
    while isinstance(taken := take(store.objects, identity, attempt_of, is_dead, after), Held):
        try:
            with control_errors(Path(store.prefix)):
                is_new = not (store.directory / taken.attempt).exists()
        except BaseException:
            taken.release()
            raise
        if is_new:
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
    store.objects.write(f"{name}/{MANIFEST}", manifest_bytes(entries))
    worth = costly or time.time() - started >= WORTH_SYNCING
    _commit(store, held, record, [MANIFEST, *(entry.path for entry in entries)] if worth else [])
    if record.action:
        store.note_action(record)
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
    manifest = list(entries)
    store.objects.write(f"{record.attempt}/{MANIFEST}", manifest_bytes(manifest))
    # The copy crossed a network, and the source may soon be gone.
    _commit(store, held, record, [MANIFEST, *(entry.path for entry in manifest)])
    if record.action:
        store.note_action(record)


def _commit(store: Store, held: Held, record: Record, durable: Iterable[str]) -> None:
    """Write the record into the output's directory, and then as the end of the attempt: the point of no return.

    durable: files of the output that must survive a power cut; both records then survive it too.
    """
    content = record.to_bytes()
    store.objects.write(f"{held.attempt}/{RECORD}", content)
    lasting = [f"{held.attempt}/{name}" for name in durable]
    if lasting:
        store.objects.make_durable([*lasting, f"{held.attempt}/{RECORD}"])
    held.commit(content, lasting=bool(lasting))


def _provenance(job: Job, started: float, notes: Sequence[str] = ()) -> Provenance:
    holder = this_process()
    return Provenance(
        who=holder.user,
        host=holder.host,
        started=time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(started)),
        seconds=round(time.time() - started, 3),
        experiment=job.experiment,
        git=job.git,
        because=redacted(job.because),
        scale=job.scale,
        changes=[redacted(line) for line in job.changes],
        notes=list(notes),
    )
