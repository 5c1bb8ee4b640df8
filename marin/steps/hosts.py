"""The hosts that a step runs on, if its accelerator spans several."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


def _never(_call: Callable[[], object]) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Host:
    """One host of a step, as the work on this host sees it."""

    number: int  # from 0, slice after slice, in the order in which the hosts of a slice are wired
    count: int
    meeting: str  # "ADDRESS:PORT" on host 0 that every host reaches and that is free; "" if there is only one host
    # Variables that the processes need to find each other.
    environment: Mapping[str, str] = field(default_factory=dict[str, str], compare=False)
    # Takes a function to call, in another thread, when another host has failed: the work on this host must then end.
    on_stop: Callable[[Callable[[], object]], Any] = field(default=_never, compare=False)

    def __str__(self) -> str:
        return f"host {self.number} of {self.count}"


ALONE = Host(number=0, count=1, meeting="")
