"""The layout of a store: the path of every control file, relative to the store's prefix.

::

    {prefix}/{op}/{label}-{identity[:12]}.{n}/   files of an attempt, and below its .marin/ RECORD, LOG …
    {prefix}/.marin/claims/<identity>.<n>.json       who makes attempt n; created once, with the holder's beat
    {prefix}/.marin/ends/<identity>.<n>.json         how attempt n ended; the end of a committed attempt is its record
    {prefix}/.marin/index/ends-<digit>               packs of ends, a pure cache: see store.packs
    {prefix}/.marin/actions/<action>-<identity>      outputs of an action (empty files, for early cutoff)
    {prefix}/.marin/superseded/<identity>.mirrored-<root>.json   records of ancestors of mirrored outputs
    {prefix}/.marin/revocations/<root>.<time>.jsonl  bytes that a person declared bad, with the reason
    {prefix}/.marin/stamps/<op>--<attempt>           times of files that were touched, verified and found right
    {prefix}/.marin/verified/<time>-<…>.json         outputs that `marin audit --bytes` found right, and when
    {prefix}/.marin/code/<digest>.json               the parts of a code fingerprint, by its digest
    {prefix}/.marin/outside/<digest>.json            the parts of outside data, by its digest
    {prefix}/.marin/accepted/<identity>.<time>.jsonl drift that a person accepted, with the reason
    {prefix}/.marin/state/<identity>/                work in progress that survives attempts
    {prefix}/.marin/uses/<run>.json, <run>.beat      needs of runs, and signs of life: see store.in_use
    {prefix}/.marin/runs/<time>-<experiment>.jsonl   events of each run
    {prefix}/.marin/pages/<experiment>.html          the experiment's page

Stores that marin made before December 2026 also hold ``records/``, ``leases/`` and ``superseded/``: see store.earlier.
"""

from __future__ import annotations

import re

OWN = ".marin"  # the store's own files, below its prefix and in every output

CLAIMS = f"{OWN}/claims"
ENDS = f"{OWN}/ends"
RECORDS, LEASES = f"{OWN}/records", f"{OWN}/leases"  # only in stores of before
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
GC = f"{OWN}/gc"  # only a name: the ends of `marin gc` need a directory
RUNS = f"{OWN}/runs"
PAGES = f"{OWN}/pages"
CONDITIONS = f"{OWN}/conditions"  # for the test whether a store honours conditions

# Below an attempt's directory.
RECORD = f"{OWN}/record.json"  # the record as its end has it, and one more key: the manifest
MANIFEST = f"{OWN}/manifest.json"  # only in stores of before
FAILURE = f"{OWN}/failure.json"
LOG = f"{OWN}/log.txt"
MADE_BY = f"{OWN}/made_by.json"  # code and inputs of work in progress
MIRROR = f"{OWN}/mirror.json"  # the output that this attempt copies
PARTIAL = f"{OWN}/partial"  # on a disk: files that are being copied

LABEL_LENGTH = 60  # characters of a name in a path


def claim_name(identity: str, number: int) -> str:
    return f"{CLAIMS}/{identity}.{number:04d}.json"


def end_name(identity: str, number: int) -> str:
    return f"{ENDS}/{identity}.{number:04d}.json"


def numbered(name: str) -> tuple[str, int]:
    """Return the identity and the number of an attempt, from the name of its claim or end."""
    identity, _, number = name.removesuffix(".json").partition(".")
    return identity, int(number) if number.isdecimal() else 0


def mirrored_name(identity: str, root: str) -> str:
    """Return the name of the record of an ancestor whose bytes stayed in the store that was mirrored."""
    return f"{SUPERSEDED}/{identity}.mirrored-{root[:16]}.json"


def action_name(action: str, identity: str) -> str:
    return f"{ACTIONS}/{action}-{identity}"


def stamp_name(attempt: str) -> str:
    return f"{STAMPS}/{attempt.replace('/', '--')}"


def code_name(digest: str) -> str:
    return f"{CODE}/{digest}.json"


def state_name(identity: str) -> str:
    """Return the folder of a step's work in progress."""
    return f"{STATE}/{identity}"


def attempt_directory(op: str, label: str, identity: str, number: int) -> str:
    """Return the directory of an attempt, below the store."""
    return f"{slug(op)}/{f'{slug(label)}-' if label else ''}{identity[:12]}.{number:04d}"


def slug(name: str) -> str:
    """Return a short name that is safe as one path component on every store."""
    safe = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")
    return safe[:LABEL_LENGTH] or "unnamed"
