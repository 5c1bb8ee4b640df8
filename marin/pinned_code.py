"""Whether what made a pinned output is the code of today: nobody runs its steps again, so nobody else would notice."""

from __future__ import annotations

from pathlib import Path

from marin.errors import CorruptRecord
from marin.fingerprint import CodeFingerprint, units_by_name
from marin.judge import Judge
from marin.lineage import ADOPT, PINNED
from marin.record import Record
from marin.store import Store

NAMED = 3  # outputs that one change, or one note, names


class PinnedCode:
    """Compares the sources that records name with those of the same names today. Reads the ancestors' records, and the
    stored code of each once."""

    def __init__(self, store: Store, judge: Judge) -> None:
        self._store, self._judge = store, judge
        self._units = units_by_name(Path.cwd() / "pinned.py")
        self._compared: dict[str, tuple[dict[str, str], list[str]]] = {}

    def since(self, record: Record) -> tuple[list[str], list[str]]:
        """(what changed since an output and all that it was made from were made; what cannot be compared)."""
        found, gone = self._judge.ancestry(record)
        changed: dict[str, list[str]] = {}
        apart: dict[str, list[str]] = {"its record is gone": gone} if gone else {}
        for held in found:
            if held.op in (ADOPT, PINNED):
                continue
            changes, unclear = self._since(held)
            for change in changes:
                changed.setdefault(change, []).append(held.name)
            for why in unclear:
                apart.setdefault(why, []).append(held.name)
        lines = [f"{change} since {_named(names)} was made" for change, names in changed.items()]
        notes = [f"cannot be compared with today's code: {_named(names)} ({why})" for why, names in apart.items()]
        return lines, notes

    def _since(self, record: Record) -> tuple[list[str], list[str]]:
        changed, unclear = self._compare(record.code)
        if changed:
            for entry in self._store.acceptances(record.identity):
                if not self._compare(entry.code)[0]:
                    return [], unclear
        return [f"{name} {how}" for name, how in changed.items()], unclear

    def _compare(self, code: str) -> tuple[dict[str, str], list[str]]:
        if code not in self._compared:
            self._compared[code] = self._read(code)
        return self._compared[code]

    def _read(self, code: str) -> tuple[dict[str, str], list[str]]:
        try:
            stored = self._store.code(code)
            then = None if stored is None else CodeFingerprint.from_json(stored)
        except CorruptRecord as error:
            return {}, [str(error)]
        if then is None:
            return {}, ["the store does not hold the code that made it"]
        changed: dict[str, str] = {}
        unknown: list[str] = []
        for name, digest in then.units.items():
            today = self._units.digests(name)
            if today is None:
                unknown.append(name)
            elif not today:
                changed[name] = "is gone"
            elif digest not in today:
                changed[name] = f"changed ({digest[:8]} → {min(today)[:8]})"
        return changed, [f"no {_named(unknown)} here"] if unknown else []


def _named(names: list[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
