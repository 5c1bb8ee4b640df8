"""From our model shape to Levanter's model."""

# pyright: basic
from __future__ import annotations

from typing import Any

from levanter.layers.rotary import DefaultRotaryEmbeddingsConfig, Llama3RotaryEmbeddingsConfig
from levanter.models.llama import LlamaConfig
from levanter.models.qwen import Qwen3Config

from marin.training.model import Architecture, ModelShape, Recompute

CONFIGS = {Architecture.LLAMA: LlamaConfig, Architecture.QWEN3: Qwen3Config}
GRADIENT_CHECKPOINTING: dict[Recompute, bool | str] = {
    Recompute.NOTHING: False,
    Recompute.LAYERS: True,
    Recompute.OFFLOAD: "offload",
}


def levanter_config(shape: ModelShape, recompute: Recompute = Recompute.NOTHING) -> LlamaConfig:
    return CONFIGS[shape.architecture](
        max_seq_len=shape.seq_len,
        hidden_dim=shape.hidden,
        intermediate_dim=shape.intermediate,
        num_layers=shape.layers,
        num_heads=shape.heads,
        num_kv_heads=shape.kv_heads,
        head_dim=shape.head_width,
        layer_norm_epsilon=shape.norm_eps,
        tie_word_embeddings=shape.tied_embeddings,
        rope=_rotary(shape),
        gradient_checkpointing=GRADIENT_CHECKPOINTING[recompute],
    )


def _rotary(shape: ModelShape) -> Any:
    if shape.rope is None:
        return DefaultRotaryEmbeddingsConfig(theta=shape.rope_theta)
    return Llama3RotaryEmbeddingsConfig(
        theta=shape.rope_theta,
        factor=shape.rope.factor,
        low_freq_factor=shape.rope.low,
        high_freq_factor=shape.rope.high,
        original_max_position_embeddings=shape.rope.original,
    )


def build_model(shape: ModelShape, vocabulary: int, key: Any, recompute: Recompute = Recompute.NOTHING) -> Any:
    """A freshly initialised Levanter model. key: a JAX random key."""
    from haliax import Axis

    return levanter_config(shape, recompute).build(Axis("vocab", vocabulary), key=key)


def array_shapes(model: Any) -> dict[str, tuple[int, ...]]:
    """Shape of every parameter by its path in a checkpoint ("transformer/norm/weight").

    model: a Levanter model, or its shapes from ``eqx.filter_eval_shape``.
    """
    import haliax
    import jax
    from levanter.utils.jax_utils import leaf_key_paths

    paths = jax.tree.leaves(leaf_key_paths(model, is_leaf=haliax.is_named_array))
    leaves = jax.tree.leaves(model, is_leaf=haliax.is_named_array)
    return {
        path.replace(".", "/"): tuple((leaf.array if haliax.is_named_array(leaf) else leaf).shape)
        for path, leaf in zip(paths, leaves, strict=True)
    }
