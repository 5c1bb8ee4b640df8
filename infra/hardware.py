"""Accelerators by name: ``tpu("v4-2048")``, ``gpu("h100", count=8)``.

The number in a TPU's name counts TensorCores for v4 and v5p (two a chip: v4-2048 is 1024 chips, v5p-512 is
256), and chips for v5e and v6e (v6e-256 is 256 chips). A host is one virtual machine with its chips.
Peak FLOP/s are dense bf16, of one chip; memory is HBM, of one chip.

Sources, read November 2026:
v4   https://docs.cloud.google.com/tpu/docs/v4      275 TFLOP/s, 32 GiB, pod of 4096 chips
v5e  https://docs.cloud.google.com/tpu/docs/v5e     197 TFLOP/s, 16 GB, pod of 256 chips
v5p  https://docs.cloud.google.com/tpu/docs/v5p     459 TFLOP/s, 95 GB, slices of up to 6144 chips (16x16x24)
v6e  https://docs.cloud.google.com/tpu/docs/v6e     918 TFLOP/s, 32 GB, pod of 256 chips
H100 https://www.nvidia.com/en-us/data-center/h100/ SXM: 1979 TFLOP/s with sparsity, so 989 dense, 80 GB
H200 https://www.nvidia.com/en-us/data-center/h200/ SXM: the same 989, 141 GB
"""

from __future__ import annotations

import difflib
import itertools
import re
from bisect import bisect
from dataclasses import dataclass

from marin import Accelerator, Resources
from marin.errors import BadField


@dataclass(frozen=True, kw_only=True)
class TpuGeneration:
    """A generation of TPUs.

    slices: the number of chips of every slice on offer, ascending. single_host: the chips of the largest slice on one
    host; a larger slice has four chips on each host. prefix: the provider's name.
    """

    prefix: str
    cores_per_chip: int
    peak_flops: float
    hbm_gb: int
    slices: tuple[int, ...]
    single_host: int

    @property
    def names_count(self) -> str:
        return "TensorCores, two a chip" if self.cores_per_chip == 2 else "chips"


@dataclass(frozen=True, kw_only=True)
class Gpu:
    peak_flops: float
    hbm_gb: int
    per_host: int = 8


def _cubes(limit: int) -> tuple[int, ...]:
    """Return the chips of each slice of a 3D torus: parts of a 4x4x4 cube, then whole cubes up to 16x16x24."""
    whole = {64 * a * b * c for a, b, c in itertools.product(range(1, 5), range(1, 5), range(1, 7))}
    return (4, 8, 16, 32, *sorted(chips for chips in whole if chips <= limit))


_FLAT = (1, 4, 8, 16, 32, 64, 128, 256)  # slices of a 2D torus

TPUS = {
    "v4": TpuGeneration(
        prefix="v4", cores_per_chip=2, peak_flops=275e12, hbm_gb=32, slices=_cubes(4096), single_host=4
    ),
    "v5e": TpuGeneration(
        prefix="v5litepod", cores_per_chip=1, peak_flops=197e12, hbm_gb=16, slices=_FLAT, single_host=8
    ),
    "v5p": TpuGeneration(
        prefix="v5p", cores_per_chip=2, peak_flops=459e12, hbm_gb=95, slices=_cubes(6144), single_host=4
    ),
    "v6e": TpuGeneration(prefix="v6e", cores_per_chip=1, peak_flops=918e12, hbm_gb=32, slices=_FLAT, single_host=8),
}

GPUS = {
    "h100": Gpu(peak_flops=989e12, hbm_gb=80),
    "h200": Gpu(peak_flops=989e12, hbm_gb=141),
}

_CHIPS_PER_HOST = 4


def tpu(name: str, *, slices: int = 1, region: str = "") -> Resources:
    """Return whole TPU slices, by the provider's name or with "v5e" for "v5litepod". region: as in Resources.

    ``tpu("v5p-512") | tpu("v4-2048")`` accepts either, and prefers the first.

    Raises BadField for an unknown generation, a malformed name and a size that no slice has.
    """
    found = re.fullmatch(r"([a-z0-9]+)-([0-9]+)", name)
    generation = _generation(found[1]) if found else None
    if found is None or generation is None:
        near = difflib.get_close_matches(name.lower(), _every_tpu(), n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(TPUS)}, then '-' and a size"
        raise BadField(f"tpu({name!r}): no such TPU slice, wanted a name like 'v4-2048'; {hint}")
    size = int(found[2])
    chips, rest = divmod(size, generation.cores_per_chip)
    if rest or chips not in generation.slices:
        raise BadField(
            f"tpu({name!r}): no {found[1]} slice has size {size} ({found[1]} names count {generation.names_count}); "
            f"nearest: {' and '.join(_nearest(found[1], generation, size))}"
        )
    if slices < 1:
        raise BadField(f"tpu({name!r}, slices={slices}): wanted at least 1")
    hosts = 1 if chips <= generation.single_host else chips // _CHIPS_PER_HOST
    made = Accelerator(
        name=f"{generation.prefix}-{size}",
        chips=chips * slices,
        hosts=hosts * slices,
        peak_flops=generation.peak_flops,
        slices=slices,
        memory_gb=generation.hbm_gb,
    )
    return Resources(accelerator=made, region=region)


def gpu(name: str, *, count: int = 1, region: str = "") -> Resources:
    """Return GPUs of one kind: up to eight on one host, or whole hosts of eight. Raises BadField otherwise.

    region: as in Resources.
    """
    if name not in GPUS:
        near = difflib.get_close_matches(name.lower(), GPUS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(GPUS)}"
        raise BadField(f"gpu({name!r}): no such GPU; {hint}")
    kind = GPUS[name]
    if count < 1 or (count > kind.per_host and count % kind.per_host):
        raise BadField(
            f"gpu({name!r}, count={count}): wanted 1 to {kind.per_host} on one host, "
            f"or a multiple of {kind.per_host} for whole hosts"
        )
    hosts = -(-count // kind.per_host)
    made = Accelerator(name=name, chips=count, hosts=hosts, peak_flops=kind.peak_flops, memory_gb=kind.hbm_gb)
    return Resources(accelerator=made, region=region)


def _generation(name: str) -> TpuGeneration | None:
    return next((made for known, made in TPUS.items() if name in (known, made.prefix)), None)


def _nearest(name: str, generation: TpuGeneration, size: int) -> list[str]:
    """Return the slices just below and above a size."""
    sizes = [chips * generation.cores_per_chip for chips in generation.slices]
    at = bisect(sizes, size)
    return [f"{name}-{near}" for near in sizes[max(at - 1, 0) : at + 1]]


def _every_tpu() -> list[str]:
    return [f"{name}-{chips * made.cores_per_chip}" for name, made in TPUS.items() for chips in made.slices]
