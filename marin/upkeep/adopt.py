"""Adopt outside data as a committed output, and record who adopted it, its source and the reason."""

from __future__ import annotations

import dataclasses
import importlib
import json
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

from msgspec import Struct

from marin.errors import BadField, InputError, Revoked, StepFailed, did_you_mean
from marin.executor.attempt import attempt
from marin.executor.backends.inline import map_here
from marin.executor.job import Ending, Job
from marin.fingerprint.fingerprint import store_code
from marin.fingerprint.of_step import code_fingerprint
from marin.plan.outside_data import outside_of
from marin.steps.artifact import KINDS, Artifact, artifact_from
from marin.steps.misfit import needed_fields
from marin.steps.step import Context, ExecutorStep
from marin.steps.value import execution
from marin.store.ends import LOOK_SECONDS, Watch
from marin.store.files.directory import Directory
from marin.store.files.manifest import FileEntry, content_digest, root_digest
from marin.store.files.transfer import fetch, side_by_side, walk
from marin.store.files.verify import Check, file_entry
from marin.store.files.walk import not_files
from marin.store.inventory import read_inventory
from marin.store.layout import OWN, RECORD
from marin.store.lineage import ADOPT
from marin.store.numbers import write_bytes
from marin.store.record import Record, parse_record
from marin.store.redaction import redacted
from marin.store.revocation import revoked
from marin.store.store import Store
from marin.store.trust import TrustChecker
from marin.upkeep.adopted_facts import facts_of

LARGE = 1 << 30  # bytes: for larger sources the caller gets a message about the wait
OUTPUT_DEPTH = 2  # an output is {prefix}/{op}/{label-identity.token}


class Adopt(ExecutorStep[Artifact], op=ADOPT):
    """A step that copies files from outside the store. It fails if the files changed since they were examined.

    content: digest of every path, size and sha256. facts: the artifact's, as JSON. source: the files' origin, for
    people. folder: the files' place on this machine.
    """

    content: str
    kind: str
    facts: str
    source: str = execution(default="")
    folder: str = execution(default="")

    def outside(self) -> dict[str, str]:
        """Return the digest of the files when they were examined. run() compares every byte that it copies."""
        return {self.source: self.content}

    def run(self, ctx: Context) -> Artifact:
        here = Directory(self.folder)
        names, entries = _names(here), list[FileEntry]()
        for number, name in enumerate(names):
            ctx.progress(number, len(names), "files")
            with ctx.out.open(name, "wb") as writing:
                entries.append(file_entry(here, name, writing.write))
        if content_digest(entries) != self.content:
            raise InputError(f"{self.source} changed while it was being copied; adopt it when nobody writes to it")
        return artifact_from(self.kind, json.loads(self.facts), ctx.out)


class Adopted(Struct, frozen=True):
    """An adopted output. new: False if the store already held the same bytes; ``record`` is then that output's."""

    record: Record
    source: str
    new: bool

    @property
    def pin(self) -> str:
        """Return the expression that an experiment writes to use the output."""
        kind = KINDS[self.record.kind].__name__ if self.record.kind in KINDS else ""
        return f'Pinned{f"[{kind}]" if kind else ""}(at="{self.record.attempt}", digest="{self.record.root}")'


def adopt(
    store: Store,
    given: str,
    *,
    kind: str,
    label: str,
    because: str,
    facts: Mapping[str, Any],
    on_message: Callable[[str], None],
) -> Adopted:
    """Copy a file or folder (a path or ``gs://``, ``s3://`` …) into the store and commit it.

    kind: of an artifact, or ``module:Class``; "" if the source is a copy of an output, whose record has the kind.
    facts: facts that the files do not hold. on_message: takes messages about waiting.

    Raises InputError if the source is missing, empty or not an artifact of that kind, and BadField for bad arguments.
    Raises Revoked for bytes that are revoked in this store or in their own.
    """
    if not because.strip():
        raise BadField("adopting needs its reason: --because 'the release that the paper used'; it is recorded")
    try:
        with tempfile.TemporaryDirectory(prefix="marin-adopt-") as spare:
            source, folder = _read_here(given, store, Path(spare))
            known = _record_of(source, folder, store)
            made = kind_called(kind or (known.kind if known is not None else ""))
            entries = side_by_side(lambda name: file_entry(folder, name), _names(folder))
            content = content_digest(entries)
            if (size := sum(entry.size for entry in entries)) > LARGE:
                on_message(f"{len(entries)} files, {write_bytes(size)}: reading them as {made.kind}, then copying")
            if known is not None and known.content and known.content != content:
                raise InputError(f"{source} differs from its own record; `marin audit --bytes` there shows the damage")
            from_files = facts_of(made.kind, folder, entries, source)
            on_record = known.facts if known is not None and known.kind == made.kind else {}
            agreed = _agreed(made, from_files, on_record, facts, source)
            root = root_digest(entries, made.kind, agreed)
            there, damaged = _existing(store, root, content, source)
            if there is not None:
                return Adopted(there, source, new=False)
            step = Adopt(
                content=content,
                kind=made.kind,
                facts=json.dumps(agreed, sort_keys=True),
                label=label,
                source=redacted(source),
                folder=folder.url,
            )
            return _commit(store, step, because.strip(), damaged, on_message)
    except OSError as error:
        raise InputError(f"{given} cannot be read whole: {error}; nothing was adopted") from error


