"""The providers' terms for a TPU slice's machines: topology, machine type, software, and a host's resources.

A host's CPUs and memory are the amounts that a pod may request. The machine has more; the system takes its part.
Sources, read November 2026: https://docs.cloud.google.com/kubernetes-engine/docs/concepts/plan-tpus (machine types,
accelerators, topologies) and https://docs.cloud.google.com/tpu/docs/runtimes (software of TPU VMs).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from infra.hardware import TPUS, TpuGeneration, tpu
from marin import Accelerator
from marin.errors import BadField

CUBE = 64  # chips of a 4x4x4 cube
BELOW_CUBE = {4: "2x2x1", 8: "2x2x2", 16: "2x2x4", 32: "2x4x4"}
FLAT = {1: "1x1", 4: "2x2", 8: "2x4", 16: "4x4", 32: "4x8", 64: "8x8", 128: "8x16", 256: "16x16"}


@dataclass(frozen=True, kw_only=True)
class Host:
    """A host of one TPU generation. machines: by the number of chips, {1: …, 4: …, 8: …}."""

    accelerator: str  # GKE's label
    runtime: str  # software of a TPU VM
    machines: dict[int, str]  # GKE's machine types
    cpus_per_chip: int
    memory_gib_per_chip: int


HOSTS = {
    "v4": Host(
        accelerator="tpu-v4-podslice",
        runtime="tpu-ubuntu2204-base",
        machines={4: "ct4p-hightpu-4t"},
        cpus_per_chip=50,
        memory_gib_per_chip=80,
    ),
    "v5e": Host(
        accelerator="tpu-v5-lite-podslice",
        runtime="v2-alpha-tpuv5-lite",
        machines={1: "ct5lp-hightpu-1t", 4: "ct5lp-hightpu-4t", 8: "ct5lp-hightpu-8t"},
        cpus_per_chip=20,
        memory_gib_per_chip=36,
    ),
    "v5p": Host(
        accelerator="tpu-v5p-slice",
        runtime="v2-alpha-tpuv5",
        machines={4: "ct5p-hightpu-4t"},
        cpus_per_chip=40,
        memory_gib_per_chip=90,
    ),
    "v6e": Host(
        accelerator="tpu-v6e-slice",
        runtime="v2-alpha-tpuv6e",
        machines={1: "ct6e-standard-1t", 4: "ct6e-standard-4t", 8: "ct6e-standard-8t"},
        cpus_per_chip=18,
        memory_gib_per_chip=140,
    ),
}


@dataclass(frozen=True, kw_only=True)
class Slice:
    """The machines of one TPU slice. name: the provider's."""

    name: str
    chips: int
    hosts: int
    topology: str
    host: Host

    @property
    def chips_per_host(self) -> int:
        return self.chips // self.hosts

    @property
    def machine(self) -> str:
        return self.host.machines[self.chips_per_host]

    @property
    def cpus(self) -> int:
        """Return the CPUs of one host."""
        return self.host.cpus_per_chip * self.chips_per_host

    @property
    def memory_gib(self) -> int:
        return self.host.memory_gib_per_chip * self.chips_per_host


def slice_called(name: str) -> Slice:
    """Return the slice of this name. Raises BadField for a name that no slice has."""
    found = tpu(name).accelerator
    assert isinstance(found, Accelerator)
    known, generation = next(
        (known, generation) for known, generation in TPUS.items() if found.name.startswith(f"{generation.prefix}-")
    )
    return Slice(
        name=found.name,
        chips=found.chips,
        hosts=found.hosts,
        topology=_topology(found.name, generation, found.chips),
        host=HOSTS[known],
    )


def _topology(name: str, generation: TpuGeneration, chips: int) -> str:
    """Return the most compact topology for these chips."""
    if generation.cores_per_chip == 1:
        return FLAT[chips]
    if chips in BELOW_CUBE:
        return BELOW_CUBE[chips]
    shapes = [
        (a, b, c)
        for a, b, c in itertools.combinations_with_replacement(range(1, 7), 3)
        if a * b * c * CUBE == chips and b <= 4
    ]
    if not shapes:
        raise BadField(f"{name} has no shape of 4x4x4 cubes; choose another size of slice")
    return "x".join(str(4 * side) for side in min(shapes, key=lambda shape: sum(shape)))
