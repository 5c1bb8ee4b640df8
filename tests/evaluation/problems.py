"""Generate word problems in GSM8K style, with enough variation that no two are alike."""

import random

from marin.evaluation.items import Item

NAMES = ("Ada", "Ben", "Cleo", "Dan", "Eve", "Finn", "Gus", "Hana", "Ivo", "Jun")
THINGS = ("eggs", "pens", "coins", "books", "plums", "nails", "cards", "stamps")


def problems(count: int, seed: int) -> list[Item]:
    draw = random.Random(seed)
    items: list[Item] = []
    for number in range(count):
        name, thing = draw.choice(NAMES), draw.choice(THINGS)
        a, b, c = draw.randint(11, 99), draw.randint(11, 99), draw.randint(2, 9)
        left, final = a + b, (a + b) * c
        items.append(
            Item(
                id=f"{seed}-{number}",
                question=f"{name} has {a} {thing} and finds {b} more. Each is worth ${c}. What are they worth?",
                answer=f"{name} has {a}+{b} = <<{a}+{b}={left}>>{left} {thing}\n"
                f"They are worth {left}*{c} = $<<{left}*{c}={final}>>{final}\n#### {final}",
                final=str(final),
            )
        )
    return items
