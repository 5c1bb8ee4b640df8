"""How long an output stays in the store. Where it is not declared: for good.

::

    train = Train(..., lifetime=after_use(days=30))   # a sweep's arm, whose scores are what matters
    fork = train.at(1000, lifetime=unless_read(days=7))   # in case somebody wants to go on from there

``marin gc`` honours it, once the output is committed. What an experiment names as a result stays for good, whatever
is declared. Never part of an identity: changing it makes nothing again.
"""

from __future__ import annotations

from enum import StrEnum

from marin.errors import BadField
from marin.steps.value import value


class Rule(StrEnum):
    """UNREAD: goes some days after it was made, unless something that stays was made from it. UNUSED: goes some days
    after it was made or last read by a commit, whatever was made from it."""

    FOREVER = "forever"
    UNREAD = "unread"
    UNUSED = "unused"


@value("lifetime", kw_only=True)
class Lifetime:
    """Made by ``unless_read``, ``after_use`` or ``FOREVER``. Raises BadField if days is not positive."""

    rule: Rule = Rule.FOREVER
    days: float = 0.0

    def __post_init__(self) -> None:
        if self.rule is not Rule.FOREVER and not self.days > 0:
            raise BadField(f"a lifetime of {self.days} days; wanted more than 0")

    def __str__(self) -> str:
        """As a record keeps it; "" for good."""
        return "" if self.rule is Rule.FOREVER else f"{self.rule} {self.days:g}"

    def describe(self) -> str:
        days = f"{self.days:g} day{'' if self.days == 1 else 's'}"
        return {
            Rule.FOREVER: "kept for good",
            Rule.UNREAD: f"kept {days}, unless something is made from it",
            Rule.UNUSED: f"kept {days} after it was made or last read",
        }[self.rule]


FOREVER = Lifetime()


def unless_read(*, days: float) -> Lifetime:
    """Gone so many days after it was made, unless something that stays was made from it."""
    return Lifetime(rule=Rule.UNREAD, days=days)


def after_use(*, days: float) -> Lifetime:
    """Gone so many days after it was made or a commit last read it, whatever was made from it."""
    return Lifetime(rule=Rule.UNUSED, days=days)


def parse_lifetime(text: str) -> Lifetime:
    """Inverse of ``str``. What cannot be read (a later marin's rule) stays for good."""
    rule, _, days = text.partition(" ")
    try:
        return Lifetime(rule=Rule(rule), days=float(days)) if text else FOREVER
    except (ValueError, BadField):
        return FOREVER
