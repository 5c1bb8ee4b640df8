"""Work of one attempt in many processes: they deliver their files, and report them to the process that commits."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from marin.store.files import written
from marin.store.files.staging import staging, standing_in
from marin.store.files.written import Written


@dataclass(frozen=True, kw_only=True)
class Shipped:
    """``work``, callable in any process. out: the attempt's directory, by URL."""

    work: Callable[[Any], Any]
    out: str

    def __call__(self, item: Any) -> tuple[Any, dict[str, Written]]:
        if standing_in(self.out) is not None:  # the attempt's own process, which delivers the files
            return self.work(item), {}
        try:
            with staging(self.out) as here:
                result = self.work(item)
                here.deliver()
            return result, written.below(self.out)
        finally:
            written.forget(self.out)


def received(results: Iterable[tuple[Any, dict[str, Written]]]) -> list[Any]:
    """Note the written files, and return the results alone."""
    found: list[Any] = []
    for result, files in results:
        written.note_all(files)
        found.append(result)
    return found
