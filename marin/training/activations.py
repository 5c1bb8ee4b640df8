"""How much memory the backward pass needs for what the forward pass left it, at the least."""

from __future__ import annotations

from marin.training.model import ModelShape, Precision, Recompute

BYTES = {Precision.FLOAT32: 4, Precision.BFLOAT16: 2}


def least_activation_bytes(
    model: ModelShape, tokens: int, precision: Precision, recompute: Recompute, *, tensor: int = 1
) -> int:
    """Of one device that works on so many tokens at once. tensor: devices that work on them together.

    Counted is what every layer keeps: inputs and outputs of both norms, queries, keys, values, what attention returns,
    and four of the inner dimension. Neither attention scores nor logits are, which kernels need not keep, so that
    the true figure is larger: XLA's for CPUs is 1.7 to 2.3 times this one. Adapted from Korthikanti et al. 2022,
    arXiv 2205.05198, section 4, to gated layers without dropout.
    """
    attention = 2 * model.head_size * (model.heads + model.kv_heads)
    layer = 4 * model.hidden + (attention + 4 * model.intermediate) // tensor
    kept = {
        Recompute.NOTHING: model.layers * layer,
        Recompute.LAYERS: model.layers * model.hidden + layer,  # the input of each, and all of one
        Recompute.OFFLOAD: layer,
    }
    return BYTES[precision] * tokens * kept[recompute]
