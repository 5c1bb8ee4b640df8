"""Groups of evaluation items that belong together: by passage, source document or subject.

Items of one group come out right or wrong together: a hundred questions on ten passages are ten observations, not a
hundred. So intervals count groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from marin.evaluation.two_parts import FEWEST

# Fields that name or hold the text that several items are about, the widest text first: a document before a paragraph.
SOURCES = (
    "of", "document_id", "source_id", "article_id", "passage_id", "story_id", "title",
    "document", "article", "passage", "story", "context", "paragraph",
)  # fmt: skip
PARAGRAPHS = {"of": "document"}  # the operator Paragraphs writes a paragraph's document to "of"
SUBJECTS = ("subject", "category")
TASK = "task"


@dataclass(frozen=True)
class Grouping:
    """A grouping of items.

    by: the thing that items of one group share, as "passage". of: the group of each item; any other item is a group of
    its own."""

    by: str
    of: Mapping[str, str]

    def in_words(self, name: str) -> str:
        """Return a sentence for a report's note."""
        return f"Items of {name} of one {self.by} count as one: {len(self.of):,} in {len(set(self.of.values())):,}."

    def groups(self, ids: Iterable[str]) -> list[str]:
        return [self.of.get(each, f"alone {each}") for each in ids]


def grouping(items: Mapping[str, Mapping[str, Any]]) -> Grouping | None:
    """Return the grouping by the first field of SUBJECTS and SOURCES that groups these items; None if none does.

    items: by id, the fields of each item. A field groups if some items share a value and not all do. A subject needs
    at least FEWEST values: a few subjects are the topic of the evaluation and no sample of subjects.
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
