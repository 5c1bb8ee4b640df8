"""From a finished attempt to a committed output: lease, manifest and record, in an order that no crash can spoil."""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from marin.errors import CorruptOutput, CorruptRecord, DifferentRebuild, MarinError, RevokedBytes
from marin.executor.job import Job
from marin.plan.missing import describe_fields
from marin.steps.artifact import Artifact
from marin.store.files.manifest import FileEntry, content_digest, manifest_bytes, root_digest
from marin.store.files.verify import Check, Checked, manifest_of
from marin.store.layout import MANIFEST, RECORD, attempt_directory, lease_name, record_name
from marin.store.lease import Lease, LeaseDocument, State, Watch, acquire, parse_lease
from marin.store.process import this_process
from marin.store.record import Acceptance, Input, Observed, Provenance, Record
from marin.store.redaction import redacted, without_credentials
from marin.store.revocation import revoked_bytes
from marin.store.store import Store

WORTH_SYNCING = 1.0  # seconds of work; repeating less work costs hardly more than syncing its files


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A wish to commit an output."""

    identity: str
    attempt_of: Callable[[int], str]  # the attempt's directory, by its token
    replaces: str  # the committed attempt that this one replaces, "" if none
    may_take_over: Callable[[LeaseDocument], bool]  # whether the holder of this lease is dead


def take_lease(store: Store, job: Job, watch: Watch | None = None) -> Lease | LeaseDocument | Record:
    """Return the lease, or another holder's lease, or a record committed since the plan was made. Raises StoreError.

    watch: judges whether another holder is dead, if the job does not say so.
    """
    step = job.step
    claim = Claim(
        identity=step.identity,
        attempt_of=lambda token: attempt_directory(step.op, step.label, step.identity, token),
        replaces=job.replaces,
        may_take_over=job.may_take_over if watch is None else functools.partial(watch.is_dead, step.identity),
    )
    return take(store, claim)


def take(store: Store, claim: Claim) -> Lease | LeaseDocument | Record:
    """Return the lease, another holder's lease, or a record that the claim does not replace. Raises StoreError."""
    content = store.objects.read(lease_name(claim.identity))
    now = parse_lease(content, lease_name(claim.identity)) if content else None
    if now is not None and now.state is State.COMMITTED and (newer := _committed_since(store, claim)) is not None:
        return newer
    lease = acquire(store.objects, claim.identity, claim.attempt_of, claim.may_take_over, seen=content)
    if isinstance(lease, LeaseDocument):
        return lease
    try:
        newer = store.visible(claim.identity)
        if lease.before is not None and (newer is None or newer.attempt == claim.replaces):
            newer = store.finish(claim.identity, lease.before) or newer  # a driver was between its last two writes
        if newer is not None and newer.attempt == claim.replaces and newer.token >= lease.token:
            lease.raise_token(newer.token, claim.attempt_of)
    except CorruptRecord:
        newer = None  # the plan was told to rebuild this step; the commit replaces the garbled record
    except MarinError:
        lease.release()
        raise
    if newer is None or newer.attempt == claim.replaces:
        return lease
    lease.release()
    return newer


def _committed_since(store: Store, claim: Claim) -> Record | None:
    """Return a record that another driver committed since the plan, and publish it if its writer died before that."""
    try:
        record = store.take_up(claim.identity)
    except CorruptRecord:
        return None
    return None if record is None or record.attempt == claim.replaces else record


