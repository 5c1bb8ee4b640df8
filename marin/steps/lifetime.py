"""The time that an output stays in the store. An output without a declared lifetime stays forever.

::

    train = Train(..., lifetime=after_use(days=30))   # a sweep's arm, whose scores are what matters
    fork = train.at(1000, lifetime=unless_read(days=7))   # in case somebody wants to go on from there

``marin gc`` honours the lifetime once the output is committed. The results of an experiment stay forever, whatever is
declared. A lifetime is never part of an identity, so changing it rebuilds nothing.
"""

from __future__ import annotations

from enum import StrEnum

from marin.errors import BadField
from marin.steps.value import value


class Rule(StrEnum):
    """The rule by which an output goes.

    UNREAD: some days after it was built, unless an output that stays was built from it. UNUSED: some days after it was
    built or last read by a commit, whatever was built from it.
    """

    FOREVER = "forever"
    UNREAD = "unread"
    UNUSED = "unused"


@value("lifetime", kw_only=True)
class Lifetime:
    """A lifetime, from ``unless_read``, ``after_use`` or ``FOREVER``. Raises BadField if days is not positive."""

    rule: Rule = Rule.FOREVER
    days: float = 0.0

    def __post_init__(self) -> None:
        if self.rule is not Rule.FOREVER and not self.days > 0:
            raise BadField(f"a lifetime of {self.days} days; wanted more than 0")

    def __str__(self) -> str:
        """Return the form that a record keeps; "" for an output that stays forever."""
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
    """Delete an output this many days after it was built, unless an output that stays was built from it."""
    return Lifetime(rule=Rule.UNREAD, days=days)


def after_use(*, days: float) -> Lifetime:
    """Delete an output this many days after it was built or a commit last read it, whatever was built from it."""
    return Lifetime(rule=Rule.UNUSED, days=days)


def parse_lifetime(text: str) -> Lifetime:
    """Return the lifetime that ``str`` wrote. A text that cannot be read (a later marin's rule) means forever."""
    rule, _, days = text.partition(" ")
    try:
        return Lifetime(rule=Rule(rule), days=float(days)) if text else FOREVER
    except (ValueError, BadField):
        return FOREVER
