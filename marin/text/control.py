"""A positive control for contamination searches: plant items in a text, and check that the search finds them."""

from __future__ import annotations

import re
from typing import NamedTuple

from marin.errors import ControlMissed
from marin.text.overlap import OverlapIndex

PLANTED = 8  # items, spread over the suite
FILLER = "A page that somebody wrote about something else, before and after what is of interest here.\n"
FEWEST = 0.75  # share of planted items that must be found, both verbatim and disguised
ZERO_WIDTH = "\u200b"
BETWEEN = re.compile(r"(?<=[A-Z])(?=[A-Z])")


class Control(NamedTuple):
    """The number of planted items, and of items found both verbatim and disguised."""

    planted: int
    found: int


def check_control(index: OverlapIndex) -> Control:
    """Plant items of the suite in a text, verbatim and disguised, and look for them.

    Raises ControlMissed if more than a quarter is not found, or if the suite has no item that can be found.
    """
    short = set(index.unindexed)
    able = [number for number, item in enumerate(index.items) if item.id not in short]
    if not able:
        raise ControlMissed(
            f"none of the {len(index.items)} items can be found in any text, because all are too short or alike; the "
            "search would prove nothing. Give the items with all published fields"
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
            f"of {len(planted)} items planted in a text, {len(missed)} were not found ({', '.join(missed)}), so the "
            f"search cannot show that text is clean. Its rule is {index.rule}; choose one with lower thresholds"
        )
    return Control(len(planted), len(found))
