"""Build Levanter's model from marin's model shape, and load a checkpoint's weights into it."""

# pyright: basic
from __future__ import annotations

from typing import Any

from levanter.layers.rotary import DefaultRotaryEmbeddingsConfig, Llama3RotaryEmbeddingsConfig
from levanter.models.llama import LlamaConfig
from levanter.models.olmo import Olmo2Config
from levanter.models.qwen import Qwen3Config, QwenConfig
from levanter.tensorstore_serialization import ReplicaRestoreMode, TensorStoreReadConfig

from marin.errors import UnreadableCheckpoint
from marin.store.files.directory import Directory
from marin.training.checkpoint import Facts
from marin.training.chips import HIDDEN
from marin.training.model import Architecture, ModelShape, Recompute

CONFIGS: dict[Architecture, type[LlamaConfig | Olmo2Config]] = {
    Architecture.LLAMA: LlamaConfig,
    Architecture.QWEN3: Qwen3Config,
    Architecture.QWEN2: QwenConfig,
    Architecture.OLMO2: Olmo2Config,
}
GRADIENT_CHECKPOINTING: dict[Recompute, bool | str] = {
    Recompute.NOTHING: False,
    Recompute.LAYERS: True,
    Recompute.OFFLOAD: "offload",
}
# In the other mode one device reads for all devices with the same data. There, several processes fail on truth values.
READING = TensorStoreReadConfig(replica_mode=ReplicaRestoreMode.EVERY_REPLICA)


def levanter_config(shape: ModelShape, recompute: Recompute = Recompute.NOTHING) -> Any:
    """Return Levanter's configuration of a model: a LlamaConfig, or an Olmo2Config."""
    width = {} if shape.architecture is Architecture.OLMO2 else {"head_dim": shape.head_width}
    config: Any = CONFIGS[shape.architecture]
    return config(
        max_seq_len=shape.seq_len,
        hidden_dim=shape.hidden,
        intermediate_dim=shape.intermediate,
        num_layers=shape.layers,
        num_heads=shape.heads,
        num_kv_heads=shape.kv_heads,
        **width,
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
    """Return a freshly initialised Levanter model. key: a JAX random key."""
    from haliax import Axis

    return levanter_config(shape, recompute).build(Axis("vocab", vocabulary), key=key)


def load_weights(source: Directory, facts: Facts, *, averaged: bool, mesh: Any, spread: bool = False) -> Any:
    """Return the Levanter model of a checkpoint.

    averaged: load the moving average of the weights. spread: split the hidden dimension over the mesh's "data" axis;
    otherwise each device has the whole dimension. Raises UnreadableCheckpoint.
    """
    import equinox as eqx
    import jax
    from levanter.checkpoint import load_checkpoint

    shapes = eqx.filter_eval_shape(lambda key: build_model(facts.model, facts.vocabulary, key), jax.random.PRNGKey(0))
    weights = "model_averaging/model" if averaged else "model"
    try:
        return load_checkpoint(
            shapes,
            source.url,
            subpath=weights,
            axis_mapping=HIDDEN if spread else {},
            mesh=mesh,
            read_config=READING,
        )
    except (FileNotFoundError, ValueError) as error:
        raise UnreadableCheckpoint(f"{source.url}: the {weights} weights cannot be read: {error}") from error


def array_shapes(model: Any) -> dict[str, tuple[int, ...]]:
    """Return the shape of every parameter by its path in a checkpoint ("transformer/norm/weight").

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
