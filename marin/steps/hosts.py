"""The hosts that a step runs on, where its accelerator spans several."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


def _never(_call: Callable[[], object]) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Host:
    """One of them, as work that runs there sees it."""

    number: int  # from 0, slice after slice, in the order in which the hosts of a slice are wired
    count: int
    meeting: str  # "ADDRESS:PORT" on host 0 that every host reaches and that is free; "" where there is but one host
    # That its processes need to find each other.
    environment: Mapping[str, str] = field(default_factory=dict[str, str], compare=False)
    # What it is given is called, in another thread, when another host has failed: this one's work is then to end.
    on_stop: Callable[[Callable[[], object]], Any] = field(default=_never, compare=False)

    def __str__(self) -> str:
        return f"host {self.number} of {self.count}"


ALONE = Host(number=0, count=1, meeting="")