def commit(
    job: Job,
    store: Store,
    lease: Lease,
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
    step, name = job.step, lease.document.attempt
    output = store.directory / name
    entries = manifest_of(output)
    facts = without_credentials(json.loads(json.dumps(artifact.facts())))
    root = root_digest(entries, artifact.kind, facts)
    content = content_digest(entries)
    if (revocation := revoked_bytes(store, root, content)) is not None:
        raise RevokedBytes(
            f"{step.name} wrote the very bytes that were {revocation.describe()}. They are not committed: "
            "change the step or its inputs"
        )
    if job.restores is not None and root != job.restores.root:
        raise DifferentRebuild(_about_rebuild(job.restores, name, facts, entries))
    record = Record(
        format=Record.LATEST,
        identity=step.identity,
        op=step.op,
        version=step.version,
        label=step.label,
        attempt=name,
        token=lease.token,
        kind=artifact.kind,
        facts=facts,
        config=json.loads(json.dumps(describe_fields(step))),
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
        stamp=output.stamp(),
        content=content,
        lifetime=job.lifetime,
        observed=observed,
    )
    store.objects.write(f"{name}/{MANIFEST}", manifest_bytes(entries))
    worth = costly or time.time() - started >= WORTH_SYNCING
    _make_visible(store, lease, record, [MANIFEST, *(entry.path for entry in entries)] if worth else [])
    if record.action:
        store.note_action(record)
    return record


def _about_rebuild(deleted: Record, attempt: str, facts: dict[str, Any], entries: list[FileEntry]) -> str:
    then = {**deleted.facts, "files": deleted.files, "bytes of all files": deleted.bytes}
    now = {**facts, "files": len(entries), "bytes of all files": sum(entry.size for entry in entries)}
    other = [f"{key} {then.get(key)} → {now.get(key)}" for key in {**then, **now} if then.get(key) != now.get(key)]
    different = ", ".join(other[:4]) or "as many files and bytes, with other content"
    return (
        f"{deleted.name}: its output {deleted.attempt} was deleted, and its rebuild differs: {different}; the "
        f"rebuild is not committed, and its files are in {attempt}. Put the old folder back from a copy, or take the "
        "new output with "
        f"--rebuild {deleted.name}, which also rebuilds everything made from the old bytes"
    )


def commit_alias(job: Job, original: Record, accepted: Acceptance | None, store: Store) -> Record | LeaseDocument:
    """Let an existing output serve this step too. Nothing runs and nothing is copied.

    accepted: the acceptance under which the original stands, if its code differs from today's. Raises StoreError, or
    CorruptOutput if a pinned output has changed.
    """
    started, step = time.time(), job.step
    lease = take_lease(store, job)
    if isinstance(lease, LeaseDocument | Record):
        return lease
    try:
        if step.pin is not None and (wrong := store.verify(original, Check.CHECKSUMS)):
            raise CorruptOutput(f"the pinned output {original.attempt} is damaged: {'; '.join(wrong[:3])}")
        inputs = [original] if step.pin is not None else list(job.inputs.values())
        record = replace(
            original,
            identity=step.identity,
            op=step.op,
            version=step.version,
            label=step.label,
            token=lease.token,
            config=json.loads(json.dumps(describe_fields(step))),
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
            store.accept(step.identity, replace(accepted, inputs=here, because=because))
        _make_visible(store, lease, record)
    except BaseException:
        lease.release()
        raise
    return record


def commit_mirrored(store: Store, lease: Lease, record: Record, entries: Iterable[FileEntry]) -> None:
    """Make a verified copy the committed output here. entries: its manifest; none for an alias. Raises LeaseLost."""
    if (revocation := revoked_bytes(store, record.root, record.content)) is not None:
        raise RevokedBytes(
            f"{record.name} holds the very bytes that were {revocation.describe()}. They are not committed"
        )
    durable: list[str] = []
    if not record.alias_of:
        manifest = list(entries)
        store.objects.write(f"{record.attempt}/{MANIFEST}", manifest_bytes(manifest))
        durable = [
            MANIFEST,
            *(entry.path for entry in manifest),
        ]  # the copy crossed a network, and the source may soon be gone
    _make_visible(store, lease, record, durable)
    if record.action and not record.alias_of:
        store.note_action(record)


def _make_visible(store: Store, lease: Lease, record: Record, durable: Iterable[str] = ()) -> None:
    """Write in the one order of a commit: the record in the attempt, the point of no return, the visible record.

    durable: files of the output that must survive a power cut; the three writes then survive it too.
    """
    content, attempt = record.to_bytes(), lease.document.attempt
    store.objects.write(f"{attempt}/{RECORD}", content)
    lasting = [f"{attempt}/{name}" for name in durable]
    if lasting:
        store.objects.make_durable([*lasting, f"{attempt}/{RECORD}"])
    lease.commit()
    store.commit(record, content)
    if lasting:
        store.objects.make_durable([lease_name(record.identity), record_name(record.identity)])


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
