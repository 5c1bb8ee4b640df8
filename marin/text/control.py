"""A positive control: a search that does not find what was planted for it has found nothing out."""

from __future__ import annotations

import re
from typing import NamedTuple

from marin.errors import ControlMissed
from marin.text.overlap import OverlapIndex

PLANTED = 8  # items, from all over the suite
FILLER = "A page that somebody wrote about something else, before and after what is of interest here.\n"
FEWEST = 0.75  # of them that must be found, as they are and disguised
ZERO_WIDTH = "\u200b"
BETWEEN = re.compile(r"(?<=[A-Z])(?=[A-Z])")


class Control(NamedTuple):
    """How many items were planted, and how many of them were found as they are and disguised."""

    planted: int
    found: int


def check_control(index: OverlapIndex) -> Control:
    """Plants items of the suite in a text, as they are and disguised, and looks for them.

    Raises ControlMissed if more than a quarter is not, or if the suite has no item that could be.
    """
    short = set(index.unindexed)
    able = [number for number, item in enumerate(index.items) if item.id not in short]
    if not able:
        raise ControlMissed(
            f"none of the {len(index.items)} items can be found in any text: all are too short or alike; a search for "
            "them would find nothing and prove nothing. Give the items with the fields that they were published with"
        )
    planted = able[:: max(len(able) // PLANTED, 1)][:PLANTED]
    found: list[str] = []
    for number in planted:
        item = index.items[number]
        written = "\n".join([*item.fields.values(), item.final])
        shown = [written, BETWEEN.sub(ZERO_WIDTH, written.upper())]
        if all(any(hit.item == number for hit in index.find(f"{FILLER}{text}\n{FILLER}")) for text in shown):
            found.append(item.id)
    if len(found) < FEWEST * len(planted):
        missed = [index.items[number].id for number in planted if index.items[number].id not in found]
        raise ControlMissed(
            f"of {len(planted)} items planted in a text, {len(missed)} were not found ({', '.join(missed)}): what it "
            f"did not find is not shown to be clean. Its rule is {index.rule}; choose one that asks for less"
        )
    return Control(len(planted), len(found))
