"""Searched: a mixture whose shares are in the report of a search."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping
from typing import Any

from marin.data.mixture import Mix, Mixture, ReadShares, mixture, source_name
from marin.errors import BadField
from marin.steps.value import value
from marin.store.files.directory import Directory

MIXTURES = "mixtures.json"  # in the output of a search: by the name of a mixture, its shares by source name


@value("searched")
class Searched[S](Mix[S]):
    """The mixture that a report calls ``chosen``. The report is an input of the training, so it is made before.

    of: the sources that the mixture may hold; a source of share 0 is left out. report: the step that writes MIXTURES.
    Raises BadField for sources that share a name.
    """

    of: tuple[S, ...]
    report: Any  # a step; the library does not know steps
    chosen: str

    def __post_init__(self) -> None:
        names = [source_name(source) for source in self.of]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise BadField(f"searched: several sources are called {', '.join(twice)}; give each its own label")

    @property
    def sources(self) -> tuple[S, ...]:
        return self.of

    @property
    def reports(self) -> frozenset[Hashable]:
        return frozenset({self.report})

    def looked_up(self, read: ReadShares) -> Mixture[S]:
        shares = read(self.report, self.chosen)
        by_name = {source_name(source): source for source in self.of}
        if strange := sorted(name for name, share in shares.items() if share and name not in by_name):
            raise BadField(f"searched: the report has a share of {', '.join(strange)}; wanted {', '.join(by_name)}")
        return mixture({by_name[name]: share for name, share in shares.items() if share})

    def resolved(self, tokens: Mapping[S, int]) -> Mixture[S]:
        """Raises BadField: ``looked_up`` comes first."""
        raise BadField(
            f"searched: the shares of {', '.join(map(source_name, self.of))} are in the output of "
            f"{source_name(self.report)}, where only a training reads them. Paste the mixture that the report prints"
        )


def reader(directory_of: Callable[[Any], Directory]) -> ReadShares:
    """Return the ``read`` of ``Mix.looked_up`` for outputs in these directories."""

    def read(report: Any, chosen: str) -> Mapping[str, float]:
        return json.loads(directory_of(report).read_text(MIXTURES))[chosen]

    return read
