"""Whether this process's modules hold what a new process's hold that imports them.

The fingerprint is read from source, and a worker imports the step's code afresh. What an experiment sets in a module
(an entry of a nested dict, a default argument, a variable of a closure, an attribute) is seen by neither, but a step
that runs in this process would use it. So before anything starts, everything that a step reaches is compared in depth
with a new process that imports only what a worker would import. Left out is what differs between two new processes as
well. What the step's own code changes too (a cache, a counter) may differ because that code ran here, in build() say:
the plan says so and goes on, as it does where a new process cannot import the modules.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from marin.errors import PatchedCode
from marin.fingerprint.live.fresh_process import Descriptions, NotImported, Question, ask
from marin.fingerprint.live.module_state import described
from marin.fingerprint.live.process import Process
from marin.fingerprint.lookup.unit import Key, Unit
from marin.fingerprint.source.module import Module
from marin.fingerprint.source.traits import Trait
from marin.steps.step import ExecutorStep
from marin.steps.value import digest
from marin.store.files.checksums import memory_folder

_SEEDS = (1, 2, 3)  # for the hashes of new processes: what follows from the order of a set is nobody's change
_SHOWN = 3  # differences of one function, class or variable; steps that a note is about
_CHANGES = "append|appendleft|add|extend|insert|setdefault|update|pop|popleft|popitem|clear|remove|discard|sort|reverse"
_INDEX = r"\[(?:[^\[\]\n]|\[[^\[\]\n]*\])*\]"
_ASSIGNED = r"\s*(?:[-+*/|&^%@]|\*\*|//|<<|>>)?=[^=]"


@dataclass(frozen=True, eq=False)
class StepCode:
    """The code that one kind of step reaches.

    imports: modules that a worker imports to have the step. imported: the project's modules that this imports in turn.
    """

    name: str
    imports: tuple[str, ...]
    imported: frozenset[Module]
    units: Mapping[Key, Unit]


@dataclass(frozen=True)
class Compared:
    """What was compared in this process's lifetime. accepted: digest of a name's state that was found to be right.
    notes: lines about what could not be compared."""

    accepted: dict[tuple[frozenset[Module], Key], str] = field(default_factory=dict[tuple[frozenset[Module], Key], str])
    notes: dict[StepCode, list[str]] = field(default_factory=dict[StepCode, list[str]])


class _Difference(NamedTuple):
    """own: code that the step reaches changes the name itself."""

    name: str
    own: bool


type _Differences = dict[_Difference, list[str]]


class ModuleStates:
    """What modules hold now."""

    def __init__(self, process: Process, compared: Compared, reached: Callable[[ExecutorStep[Any]], StepCode]) -> None:
        self._process, self._compared, self._reached = process, compared, functools.cache(reached)
        self._accepted = compared.accepted
        self._states: dict[Key, tuple[dict[str, str], str]] = {}
        self._digests: dict[StepCode, str] = {}

    def digest(self, step: ExecutorStep[Any]) -> str:
        """Of everything that a step reaches, for its record: while it is the same, nothing needs to be compared."""
        reached = self._reached(step)
        if reached not in self._digests:
            known = [f"{key.qualified} {self._state(key)[1]}" for key in reached.units if self._module(key) is not None]
            self._digests[reached] = digest("\n".join(sorted(known)).encode())
        return self._digests[reached]

    def must_be_as_imported(
        self, steps: Iterable[ExecutorStep[Any]], recorded: Callable[[ExecutorStep[Any]], bool]
    ) -> list[str]:
        """Raises PatchedCode naming what was changed from outside. Returns lines about what could not be compared.

        recorded: whether a step's record has this digest. What was compared once on this machine is remembered, by
        source and state, so that most runs start no process.
        """
        several: dict[StepCode, ExecutorStep[Any]] = {}
        known: set[StepCode] = set()
        for step in steps:
            if recorded(step):
                known.add(self._reached(step))
            else:
                several.setdefault(self._reached(step), step)
        for reached in known:
            self._accept(reached)
        notes = self._compared.notes
        memory = {reached: self._memory(reached, step) for reached, step in several.items() if self._doubtful(reached)}
        unknown = [reached for reached, path in memory.items() if path is None]
        for reached, path in memory.items():
            if path is not None:
                try:
                    notes[reached] = path.read_text().splitlines()
                except OSError:
                    unknown.append(reached)
        failed = self._compare(unknown)
        for reached, path in memory.items():
            self._accept(reached)
            if path is not None and reached in unknown and reached not in failed:
                with suppress(OSError):
                    path.parent.mkdir(exist_ok=True)
                    path.write_text("".join(f"{line}\n" for line in notes[reached]))
        names: dict[str, list[str]] = {}
        for reached in several:
            for note in notes.get(reached, ()):
                names.setdefault(note, []).append(reached.name)
        return [f"{_some(steps)}: {note}" for note, steps in names.items()]

    def _memory(self, reached: StepCode, step: ExecutorStep[Any]) -> Path | None:
        """A file that is there once source and state of all that is reached were compared; it holds the notes."""
        folder = memory_folder()
        if folder is None:
            return None
        source = "\n".join(sorted(f"{key.qualified} {unit.text}" for key, unit in reached.units.items()))
        return folder / "module-states" / digest(f"{sys.version} {self.digest(step)} {source}".encode())

    def accept_again(self) -> None:
        """Steps have run in this process: what is otherwise now, they changed themselves."""
        self._accepted.update((place, self._state(place[1])[1]) for place in list(self._accepted))

    def _accept(self, reached: StepCode) -> None:
        for key in reached.units:
            self._accepted[reached.imported, key] = self._state(key)[1]

    def _compare(self, doubtful: list[StepCode]) -> set[StepCode]:
        """Writes the notes. Returns those that a new process could not import. Raises PatchedCode."""
        groups: dict[frozenset[Module], list[StepCode]] = {}
        for reached in doubtful:
            groups.setdefault(reached.imported, []).append(reached)
        questions = [self._question(group) for group in groups.values()]
        notes = {reached: list[str]() for reached in doubtful}
        failed: set[StepCode] = set()
        found: _Differences = {}
        for seed in _SEEDS if questions else ():
            before, found = found, {}
            for group, fresh in zip(groups.values(), ask(questions, seed), strict=True):
                for reached in group:
                    if isinstance(fresh, NotImported):
                        failed.add(reached)
                        notes[reached] = [
                            f"a new process cannot import {fresh.module} ({fresh.error}), so what was changed in "
                            "modules from outside is not seen"
                        ]
                    else:
                        found |= self._differences(reached, fresh)
            if seed != _SEEDS[0]:
                found = {difference: lines for difference, lines in found.items() if before.get(difference) == lines}
            if not found:
                break
        changed = {difference.name: lines for difference, lines in found.items() if not difference.own}
        if changed:
            names = dict.fromkeys(reached.name for reached in doubtful if self._names(reached, changed))
            lines = [line for lines in changed.values() for line in lines[:_SHOWN]]
            raise PatchedCode(
                f"{', '.join(names)}: this process would not run what the files say:\n  "
                + "\n  ".join(lines)
                + "\nA worker would run the files. Write the change into them, or make it in a module that the "
                "step's own code imports"
            )
        for reached in doubtful:
            for difference, lines in found.items():
                if self._names(reached, {difference.name}):
                    more = f" and {len(lines) - 1} more" if len(lines) > 1 else ""
                    notes[reached].append(
                        f"{lines[0]}{more}; its own code changes that too, so a change from outside is not seen"
                    )
        self._compared.notes.update(notes)
        return failed

    def _names(self, reached: StepCode, changed: Collection[str]) -> bool:
        return any(key.qualified in changed for key in reached.units)

    def _doubtful(self, reached: StepCode) -> list[Key]:
        accepted = self._accepted
        return [
            key
            for key in reached.units
            if self._module(key) is not None and accepted.get((reached.imported, key)) != self._state(key)[1]
        ]

    def _question(self, group: Sequence[StepCode]) -> Question:
        names: dict[str, dict[str, None]] = {}
        for reached in group:
            for key in self._doubtful(reached):
                module = self._module(key)
                if module is not None:
                    names.setdefault(module.__name__, {})[key.name] = None
        imports = dict.fromkeys(name for reached in group for name in reached.imports)
        return Question(imports=[*imports], names={module: [*held] for module, held in names.items()})

    def _differences(self, reached: StepCode, fresh: Descriptions) -> _Differences:
        found: _Differences = {}
        for key in self._doubtful(reached):
            module = self._module(key)
            if module is None:
                continue
            now, then = self._state(key)[0], fresh.get(module.__name__, {}).get(key.name, {})
            for place in {**now, **then}:
                if now.get(place) != then.get(place):
                    own = _changed_by_itself(key, place, reached.units)
                    line = _difference(f"{key.qualified}{place}", now.get(place), then.get(place))
                    found.setdefault(_Difference(key.qualified, own), []).append(line)
        return found

    def _module(self, key: Key) -> ModuleType | None:
        """The imported module that holds a unit; none for a file, a statement or what a notebook holds."""
        module = self._process.module(key.module.path) if key.name.isidentifier() else None
        return None if module is None or module.__name__ == "__main__" else module

    def _state(self, key: Key) -> tuple[dict[str, str], str]:
        if key not in self._states:
            module = self._module(key)
            known = module is not None and key.name in vars(module)
            lines = described(vars(module)[key.name]) if known else {}
            self._states[key] = lines, digest(repr(sorted(lines.items())).encode())
        return self._states[key]


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _difference(name: str, now: str | None, then: str | None) -> str:
    if now is None:
        return f"{name} is gone, a new process has {then}"
    return f"{name} is {now}, " + ("a new process has no such thing" if then is None else f"a new process has {then}")


def _changed_by_itself(key: Key, place: str, units: Mapping[Key, Unit]) -> bool:
    """Whether a function or method that the step reaches changes something of this name when it runs."""
    name, inside = re.escape(key.name), rf"(?:\.\w+|{_INDEX})"
    patterns = [
        rf"\bglobal\b.*\b{name}\b|\bdel\b.*\b{name}\b|setattr\(.*\b{name}\b|\.{name}{_ASSIGNED}",
        rf"\b{name}{inside}*(?:\.(?:{_CHANGES})\(|{inside}{_ASSIGNED})",
    ]
    attribute = re.match(r"\.(\w+)", place)
    if attribute is not None and units[key].piece.traits & Trait.CLASS:
        patterns += [
            rf"\bsetattr\(.*{attribute[1]}\b|(?:\bcls|__class__|\btype\(\w+\))\.{attribute[1]}{_ASSIGNED}",
            rf"\.{attribute[1]}{inside}*(?:\.(?:{_CHANGES})\(|{_INDEX}{_ASSIGNED})",
        ]
    changes = re.compile("|".join(patterns))
    lines = (line for unit in units.values() for line in unit.text.splitlines() if line.startswith(" "))
    return any(changes.search(line) for line in lines)  # what runs on import, a new process has run as well
