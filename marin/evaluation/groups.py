"""Which items of an evaluation belong together: by passage, source document or subject.

Items of one group come out right or wrong together, so a hundred questions on ten passages are ten looks, not a
hundred. Intervals count groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from marin.evaluation.two_parts import FEWEST

# Fields that name or hold the text that several items are about, the widest first; of a paragraph, its document.
SOURCES = (
    "of", "document_id", "source_id", "article_id", "passage_id", "story_id", "title",
    "document", "article", "passage", "story", "context", "paragraph",
)  # fmt: skip
PARAGRAPHS = {"of": "document"}  # as Paragraphs calls the document of a paragraph
SUBJECTS = ("subject", "category")
TASK = "task"


@dataclass(frozen=True)
class Grouping:
    """by: what items of one group share: "passage". of: by item, its group; other items are groups of their own."""

    by: str
    of: Mapping[str, str]

    def in_words(self, name: str) -> str:
        """A sentence of a note."""
        return f"Items of {name} of one {self.by} count as one: {len(self.of):,} in {len(set(self.of.values())):,}."

    def groups(self, ids: Iterable[str]) -> list[str]:
        return [self.of.get(each, f"alone {each}") for each in ids]


def grouping(items: Mapping[str, Mapping[str, Any]]) -> Grouping | None:
    """By the first of SUBJECTS and SOURCES that groups these items, given the fields of each; None if none does.

    A field groups if some items share a value and not all do. A few subjects are what is asked about and no sample of
    subjects, so fewer than FEWEST group nothing.
    """
    for fields, least in (((TASK, *SUBJECTS), FEWEST), (SOURCES, 2)):
        for name in fields:
            held = {item: str(of[name]) for item, of in items.items() if of.get(name) not in (None, "")}
            kinds = {value: str(number) for number, value in enumerate(dict.fromkeys(held.values()))}
            if least <= len(kinds) < len(held):
                return Grouping(
                    PARAGRAPHS.get(name, name.removesuffix("_id")), {item: kinds[value] for item, value in held.items()}
                )
    return None
