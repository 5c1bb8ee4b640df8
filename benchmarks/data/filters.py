"""The published filters against datatrove's: equal decisions, and MB a CPU second: ``./py benchmarks/data/filters.py``.

Text: the PEPs and RFCs in ../shared/data, or the folder of JSON lines (gzip, field ``text``) that is given.
datatrove judges every twentieth document, which is enough for its speed. --all lets it judge every document, for the
agreement.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from datatrove.data import Document
from datatrove.pipeline import filters

from benchmarks.data.real_text import SHARED, texts
from marin.text.published import C4, FineWeb, GopherQuality, GopherRepetition, Published

PAIRS: dict[str, Any] = {
    "GopherQualityFilter": GopherQuality(),
    "GopherRepetitionFilter": GopherRepetition(),
    "C4QualityFilter": C4(),
    "FineWebQualityFilter": FineWeb(),
}


def timed(judge: Callable[[str], object], documents: Iterable[str]) -> tuple[list[object], float]:
    """Answers, and MB a CPU second."""
    held = list(documents)
    began = time.process_time()
    answers = [judge(text) for text in held]
    return answers, sum(len(text.encode()) for text in held) / 1e6 / (time.process_time() - began)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("folder", nargs="?", type=Path, default=SHARED)
    arguments.add_argument("--all", action="store_true", help="compare every document, not every twentieth")
    given = arguments.parse_args()
    documents = texts(given.folder)
    some = documents if given.all else documents[::20]
    print(f"{len(documents)} documents, {sum(len(text.encode()) for text in documents) / 1e6:.1f} MB")
    for name, ours in PAIRS.items():
        published, theirs = Published((ours,)), getattr(filters, name)()

        def kept(text: str, theirs: Any = theirs) -> str | None:
            document = Document(text=text, id="")
            return document.text if theirs.filter(document) is True else None

        def our_kept(text: str, published: Published = published) -> str | None:
            verdict = published.judge(text)
            return verdict.text if verdict.reason is None else None

        kept("Load what is loaded once."), our_kept("Load what is loaded once.")
        expected, slow = timed(kept, some)
        found, _ = timed(our_kept, some)
        _, fast = timed(our_kept, documents)
        equal = sum(one == other for one, other in zip(expected, found, strict=True))
        print(f"{name:24} {equal} of {len(some)} equal; {fast:.2f} against {slow:.2f} MB/s, {fast / slow:.1f} x")


if __name__ == "__main__":
    main()
