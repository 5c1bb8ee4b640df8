"""A lower bound on the memory for activations: the values that the forward pass keeps for the backward pass."""

from __future__ import annotations

from marin.training.model import ModelShape, Precision, Recompute

BYTES = {Precision.FLOAT32: 4, Precision.BFLOAT16: 2}


def least_activation_bytes(
    model: ModelShape, tokens: int, precision: Precision, recompute: Recompute, *, tensor: int = 1
) -> int:
    """Return the least bytes of activations on one device that works on ``tokens`` tokens at once.

    tensor: devices that work on these tokens together. The count has what every layer keeps: inputs and outputs of
    both norms, queries, keys, values, the output of attention, and four activations of the inner dimension. The count
    leaves out attention scores and logits, which kernels need not keep. The true figure is larger: XLA's for CPUs is
    1.7 to 2.3 times this one. Adapted from Korthikanti et al. 2022, arXiv 2205.05198, section 4, to gated layers
    without dropout.
    """
    attention = 2 * model.head_size * (model.heads + model.kv_heads)
    layer = 4 * model.hidden + (attention + 4 * model.intermediate) // tensor
    kept = {
        Recompute.NOTHING: model.layers * layer,
        Recompute.LAYERS: model.layers * model.hidden + layer,  # the input of each layer, and everything of one layer
        Recompute.OFFLOAD: layer,
    }
    return BYTES[precision] * tokens * kept[recompute]
