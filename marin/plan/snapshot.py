"""The part of a store that concerns some steps, from a few listings and concurrent reads. Writes nothing."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

from marin.plan.pinned import PinnedCode
from marin.steps.scale import Scale
from marin.steps.step import ExecutorStep
from marin.store.inventory import Inventory
from marin.store.layout import slug
from marin.store.record import Acceptance, Record
from marin.store.revocation import revoked
from marin.store.store import Store
from marin.store.trust import TrustChecker


class Attempts:
    """All attempts at steps of one operator, committed or not, each by its directory."""

    def __init__(self, directories: list[str]) -> None:
        self.directories = frozenset(directories)
        self._by_identity: dict[str, list[str]] = {}
        self._by_label: dict[str, list[str]] = {}
        for directory in directories:
            name = directory.rpartition("/")[2].rpartition(".")[0]
            label, _, short = name.rpartition("-")
            self._by_identity.setdefault(short, []).append(directory)
            self._by_label.setdefault(label, []).append(directory)

    def of_identity(self, identity: str) -> list[str]:
        return self._by_identity.get(identity[:12], [])

    def of_label(self, label: str) -> list[str]:
        return self._by_label.get(slug(label), []) if label else []


class Snapshot(Inventory):
    """The committed records of some steps, and the other facts that a plan reads from the store."""

    def __init__(self, store: Store, steps: Iterable[ExecutorStep[Any]], scale: Scale | None = None) -> None:
        wanted = {step.identity for step in steps}
        super().__init__(store, wanted)
        self._attempts: dict[str, Attempts] = {}
        self.scale = scale.value if scale is not None else ""  # of the experiment, as records have it
        # The last output of the same operator and label at this scale, for steps that marin.plan.missing looked at.
        self.last_outputs: dict[ExecutorStep[Any], Record | None] = {}
        missing = wanted - self.records.keys() - self.damage.keys()
        self.in_progress = store.state_identities() if missing else set[str]()

    def attempts(self, op: str) -> Attempts:
        """Return the attempts of an operator, which is listed once."""
        if op not in self._attempts:
            self._attempts[op] = Attempts(self.store.attempts(op))
        return self._attempts[op]

    @functools.cached_property
    def actions(self) -> dict[str, list[str]]:
        """The identities of the outputs of each action."""
        return self.store.actions()

    @functools.cached_property
    def _accepted(self) -> dict[str, list[str]]:
        return self.store.acceptances.by_key()

    def accepted(self, identity: str) -> list[Acceptance]:
        """Return the drift of an output that people accepted before the plan. All acceptances are listed once."""
        return self.store.acceptances.read(self._accepted.get(identity, [])).get(identity, [])

    @functools.cached_property
    def trust(self) -> TrustChecker:
        return TrustChecker(self.store, self.records, revoked(self.store))

    @functools.cached_property
    def code_of_pins(self) -> PinnedCode:
        return PinnedCode(self.store, self.trust)
