"""What a step asks of the machine that runs it. Never part of an identity."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from marin.errors import BadField
from marin.steps.value import value

# Model FLOP/s utilisation when nobody measured it. An estimate, a little to the dear side: PaLM 540B on
# v4 reached .462 (Chowdhery et al. 2022), Llama 3 405B on H100 .38 to .43 (Grattafiori et al. 2024).
MFU = 0.40
ANY_GPU = "gpu"  # the name of an accelerator: GPUs of whatever kind there is


@value("accelerator", kw_only=True)
class Accelerator:
    """Slices of accelerators that are taken whole, each with a copy of the model where there are several."""

    name: str  # the provider's word for one of them ("v4-2048")
    chips: int  # of all slices together
    hosts: int  # likewise
    peak_flops: float  # dense bf16 FLOP/s of one chip; 0 where nobody knows
    slices: int = 1
    memory_gb: float = 0.0  # HBM of one chip; 0 where nobody knows

    def __str__(self) -> str:
        return self.name if self.slices == 1 else f"{self.slices} × {self.name}"

    @property
    def is_tpu(self) -> bool:
        """Its name holds the size of a slice, then."""
        return "-" in self.name

    @property
    def host_chips(self) -> int:
        """Of one host."""
        return self.chips // self.hosts

    @property
    def slice_hosts(self) -> int:
        """Of one slice."""
        return self.hosts // self.slices

    @property
    def slice_chips(self) -> int:
        """Likewise: what one copy of a model is spread over."""
        return self.chips // self.slices


@value("resources", kw_only=True)
class Resources:
    """What a step asks of each host. Raises BadField for amounts that cannot be, or a region that is none.

    ``tpu("v5p-512") | tpu("v4-2048")`` takes the second where the first is not to be had.
    """

    cpus: float = 1.0  # cores reserved (Ray's num_cpus)
    memory_gib: float = 0.0  # reserved; 0 for no reservation
    accelerator: Accelerator | None = None
    region: str = ""  # where those machines are ("gcp/us-central2"), "" for where --region says; only counts egress
    alternatives: tuple[Accelerator, ...] = ()  # to the accelerator, the best first

    def __post_init__(self) -> None:
        for name, amount in (("cpus", self.cpus), ("memory_gib", self.memory_gib)):
            if not (math.isfinite(amount) and amount >= 0):
                raise BadField(f"Resources.{name} is {amount}; wanted 0 or more")
        if self.region:
            from marin.store.region import parse_region

            parse_region(self.region)
        if self.alternatives and self.accelerator is None:
            raise BadField("Resources.alternatives without an accelerator; name the first choice as accelerator")

    @property
    def accelerators(self) -> tuple[Accelerator, ...]:
        """Every one that will do, the best first."""
        return () if self.accelerator is None else (self.accelerator, *self.alternatives)

    def __or__(self, other: Resources) -> Resources:
        """Either's accelerators. Raises BadField where the two differ in anything else, or one has none."""
        if not (self.accelerators and other.accelerators):
            raise BadField(f"{self} | {other}: only accelerators can stand in for each other")
        if replace(other, accelerator=self.accelerator, alternatives=self.alternatives) != self:
            raise BadField(
                f"{', '.join(map(str, self.accelerators))} | {', '.join(map(str, other.accelerators))}: they differ in "
                "cpus, memory_gib or region, of which a step has but one; give both the same"
            )
        return replace(self, alternatives=(*self.alternatives, *other.accelerators))


CPU = Resources()


@dataclass(frozen=True, kw_only=True)
class Size:
    """How large an output is, or about to be."""

    bytes: int  # of its files
    tokens: int | None = None  # of the text in it, None where unknown
    documents: float | None = None  # in expectation, None where unknown


@dataclass(frozen=True, kw_only=True)
class Work:
    """What a training step will do: optimizer steps, tokens read, floating-point operations."""

    steps: int
    tokens: int
    flops: float


def training_cost(flops: float, accelerator: Accelerator, mfu: float = MFU) -> float | None:
    """Return the chip-hours of ``flops`` floating-point operations; None if the accelerator's peak is unknown.

    flops: 6 × parameters × tokens, and attention. mfu: share of the peak that does model FLOPs, above 0, at most 1.
    Divide the result by ``accelerator.chips`` for the wall time in hours. Raises BadField.
    """
    if not flops >= 0:
        raise BadField(f"training_cost: flops is {flops}, wanted 0 or more")
    if not 0 < mfu <= 1:
        raise BadField(f"training_cost: mfu is {mfu}, wanted a share of the peak, above 0 and at most 1")
    return flops / (mfu * accelerator.peak_flops) / 3600 if accelerator.peak_flops else None
