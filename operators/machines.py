"""Check that a training fits the machines that it may run on, before anything starts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from marin import Accelerator
from marin.errors import BadField
from marin.training.costs import Costs
from marin.training.model import ModelShape


def must_suit_machines(
    called: str,
    costs: Costs,
    batches: Mapping[int, int],
    accelerators: Iterable[Accelerator],
    sequences_per_device: int | None,
) -> None:
    """Check that a training fits each of the accelerators that it may run on. batches: first step → sequences.

    Raises BadField.
    """
    accelerators = tuple(accelerators)
    must_split(called, costs.model, costs.tensor, accelerators)
    for accelerator in accelerators:
        must_share_batches(called, batches, accelerator, costs.tensor)
        must_spread(called, costs.model, accelerator, costs.tensor)
        must_fit_memory(called, costs.memory_bytes, accelerator)
    must_make_microbatches(called, batches, sequences_per_device, accelerators, costs.tensor)


def must_share_batches(called: str, batches: Mapping[int, int], accelerator: Accelerator, tensor: int) -> None:
    """Check that all chips, or groups of ``tensor`` chips, can take equally many sequences of each batch.

    batches: first step → sequences. Raises BadField.
    """
    shares = accelerator.chips // tensor
    each = "chips" if tensor == 1 else f"groups of {tensor} chips"
    for step, size in batches.items():
        if rest := size % shares:
            legal = [near for near in (size - rest, size - rest + shares) if near]
            raise BadField(
                f"{called}: a batch of {size:,} sequences, from step {step:,} on, cannot be shared by the "
                f"{shares:,} {each} of {accelerator}. Nearest that can: "
                f"{' and '.join(f'{near:,}' for near in legal)}; or make those steps a run of its own on other "
                "chips, which begins with Fork(…)"
            )


def must_make_microbatches(
    called: str, batches: Mapping[int, int], each: int | None, accelerators: Iterable[Accelerator], tensor: int
) -> None:
    """Check that whole micro-batches make up every batch.

    batches: first step → sequences. each: sequences that a chip, or a group of ``tensor`` chips, takes at once; None
    for its share of the batch. Without accelerators there is one device. Raises BadField.
    """
    if each is None:
        return
    common, sizes = math.gcd(*batches.values()), " and ".join(f"{size:,}" for size in sorted({*batches.values()}))
    groups = "chips" if tensor == 1 else f"groups of {tensor} chips"
    for shares, they in [(one.chips // tensor, f"{groups} of {one}") for one in accelerators] or [(1, "device")]:
        if each < 1 or common % (each * shares):
            raise BadField(
                f"{called}: sequences_per_device is {each}; wanted a divisor of {common // shares:,}, so that batches "
                f"of {sizes} sequences are whole micro-batches on {shares:,} {they}"
            )


def must_split(called: str, model: ModelShape, tensor: int, accelerators: Iterable[Accelerator]) -> None:
    """Check that ``tensor`` chips of a slice can each hold an equal part of every matrix. Raises BadField."""
    sizes = [(model.kv_heads, "kv_heads of its model"), (model.intermediate, "intermediate of its model")]
    for size, of in [*sizes, *((each.slice_chips, f"chips of {each.name}") for each in accelerators)]:
        if tensor < 1 or size % tensor:
            raise BadField(f"{called}: tensor is {tensor}; wanted a divisor of {size:,}, the {of}")


def must_spread(called: str, model: ModelShape, accelerator: Accelerator, tensor: int) -> None:
    """Check that the groups of ``tensor`` chips in a slice can hold equal parts of the hidden dimension.

    Raises BadField.
    """
    groups = accelerator.slice_chips // tensor
    if model.hidden % groups:
        each = "chips" if tensor == 1 else f"groups of {tensor} chips"
        raise BadField(
            f"{called}: the hidden dimension of its model, {model.hidden:,}, cannot be shared by the {groups:,} {each} "
            f"of {accelerator.name}; take a slice, or several, of a size that divides it"
        )


def must_fit_memory(
    called: str, size: int, accelerator: Accelerator, what: str = "weights, optimizer state and gradients"
) -> None:
    """Check that the chips of a slice can hold ``size`` bytes, an equal part on each chip.

    This is a lower bound: it leaves out the activations, whose size depends on much else. Raises BadField.
    """
    part, memory = size / accelerator.slice_chips / 1e9, accelerator.memory_gb
    if memory and part > memory:
        needed = -(-size // int(memory * 1e9))
        raise BadField(
            f"{called}: {what} take {size / 1e9:,.1f} GB, which is {part:,.1f} GB on "
            f"each of the {accelerator.slice_chips:,} chips of {accelerator.name}; one has {memory:g} GB. Without the "
            f"activations it takes {needed:,} such chips: ask for a larger slice, or make the model smaller "
            "(sequences_per_device of a training saves activations only)"
        )


def must_hold_weights(called: str, model: ModelShape, vocabulary: int, accelerator: Accelerator) -> None:
    """Check that a slice can hold the weights of a model for inference, in float32. Raises BadField."""
    size = 4 * model.parameters(vocabulary)
    if model.hidden % accelerator.slice_chips:  # then each chip holds the whole model
        size *= accelerator.slice_chips
    must_fit_memory(called, size, accelerator, "its weights")
