"""The two sizes of every experiment. The scale is an argument and never comes from the environment."""

from enum import Enum

from marin.steps.value import value


@value("scale")
class Scale(Enum):
    """REHEARSAL: a laptop, minutes, no network, no account. FULL: the real thing."""

    _value_: str
    REHEARSAL = "rehearsal"
    FULL = "full"
