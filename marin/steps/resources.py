"""What a step asks of the machine that runs it. Never part of an identity."""

from __future__ import annotations

import math
from dataclasses import dataclass

from marin.errors import BadField
from marin.steps.value import value


@value("accelerator", kw_only=True)
class Accelerator:
    """Slices of accelerators that are taken whole, each with a copy of the model where there are several."""

    name: str  # the provider's word for one of them ("v4-2048")
    chips: int  # of all slices together
    hosts: int  # likewise
    peak_flops: float  # dense bf16 FLOP/s of one chip
    slices: int = 1

    def __str__(self) -> str:
        return self.name if self.slices == 1 else f"{self.slices} × {self.name}"


@value("resources", kw_only=True)
class Resources:
    """What a step asks for. Raises BadField for amounts that cannot be, or a region that is none."""

    cpus: float = 1.0  # cores reserved (Ray's num_cpus)
    memory_gib: float = 0.0  # reserved; 0 for no reservation
    accelerator: Accelerator | None = None
    region: str = ""  # where those machines are ("gcp/us-central2"), "" for where --region says; only counts egress

    def __post_init__(self) -> None:
        for name, amount in (("cpus", self.cpus), ("memory_gib", self.memory_gib)):
            if not (math.isfinite(amount) and amount >= 0):
                raise BadField(f"Resources.{name} is {amount}; wanted 0 or more")
        if self.region:
            from marin.store.region import parse_region

            parse_region(self.region)


CPU = Resources()


@dataclass(frozen=True, kw_only=True)
class Size:
    """How large an output is, or about to be."""

    bytes: int  # of its files
    tokens: int | None = None  # of the text in it, None where unknown


@dataclass(frozen=True, kw_only=True)
class Work:
    """What a training step will do: optimizer steps, tokens read, floating-point operations."""

    steps: int
    tokens: int
    flops: float
