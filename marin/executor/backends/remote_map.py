"""Work that one attempt does in many processes: what they write is delivered, and told to the one that commits."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from marin.store.files import written
from marin.store.files.staging import staging, standing_in
from marin.store.files.written import Written


@dataclass(frozen=True, kw_only=True)
class Shipped:
    """``work`` as any process can do it. out: the attempt's directory, by URL."""

    work: Callable[[Any], Any]
    out: str

    def __call__(self, item: Any) -> tuple[Any, dict[str, Written]]:
        if standing_in(self.out) is not None:  # the process of the attempt itself, which delivers
            return self.work(item), {}
        try:
            with staging(self.out) as here:
                result = self.work(item)
                here.deliver()
            return result, written.below(self.out)
        finally:
            written.forget(self.out)


def received(results: Iterable[tuple[Any, dict[str, Written]]]) -> list[Any]:
    """The results alone, once what was written is noted."""
    found: list[Any] = []
    for result, files in results:
        written.note_all(files)
        found.append(result)
    return found
