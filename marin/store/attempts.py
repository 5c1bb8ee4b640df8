"""Attempts at steps, committed or not: their status and their logs."""

from __future__ import annotations

import re
from collections.abc import Collection
from contextlib import suppress
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from marin.errors import CorruptRecord, MarinError, UnknownStep, did_you_mean
from marin.store.ends import Claim, End, How, parse_claim, parse_end, read_ends
from marin.store.inventory import must_exist
from marin.store.layout import CLAIMS, ENDS, FAILURE, LOG, RECORD, STATE, claim_name, end_name, slug
from marin.store.lookup import SHORTEST, ambiguous
from marin.store.store import Store

_DIRECTORY = re.compile(r"(?:(?P<label>.+)-)?(?P<short>[0-9a-f]{12})\.(?P<token>\d+)")


class AttemptStatus(StrEnum):
    """The status of an attempt or of a step. Only a step can be queued, corrupt or absent."""

    RUNNING = "running"
    QUEUED = "queued"  # a run has submitted it, and no worker has started it yet
    DEAD = "dead"  # its process is gone; the next run takes over
    FAILED = "failed"
    STOPPED = "stopped"  # a person or a scheduler stopped its run
    UNFINISHED = "unfinished"  # no output and no error: its machine died, or another attempt took over
    CORRUPT = "corrupt"
    COMMITTED = "committed"
    ABSENT = "absent"  # never built, or only an unfinished attempt


class Attempt(Struct, frozen=True):
    """One attempt at a step, known by its directory."""

    directory: str  # below the store
    name: str  # ``op/label``, as far as the directory's name holds it
    short: str  # 12 digits of the identity
    token: int  # counts the attempts of one identity

    @property
    def log(self) -> str:
        return f"{self.directory}/{LOG}"


def parse_attempt(directory: str) -> Attempt | None:
    """Return the attempt with this directory below the store (``train/bison-651fee5ed933.0001``), if it is one."""
    op, _, rest = directory.partition("/")
    found = _DIRECTORY.fullmatch(rest)
    if found is None:
        return None
    name = f"{op}/{found['label'] or found['short'][:8]}"
    return Attempt(directory, name, found["short"], int(found["token"]))


def attempts_called(store: Store, name: str, *, latest: bool = False, holding: str = "") -> list[Attempt]:
    """Return every attempt at the one step that a name means, oldest first.

    name: ``op/label``, label, operator, first digits of an identity, or the path of an attempt. If the name fits
    several identities, the ones that have written the file ``holding`` are preferred, and then the only one that is
    running. If several remain, ``latest`` chooses the newest.
    Raises BadPrefix, UnknownStep with near misses, AmbiguousName with the candidates.
    """
    must_exist(store)
    every = every_attempt(store, name)
    inside = name.removeprefix(f"{store.prefix}/").strip("/")
    here = [each for each in every if inside == each.directory or inside.startswith(f"{each.directory}/")]
    if here:
        return here
    found = [each for each in every if _is_called(each, name)]
    if not found:
        raise UnknownStep(
            f"no step called {name!r} was ever run on the store {store.prefix}; "
            f"{did_you_mean(name, [each.name for each in every])}"
        )
    if holding and len({each.short for each in found}) > 1:
        written = {each.short for each in found if written_by(store, each, holding) is not None}
        found = [each for each in found if each.short in written] or found
    meant = {each.short for each in found}
    if len(meant) > 1:
        claims = _last_claims(store, meant)
        running = [short for short, (claim, is_open) in claims.items() if is_open and not claim.holder.is_gone()]
        begun = {short: claims[short][0].since if short in claims else "" for short in meant}
        recent = running if len(running) == 1 else sorted(meant, key=lambda short: begun[short], reverse=True)
        if len(recent) > 1 and not latest:
            names = {each.short: each.name for each in found}
            lines = [f"{names[short]}  {short}  {begun[short]}" for short in recent]
            raise ambiguous(name, lines, "newest first; give the identity, or --latest")
        meant = set(recent[:1])
    return sorted((each for each in found if each.short in meant), key=lambda each: each.token)