def kind_called(name: str) -> type[Artifact]:
    """Return the artifact class that ``--kind`` names. Raises BadField with near misses."""
    module, _, qualified = name.partition(":")
    if qualified:
        try:
            found = getattr(importlib.import_module(module), qualified)
        except (ImportError, AttributeError) as error:
            raise BadField(f"--kind {name}: {error}") from error
        if not (isinstance(found, type) and issubclass(found, Artifact) and found.kind):
            raise BadField(f"--kind {name} is not an artifact class; wanted a subclass of marin.Artifact")
        return found
    known = KINDS | {made.__name__: made for made in KINDS.values()}
    if name in known:
        return known[name]
    hint = did_you_mean(name.lower(), KINDS, f"there are {', '.join(sorted(KINDS))}")
    more = "for a kind of your own give --kind module:Class"
    raise BadField(
        f"--kind {name!r}: no such artifact; {hint}; {more}" if name else f"--kind is needed: {hint}; {more}"
    )


def _read_here(given: str, store: Store, spare: Path) -> tuple[str, Directory]:
    """Return (the source's name, a folder on this machine that holds only the source). spare: an empty folder."""
    if "://" in given and not given.startswith("file://"):
        source = given.rstrip("/")
        if source.startswith(("http://", "https://")):
            raise BadField(f"{source}: adopt copies files; fetch a web address with a step, see operators.download")
        _refuse_inside(store, source, store.prefix)
        _download(source, spare)
        return source, Directory(str(spare))
    path = Path(given.removeprefix("file://")).expanduser().absolute()
    if not path.exists():
        raise InputError(f"{path} does not exist; nothing was adopted")
    if "://" not in store.prefix:
        _refuse_inside(store, str(path.resolve()), str(Path(store.prefix).resolve()))
    if path.is_dir():
        return str(path), Directory(str(path))
    (spare / path.name).symlink_to(path)
    return str(path), Directory(str(spare))


def _refuse_inside(store: Store, source: str, prefix: str) -> None:
    if source == prefix or prefix.startswith(f"{source}/"):
        raise BadField(f"{source} holds the store {store.prefix} itself; name files outside of the store")
    if not source.startswith(f"{prefix}/"):
        return
    inside = source.removeprefix(f"{prefix}/")
    content = store.objects.read(f"{'/'.join(inside.split('/')[:OUTPUT_DEPTH])}/{RECORD}")
    if content:
        record = parse_record(content, source)
        raise BadField(
            f"{source} is already in the store, as {record.name}; pin it:\n  {Adopted(record, source, new=False).pin}"
        )
    raise BadField(f"{source} is inside the store {store.prefix}, but is not a committed output")


def _download(source: str, folder: Path) -> None:
    names = list(walk(source))
    above, _, name = source.rpartition("/")
    try:
        fetch(source if names else above, names or [name], folder)
    except FileNotFoundError as error:
        raise InputError(f"{source} does not exist; nothing was adopted") from error


def _names(folder: Directory) -> list[str]:
    """Return the name of every file. Raises InputError if there is none, or if some cannot be copied."""
    names = folder.names()
    for name, why in not_files(folder.url, set(names)):  # links to files are fine: adopt copies the files
        raise InputError(f"{folder.url}/{name} is {why}, or leave it out; nothing was adopted")
    if not names:
        raise InputError(f"{folder.url} holds no file; nothing was adopted")
    return names


