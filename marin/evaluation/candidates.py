"""Wrong final answers that look right, to turn an item into a multiple choice."""

from __future__ import annotations

import random

from marin.errors import GarbledDocument
from marin.evaluation.formats import NUMBER, with_final
from marin.evaluation.items import Item

# Slips of calculation: the last digit, a ten, a factor.
SLIPS = (1, -1, 2, -2, 10, -10, 5, -5, 3, -3, 20, -20, 100, -100)


def candidates(item: Item, choices: int) -> list[Item]:
    """Return the item, then choices - 1 copies whose final answer is wrong.

    Wrong answers have as many digits as the right answer if possible. They depend on the item alone. Raises
    GarbledDocument if the final answer is not a number.
    """
    plain = item.final.replace(",", "")
    if not NUMBER.fullmatch(plain.removeprefix("-")):
        raise GarbledDocument(f"item {item.id}: the final answer {item.final!r} is not a number; wanted one like '18'")
    whole, point, decimals = plain.partition(".")
    right = int(whole or "0")
    draw = random.Random(item.id)
    slips = draw.sample(SLIPS, len(SLIPS))
    wrong = [right + slip for slip in slips if right + slip >= 0 or right < 0]
    # A stable sort: answers with as many digits as the right one come first, in the drawn order.
    wrong.sort(key=lambda number: abs(len(str(number)) - len(whole)))
    grouped = "," in item.final
    finals = [f"{number:,}" if grouped else str(number) for number in wrong[: choices - 1]]
    return [item, *(with_final(item, f"{final}{point}{decimals}") for final in finals)]
