"""Where a store keeps what: the path of every control file, relative to the store's prefix.

::

    {prefix}/{op}/{label}-{identity[:12]}.{token}/   files of an attempt, and below its .marin/ RECORD, MANIFEST, LOG …
    {prefix}/.marin/records/<identity>.json          the commit; one listing answers "what exists"
    {prefix}/.marin/leases/<identity>.json           who is writing; every change is conditional
    {prefix}/.marin/index/records-<digit>            packs of records, a pure cache: see store.record_packs
    {prefix}/.marin/actions/<action>-<identity>      which outputs an action has given (the name is all): early cutoff
    {prefix}/.marin/superseded/<identity>.<token>.json   records that a rebuild replaced or gc took, for lineage
    {prefix}/.marin/superseded/<identity>.mirrored-<root>.json   of what mirrored outputs were made from elsewhere
    {prefix}/.marin/revocations/<root>.jsonl         bytes that somebody declared bad, with the reason
    {prefix}/.marin/stamps/<op>--<attempt>           times of files that were touched, verified and found right
    {prefix}/.marin/verified/<time>-<…>.json         which outputs `marin audit --bytes` found right, when
    {prefix}/.marin/code/<digest>.json               what a code fingerprint is made of, by its digest
    {prefix}/.marin/outside/<digest>.json            what outside data was made of, by its digest
    {prefix}/.marin/accepted/<identity>.jsonl        drift that somebody accepted, with the reason
    {prefix}/.marin/state/<identity>/                work in progress that survives attempts
    {prefix}/.marin/uses/, gc.json, gc/              what runs need, and what gc is taking away: see store.in_use
    {prefix}/.marin/runs/<time>-<experiment>.jsonl   events of each run
    {prefix}/.marin/pages/<experiment>.html          the experiment's page
    {prefix}/.marin/locks/                           on a disk: one writer of a control file at a time
"""

from __future__ import annotations

import re

OWN = ".marin"  # the store's own files, below its prefix and in every output

RECORDS = f"{OWN}/records"
LEASES = f"{OWN}/leases"
INDEX = f"{OWN}/index"
ACTIONS = f"{OWN}/actions"
SUPERSEDED = f"{OWN}/superseded"
REVOCATIONS = f"{OWN}/revocations"
STAMPS = f"{OWN}/stamps"
VERIFIED = f"{OWN}/verified"
CODE = f"{OWN}/code"
OUTSIDE = f"{OWN}/outside"
ACCEPTED = f"{OWN}/accepted"
STATE = f"{OWN}/state"
USES = f"{OWN}/uses"
GC = f"{OWN}/gc"
GC_BATCH = f"{OWN}/gc.json"
RUNS = f"{OWN}/runs"
PAGES = f"{OWN}/pages"
LOCKS = f"{OWN}/locks"
CONDITIONS = f"{OWN}/conditions"  # where a store is asked whether it keeps conditions

# Below an attempt's directory.
RECORD = f"{OWN}/record.json"
MANIFEST = f"{OWN}/manifest.json"
FAILURE = f"{OWN}/failure.json"
LOG = f"{OWN}/log.txt"
MADE_BY = f"{OWN}/made_by.json"  # of work in progress: what it was made by
MIRROR = f"{OWN}/mirror.json"  # what this attempt copies
ARRIVED = f"{OWN}/verified.jsonl"  # each file of it that has arrived whole
PARTIAL = f"{OWN}/partial"  # on a disk: files on their way

LABEL_LENGTH = 60  # characters of a name in a path


def record_name(identity: str) -> str:
    return f"{RECORDS}/{identity}.json"


def lease_name(identity: str) -> str:
    return f"{LEASES}/{identity}.json"


def superseded_name(identity: str, token: str) -> str:
    """token: of the record that was replaced, four digits; or what else tells it from others."""
    return f"{SUPERSEDED}/{identity}.{token}.json"


def action_name(action: str, identity: str) -> str:
    return f"{ACTIONS}/{action}-{identity}"


def stamp_name(attempt: str) -> str:
    return f"{STAMPS}/{attempt.replace('/', '--')}"


def code_name(digest: str) -> str:
    return f"{CODE}/{digest}.json"


def accepted_name(identity: str) -> str:
    return f"{ACCEPTED}/{identity}.jsonl"


def state_name(identity: str) -> str:
    """A folder."""
    return f"{STATE}/{identity}"


def attempt_directory(op: str, label: str, identity: str, token: int) -> str:
    """Where an attempt writes, below the store."""
    return f"{slug(op)}/{f'{slug(label)}-' if label else ''}{identity[:12]}.{token:04d}"


def slug(name: str) -> str:
    """A name that is safe as one path component on every store, and short."""
    safe = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")
    return safe[:LABEL_LENGTH] or "unnamed"