def _record_of(source: str, folder: Directory, store: Store) -> Record | None:
    """Return the source's own record if it is a copy of an output, or None.

    Raises BadField for an output inside another store: a copy would lose the lineage, which mirroring keeps. Raises
    Revoked if the other store no longer trusts the output.
    """
    if not (folder.path / RECORD).exists():
        return None
    record = parse_record(folder.read_bytes(RECORD), f"{source}/{RECORD}")
    prefix = source.removesuffix(f"/{record.attempt}")
    if prefix != source and (other := Store(prefix)).objects.list(OWN):
        if (bad := TrustChecker(other, {}, revoked(other)).untrusted(record)) is not None:
            raise Revoked(f"{source} must not be used: in its own store it was {bad.why}. Nothing was adopted")
        raise BadField(
            f"{source} is an output of the store {prefix}; bring it with its lineage:\n"
            f"  marin mirror {record.attempt} --from {prefix} --to {store.prefix}"
        )
    return record


def _agreed(
    kind: type[Artifact], from_files: Mapping[str, Any], known: Mapping[str, Any], given: Mapping[str, Any], source: str
) -> dict[str, Any]:
    """Return the artifact's facts: from its files, or else as given, or else from its own record."""
    fields = {spec.name for spec in dataclasses.fields(cast(Any, kind))}
    for name, value in given.items():
        if name not in fields:
            raise BadField(f"--facts: {kind.kind} has no fact {name!r}; {did_you_mean(name, fields)}")
        if name in from_files and from_files[name] != value:
            raise BadField(f"--facts says {name} = {value!r}, but the files of {source} hold {from_files[name]!r}")
    facts = {name: value for name, value in {**known, **given, **from_files}.items() if name in fields}
    if missing := [name for name in needed_fields(kind) if name not in facts]:
        example = ", ".join(f'"{name}": …' for name in missing)
        raise BadField(
            f"the files of {source} do not hold {' and '.join(missing)}, which {kind.kind} needs: "
            f"--facts '{{{example}}}'"
        )
    try:
        return json.loads(json.dumps(kind(**facts).facts()))
    except BadField as error:
        raise BadField(f"--facts: {error}") from error


def _existing(store: Store, root: str, content: str, source: str) -> tuple[Record | None, Record | None]:
    """Return (the intact output with these bytes and facts, or None; else a damaged adopted one, or None).

    Raises Revoked.
    """
    standing = revoked(store)
    revocation = standing.of(root, content)
    if revocation is not None:
        raise Revoked(
            f"{source} holds the bytes of {revocation.name}, which were "
            f"{standing.describe(revocation)}. Nothing was adopted"
        )
    if not store.objects.list(OWN):
        return None, None
    inventory = read_inventory(store)
    judge = TrustChecker(store, inventory.records, standing)
    damaged: Record | None = None
    for record in inventory.newest_first():
        if record.root != root and (not content or record.content != content):
            continue
        if (bad := judge.untrusted(record)) is not None:
            raise Revoked(f"{source} holds the bytes of {record.name}, which was {bad.why}. Nothing was adopted")
        if record.root != root or record.alias_of:
            continue
        if not store.verify(record, Check.CHECKSUMS):
            return record, None
        damaged = record if record.op == ADOPT else damaged
    return None, damaged


def _commit(
    store: Store, step: Adopt, because: str, damaged: Record | None, on_message: Callable[[str], None]
) -> Adopted:
    code = code_fingerprint(step)
    store_code(store, code.digest, code.to_json(sources=True))
    job = Job(
        prefix=store.prefix,
        step=step,
        code=code.digest,
        packages=dict(code.packages),
        outside=outside_of(step),
        inputs={},
        replaces=damaged.attempt if damaged is not None else "",
        after=damaged.token if damaged is not None and damaged.identity == step.identity else 0,
        occupied=frozenset(store.attempts(step.op)),
        because=because,
    )
    watch, message = Watch(), ""
    while (outcome := attempt(job, map_here, watch=watch)).ending is Ending.HELD:
        if message != (message := f"waiting: {outcome.held_by}"):
            on_message(message)
        time.sleep(LOOK_SECONDS)
    if outcome.record is None:
        raise StepFailed(
            f"{step.source} was not adopted: {outcome.error}" + (f" (log: {outcome.log})" if outcome.log else "")
        )
    return Adopted(outcome.record, step.source, new=outcome.ending is Ending.DONE)