def written_by(store: Store, attempt: Attempt, file: str) -> tuple[str, bytes] | None:
    """Return (name, content) of a file of an attempt or of its step's work in progress; None if neither has it."""
    work = [f"{STATE}/{identity}" for identity in store.objects.list(STATE) if identity.startswith(attempt.short)]
    for place in (attempt.directory, *work):
        if (content := store.objects.read(f"{place}/{file}")) is not None:
            return f"{place}/{file}", content
    return None


def standing(store: Store, attempt: Attempt) -> tuple[AttemptStatus, str]:
    """Return the status of an attempt, and one line about it."""
    claim, is_open = _last_claims(store, {attempt.short}).get(attempt.short, (None, False))
    if claim is not None and is_open and claim.attempt == attempt.directory:
        if claim.holder.is_gone():
            return AttemptStatus.DEAD, f"held by {claim.holder} since {claim.since}; its process is gone"
        return AttemptStatus.RUNNING, f"{claim.holder} since {claim.since} {claim.progress}".rstrip()
    failure = store.failure(attempt.directory)
    if failure is not None:
        return (AttemptStatus.STOPPED if failure.stopped else AttemptStatus.FAILED), failure.describe()
    if store.objects.read(f"{attempt.directory}/{RECORD}") is not None:
        return AttemptStatus.COMMITTED, ""
    return AttemptStatus.UNFINISHED, "it left neither an output nor an error"


def note_stop(store: Store, identity: str, why: str, after: int) -> str:
    """Record why the attempt that has just been stopped was stopped: its worker may not know the reason.

    after: number of the last end before it. Returns the name of the attempt's log, or "" if no attempt was stopped.
    """
    with suppress(MarinError):
        ends = read_ends(store.objects, {identity: after})[identity]
        last = max(ends, default=after)
        end = parse_end(ends.get(last, b""), end_name(identity, last))
        if not isinstance(end, End) or end.how is not How.RELEASED:
            return ""
        if store.objects.read(claim_name(identity, last + 1)) is not None:
            return ""  # the attempt that was stopped has no end
        failure = store.failure(end.attempt)
        if failure is not None and failure.stopped:
            store.objects.write(f"{end.attempt}/{FAILURE}", replace(failure, error=why).to_json())
            return f"{end.attempt}/{LOG}"
    return ""


def _last_claims(store: Store, shorts: Collection[str]) -> dict[str, tuple[Claim, bool]]:
    """Return the last claim on each step, if readable, and whether it has no end, by the identity's first digits."""
    names = {name[:12]: name for name in sorted(store.objects.list(CLAIMS)) if name[:12] in shorts}
    contents = store.objects.read_many([f"{folder}/{name}" for name in names.values() for folder in (CLAIMS, ENDS)])
    found: dict[str, tuple[Claim, bool]] = {}
    for short, name in names.items():
        with suppress(CorruptRecord):
            claim = parse_claim(contents.get(f"{CLAIMS}/{name}", b""), name)
            found[short] = claim, f"{ENDS}/{name}" not in contents
    return found


def every_attempt(store: Store, name: str = "") -> list[Attempt]:
    """Return the attempts of the operator that the name begins with, or else all: one listing for each operator."""
    operators = store.objects.list("")
    op = slug(name.removeprefix(f"{store.prefix}/").partition("/")[0])
    folders = [op] if name and op in operators else operators
    directories = [f"{folder}/{each}" for folder in folders for each in store.objects.list(folder)]
    return [attempt for directory in directories if (attempt := parse_attempt(directory)) is not None]


def _is_called(attempt: Attempt, name: str) -> bool:
    op, label = attempt.name.split("/", 1)
    asked_op, _, asked_label = name.partition("/")
    if op == slug(asked_op) and (not asked_label or label == slug(asked_label)):
        return True
    return label == slug(name) or (len(name) >= SHORTEST and attempt.short.startswith(name[:12]))
