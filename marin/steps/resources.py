"""Machines: the resources that a step asks for, and the hosts that it gets. They are never part of an identity."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from marin.errors import BadField
from marin.steps.value import value

# Model FLOP/s utilisation if nobody measured it. The estimate is slightly pessimistic: PaLM 540B on v4
# reached .462 (Chowdhery et al. 2022), Llama 3 405B on H100 .38 to .43 (Grattafiori et al. 2024).
MFU = 0.40
ANY_GPU = "gpu"  # the name of an accelerator: GPUs of any kind


@value("accelerator", kw_only=True)
class Accelerator:
    """One or more whole slices of accelerator chips. With several slices, each holds a copy of the model."""

    name: str  # the provider's name of one slice ("v4-2048")
    chips: int  # of all slices together
    hosts: int  # of all slices together
    peak_flops: float  # dense bf16 FLOP/s of one chip; 0 if unknown
    slices: int = 1
    memory_gb: float = 0.0  # HBM of one chip; 0 if unknown

    def __str__(self) -> str:
        return self.name if self.slices == 1 else f"{self.slices} × {self.name}"

    @property
    def is_tpu(self) -> bool:
        """Return whether the accelerator is a TPU: only TPU names hold the size of a slice."""
        return "-" in self.name

    @property
    def host_chips(self) -> int:
        return self.chips // self.hosts

    @property
    def slice_hosts(self) -> int:
        return self.hosts // self.slices

    @property
    def slice_chips(self) -> int:
        """Return the chips of one slice, over which one copy of a model is spread."""
        return self.chips // self.slices


@value("resources", kw_only=True)
class Resources:
    """Resources that a step asks for on each host. Raises BadField for impossible amounts or a malformed region.

    ``tpu("v5p-512") | tpu("v4-2048")`` takes the second if the first is not available.
    """

    cpus: float = 1.0  # cores reserved (Ray's num_cpus)
    memory_gib: float = 0.0  # reserved; 0 for no reservation
    accelerator: Accelerator | None = None
    region: str = ""  # region of the machines ("gcp/us-central2"), "" for that of --region; only for counting egress
    alternatives: tuple[Accelerator, ...] = ()  # other accelerators that will do, the best first

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
        """Return every accelerator that will do, the best first."""
        return () if self.accelerator is None else (self.accelerator, *self.alternatives)

    def __or__(self, other: Resources) -> Resources:
        """Return resources with the accelerators of both. Raises BadField if they differ otherwise, or one has none."""
        if not (self.accelerators and other.accelerators):
            raise BadField(f"{self} | {other}: only accelerators can stand in for each other")
        if replace(other, accelerator=self.accelerator, alternatives=self.alternatives) != self:
            raise BadField(
                f"{', '.join(map(str, self.accelerators))} | {', '.join(map(str, other.accelerators))}: they differ in "
                "cpus, memory_gib or region, but a step has only one of each; give both the same"
            )
        return replace(self, alternatives=(*self.alternatives, *other.accelerators))


CPU = Resources()


def _never(_call: Callable[[], object]) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Host:
    """One host of a step, as the work on this host sees it."""

    number: int  # from 0, slice after slice, in the order in which the hosts of a slice are wired
    count: int
    meeting: str  # "ADDRESS:PORT" on host 0 that every host reaches and that is free; "" if there is only one host
    # Variables that the processes need to find each other.
    environment: Mapping[str, str] = field(default_factory=dict[str, str], compare=False)
    # Takes a function to call, in another thread, when another host has failed: the work on this host must then end.
    on_stop: Callable[[Callable[[], object]], Any] = field(default=_never, compare=False)

    def __str__(self) -> str:
        return f"host {self.number} of {self.count}"


ALONE = Host(number=0, count=1, meeting="")


@dataclass(frozen=True, kw_only=True)
class Size:
    """The size of an output, known or expected."""

    bytes: int  # of the output's files
    tokens: int | None = None  # of the output's text; None if unknown
    documents: float | None = None  # expected number; None if unknown


@dataclass(frozen=True, kw_only=True)
class Work:
    """The amount of training in a step: optimizer steps, tokens read, floating-point operations."""

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
