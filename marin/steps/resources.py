"""What a step asks of the machine that runs it. Never part of an identity."""

from __future__ import annotations

from dataclasses import dataclass

from marin.steps.value import value


@value("accelerator", kw_only=True)
class Accelerator:
    """A slice of accelerators that is taken whole.

    name: the provider's word for it ("v4-2048"). chips, hosts: counts. peak_flops: dense bf16
    FLOP/s of one chip.
    """

    name: str
    chips: int
    hosts: int
    peak_flops: float


@value("resources", kw_only=True)
class Resources:
    """cpus: cores reserved (Ray's num_cpus). memory_gib: memory reserved, 0 for no reservation. region: where those
    machines are ("gcp/us-central2"), "" for wherever --region says; it moves nothing, what crosses regions is counted
    by it. Raises BadField.
    """

    cpus: float = 1.0
    memory_gib: float = 0.0
    accelerator: Accelerator | None = None
    region: str = ""

    def __post_init__(self) -> None:
        if self.region:
            from marin.store.region import parse_region

            parse_region(self.region)


CPU = Resources()


@dataclass(frozen=True, kw_only=True)
class Size:
    """How large an output is, or about to be. bytes: of its files. tokens: of the text in it, None where unknown."""

    bytes: int
    tokens: int | None = None


@dataclass(frozen=True, kw_only=True)
class Work:
    """What a training step will do: optimizer steps, tokens read, floating-point operations."""

    steps: int
    tokens: int
    flops: float
