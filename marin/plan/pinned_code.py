"""Whether what made a pinned output is as it was: its code, and the files that it was seen to read.

Nobody runs its steps again, so nobody else would notice.
"""

from __future__ import annotations

from typing import NamedTuple

from marin.errors import CorruptRecord
from marin.fingerprint.fingerprint import Change, source_diff
from marin.fingerprint.of_step import executed
from marin.fingerprint.stored import stored_code
from marin.plan.condition import Comparison
from marin.plan.digests import Digests
from marin.plan.observed import Present, differences
from marin.store.lineage import ADOPT, PINNED
from marin.store.numbers import listed
from marin.store.record import Observed, Record
from marin.store.store import Store
from marin.store.trust import TrustChecker

NAMED = 3  # outputs that one change, or one note, names


class _Compared(NamedTuple):
    """changed: how each unit differs today. differences: their sources. unclear: what cannot be compared."""

    changed: dict[str, str]
    differences: dict[str, str]
    unclear: tuple[str, ...] = ()


class PinnedCode:
    """Compares the sources that records name with those of the same names today. Reads the ancestors' records, and the
    stored code of each once."""

    def __init__(self, store: Store, trust: TrustChecker) -> None:
        self._store, self._trust = store, trust
        self._compared: dict[str, _Compared] = {}
        self._present = Present(None, Digests())

    def since(self, record: Record) -> Comparison:
        """What changed since an output and all that it was made from were made."""
        found, gone = self._trust.ancestry(record)
        changed: dict[str, list[str]] = {}
        apart: dict[str, list[str]] = {"its record is gone": gone} if gone else {}
        for ancestor in found:
            if ancestor.op in (ADOPT, PINNED):
                continue
            compared = self._since(ancestor)
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
        """The source difference of everything that ``since`` names, by name: then and now."""
        found: dict[str, str] = {}
        for ancestor in self._trust.ancestry(record)[0]:
            if ancestor.op not in (ADOPT, PINNED) and self._since(ancestor).changes:
                found |= self._compare(ancestor.code).differences
        return found

    def _since(self, record: Record) -> Comparison:
        now, read = self._compare(record.code), self._read_since(record.observed)
        if now.changed or read:
            for entry in self._store.acceptances(record.identity):
                if not self._compare(entry.code).changed and not self._read_since(entry.observed):
                    return Comparison(notes=now.unclear)
        lines = (*(f"{name} {how}" for name, how in now.changed.items()), *read)
        return Comparison(changes=lines, notes=now.unclear)

    def _read_since(self, then: Observed) -> list[str]:
        """What it read and is otherwise now, one line each."""
        return differences(then, self._present.of(then)) if then.is_any else []

    def _compare(self, code: str) -> _Compared:
        if code not in self._compared:
            self._compared[code] = self._read(code)
        return self._compared[code]

    def _read(self, code: str) -> _Compared:
        try:
            then = stored_code(self._store, code)
        except CorruptRecord as error:
            return _Compared({}, {}, (str(error),))
        if then is None:
            return _Compared({}, {}, ("the store does not hold the code that made it",))
        changed: dict[str, str] = {}
        differences: dict[str, str] = {}
        unknown: list[str] = []
        for name, digest in then.units.items():
            today = executed().named(name)
            if today is None:
                unknown.append(name)
            elif digest not in today:
                now = next(iter(today), "")
                changed[name] = f"changed ({digest[:8]} → {now[:8]})" if now else "is gone"
                change = Change("changed", name, digest, now)
                differences[name] = source_diff(change, then.sources, {name: today.get(now, "")})
        return _Compared(changed, differences, (f"no {listed(unknown, NAMED)} here",) if unknown else ())
