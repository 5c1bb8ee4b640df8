"""Check pinned outputs: their kind, and changes of the code that built them and of the files that it was seen to read.

The kind must be the one that the readers declare. marin does not rerun the steps behind a pin, so no other check
notices a change.
"""

from __future__ import annotations

import functools
import typing
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from marin.errors import BadField, CorruptRecord
from marin.fingerprint.fingerprint import Change, source_diff, stored_code
from marin.fingerprint.of_step import executed
from marin.plan.condition import Comparison
from marin.plan.digests import Digests
from marin.plan.observed import Present, differences
from marin.steps.artifact import KINDS, Artifact
from marin.steps.field_types import hint_of
from marin.steps.step import ExecutorStep, identity_fields
from marin.steps.value import encode
from marin.store.lineage import ADOPT, PINNED
from marin.store.numbers import listed
from marin.store.record import Observed, Record
from marin.store.store import Store
from marin.store.trust import TrustChecker

NAMED = 3  # outputs that one change, or one note, names


def check_kinds(steps: Iterable[ExecutorStep[Any]], pinned: Mapping[ExecutorStep[Any], Record]) -> None:
    """Raise BadField naming a field that wants another kind of artifact than its pin. pinned: the record of a pin."""
    for reader in steps if pinned else ():
        if pinned.keys().isdisjoint(reader.dependencies):
            continue
        for name, wanted, pin in _reads(reader):
            if pin not in pinned:
                continue
            record = pinned[pin]
            kind = KINDS.get(record.kind)
            if record.kind in [each.kind for each in wanted] if kind is None else issubclass(kind, tuple(wanted)):
                continue
            kinds = " or ".join(sorted(each.__name__ for each in wanted))
            raise BadField(
                f"{reader.name}: {type(reader).__name__}.{name} reads {kinds}, but {pin.name} pins {record.attempt}, "
                f"which is of kind {record.kind!r}; pin an output of the kind that is read (`marin ls` prints it)"
            )


def kinds_read(reader: ExecutorStep[Any], pin: ExecutorStep[Any]) -> list[type[Artifact]]:
    """Return the kinds of artifacts that the fields with this pin declare; none if they declare none."""
    return [kind for _, wanted, read in _reads(reader) if read == pin for kind in wanted]


def _reads(reader: ExecutorStep[Any]) -> Iterator[tuple[str, list[type[Artifact]], ExecutorStep[Any]]]:
    """Yield each step in a field whose annotation names kinds of artifacts: the field's name, the kinds, the step."""
    for name, value in identity_fields(reader).items():
        if wanted := _kinds(hint_of(type(reader), name)):
            held: list[Any] = []
            encode(value, name, held)
            yield from ((name, wanted, step) for step in held)


def _kinds(hint: Any) -> list[type[Artifact]]:
    """Return the classes of artifacts that an annotation names; none if it takes any artifact."""
    if isinstance(hint, type) and not typing.get_args(hint):
        made = cast(Any, hint).__marin_makes__() if issubclass(hint, ExecutorStep) else cast(Any, hint)
        return [made] if isinstance(made, type) and issubclass(made, Artifact) else []
    kinds = [kind for argument in typing.get_args(hint) for kind in _kinds(argument)]
    return [] if Artifact in kinds else kinds


class PinnedCode:
    """A comparison of the sources that records name with today's sources of the same names.

    It reads the ancestors' records, and the stored code of each once.
    """

    def __init__(self, store: Store, trust: TrustChecker) -> None:
        self._store, self._trust = store, trust
        self._compare = functools.cache(self._read)
        self._present = Present(None, Digests())

    def since(self, record: Record) -> Comparison:
        """Return the changes since an output and its ancestors were built."""
        found, gone = self._trust.ancestry(record)
        changed: dict[str, list[str]] = {}
        apart: dict[str, list[str]] = {"its record is gone": gone} if gone else {}
        for ancestor, compared in self._each_since(found):
            for change in compared.changes:
                changed.setdefault(change, []).append(ancestor.name)
            for why in compared.notes:
                apart.setdefault(why, []).append(ancestor.name)
        lines = [f"{change} since {listed(names, NAMED)} was made" for change, names in changed.items()]
        notes = [
            f"cannot be compared with today's code: {listed(names, NAMED)} ({why})" for why, names in apart.items()
        ]
        return Comparison(changes=tuple(lines), notes=tuple(notes))

    def differences(self, record: Record) -> dict[str, str]:
        """Return the source differences of everything that ``since`` names, by name: then and now."""
        found: dict[str, str] = {}
        for ancestor, compared in self._each_since(self._trust.ancestry(record)[0]):
            if compared.changes:
                found |= self._compare(ancestor.code)[1]
        return found

    def _each_since(self, records: Iterable[Record]) -> Iterator[tuple[Record, Comparison]]:
        """Yield each output that a step built, with the changes since."""
        for ancestor in records:
            if ancestor.op not in (ADOPT, PINNED):
                yield ancestor, self._since(ancestor)

    def _since(self, record: Record) -> Comparison:
        now, read = self._compare(record.code)[0], self._read_since(record.observed)
        if now.changes or read:
            for entry in self._store.acceptances.about(record.identity):
                if not self._compare(entry.code)[0].changes and not self._read_since(entry.observed):
                    return Comparison(notes=now.notes)
        return Comparison(changes=(*now.changes, *read), notes=now.notes)

    def _read_since(self, then: Observed) -> list[str]:
        """Return one line for each file or folder that the run read and that is different now."""
        return differences(then, self._present.of(then)) if then.is_any else []

    def _read(self, code: str) -> tuple[Comparison, Mapping[str, str]]:
        """Return the changes since the code of this digest, and the differences between its sources then and now."""
        try:
            then = stored_code(self._store, code)
        except CorruptRecord as error:
            return Comparison(notes=(str(error),)), {}
        if then is None:
            return Comparison(notes=("the store does not hold the code that made it",)), {}
        changes: list[str] = []
        differences: dict[str, str] = {}
        unknown: list[str] = []
        for name, digest in then.units.items():
            today = executed().named(name)
            if today is None:
                unknown.append(name)
            elif digest not in today:
                now = next(iter(today), "")
                changes.append(f"{name} {f'changed ({digest[:8]} → {now[:8]})' if now else 'is gone'}")
                change = Change("changed", name, digest, now)
                differences[name] = source_diff(change, then.sources, {name: today.get(now, "")})
        unclear = (f"no {listed(unknown, NAMED)} here",) if unknown else ()
        return Comparison(changes=tuple(changes), notes=unclear), differences
