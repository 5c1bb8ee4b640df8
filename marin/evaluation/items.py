"""Items of an evaluation, as worked word problems, and their file ``items.jsonl``."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from marin.errors import GarbledDocument
from marin.store.files.directory import Directory

ITEMS_FILE = "items.jsonl"


@dataclass(frozen=True)
class Item:
    """One problem. answer: GSM8K style, steps with ``<<16-7=9>>`` tags, then ``#### 9``; final: "9".

    others: further texts that the item was published with, by name: choices, a passage, tests.
    """

    id: str
    question: str
    answer: str
    final: str
    others: tuple[tuple[str, str], ...] = ()

    @property
    def fields(self) -> dict[str, str]:
        """Return the item's texts by name, in the order of a prompt."""
        return {"question": self.question, **dict(self.others), "answer": self.answer}


def read_items(directory: Directory) -> list[Item]:
    """Return every item, in file order. Raises GarbledDocument naming the line that is not an item."""
    items: list[Item] = []
    # Bytes, because str.splitlines would also break a line at a U+2028 or U+0085 inside an item.
    with directory.open(ITEMS_FILE) as lines:
        for number, line in enumerate(lines, start=1):
            try:
                row = json.loads(line)
                others = tuple(row.pop("others", {}).items())
                items.append(Item(**row, others=others))
            except (AttributeError, TypeError, ValueError) as error:
                raise GarbledDocument(
                    f"{directory.url}/{ITEMS_FILE} line {number} is not an item ({error}); "
                    "wanted a JSON object with id, question, answer and final"
                ) from error
    return items


def write_items(directory: Directory, items: Iterable[Item]) -> int:
    """Write ``items.jsonl``; return the number of items."""
    lines = [json.dumps(_row(item), ensure_ascii=False) + "\n" for item in items]
    directory.write_text(ITEMS_FILE, "".join(lines))
    return len(lines)


def _row(item: Item) -> dict[str, Any]:
    row = asdict(item)
    others = row.pop("others")
    return {**row, "others": dict(others)} if others else row
