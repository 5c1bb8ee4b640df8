"""Read the config.json of a Hugging Face model as a ModelShape. Imports transformers inside functions.

marin reads an architecture only after its logits were shown to equal transformers' logits (tests/training/published).
It refuses every unknown field that may change the arithmetic.
"""

# pyright: basic
from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from marin.errors import BadField, InputError
from marin.training.model import Architecture, Llama3Rope, ModelShape

CONFIG = "config.json"
# Gemma 3 is missing: Levanter's logits are 2.3 away from transformers' logits.
# Mistral without a sliding window computes the same as Llama, so marin treats it as Llama.
KNOWN = {each.value: each for each in Architecture} | {"mistral": Architecture.LLAMA}
# Fields about files, programs or the making of a model, not about its arithmetic.
HARMLESS = frozenset(
    {
        "_attn_implementation",
        "_flash_attn_2_enabled",
        "attn_implementation",
        "bos_token",
        "eos_token",
        "initializer_range",
        "is_llama_config",
        "max_length",
        "max_window_layers",
        "no_bias",  # Levanter writes it; the weights show whether there are biases
        "pretraining_tp",
        "rope_scaling",
        "rope_theta",
        "rope_type",
        "sliding_window",
        "tokenizer_class",
        "torch_dtype",
        "transformers.js_config",
        "unsloth_fixed",
    }
)
WANTED = {"hidden_act": "silu", "attention_bias": False, "mlp_bias": False, "attention_dropout": 0.0}
LLAMA3 = {"factor": "factor", "low_freq_factor": "low", "high_freq_factor": "high"}
PLAIN_ROPE = frozenset({"rope_type", "rope_theta", "type"})
LLAMA3_ROPE = PLAIN_ROPE | LLAMA3.keys() | {"original_max_position_embeddings"}


@dataclass(frozen=True, kw_only=True)
class PublishedConfig:
    """The shape of a published model. rows: rows of its embedding, often padded beyond the tokenizer's entries."""

    shape: ModelShape
    rows: int


def read_config(text: bytes | str, where: str) -> PublishedConfig:
    """Return the shape that a config.json describes. where: the model's name in errors.

    Raises InputError for an architecture or a field that marin does not understand; the message names it.
    """
    import logging

    logging.getLogger("transformers").setLevel(logging.ERROR)  # it says that it has no torch
    from transformers import AutoConfig

    try:
        written = json.loads(text)
        kind = written["model_type"]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{where}/{CONFIG} does not describe a model: {error!r}; is this the right folder?") from error
    if kind not in KNOWN:
        raise InputError(
            f"{where} is a {kind!r} model. marin reads {', '.join(sorted(KNOWN))}, because their logits were compared "
            "with transformers' logits; take one of these, or train the model elsewhere"
        )
    fields = {name: held for name, held in written.items() if name != "model_type"}
    try:
        config: Any = AutoConfig.for_model(kind, **fields)
    except Exception as error:  # transformers checks some fields, each in its own way
        raise InputError(f"{where}/{CONFIG}: transformers does not read it: {error}") from error
    _must_be_understood(written, config, where)
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    try:
        shape = ModelShape(
            architecture=KNOWN[kind],
            hidden=config.hidden_size,
            intermediate=config.intermediate_size,
            layers=config.num_hidden_layers,
            heads=config.num_attention_heads,
            kv_heads=config.num_key_value_heads or config.num_attention_heads,
            seq_len=config.max_position_embeddings,
            head_width=None if width * config.num_attention_heads == config.hidden_size else width,
            rope_theta=float(config.rope_parameters["rope_theta"]),
            norm_eps=config.rms_norm_eps,
            tied_embeddings=bool(config.tie_word_embeddings),
            rope=_stretched(config.rope_parameters, where),
        )
    except BadField as error:
        raise InputError(f"{where}/{CONFIG}: {error}") from error
    return PublishedConfig(shape=shape, rows=int(config.vocab_size))


def _must_be_understood(written: Mapping[str, Any], config: Any, where: str) -> None:
    if written.get("quantization_config"):
        raise InputError(
            f"{where} has quantised weights (quantization_config); take the repository with the weights in float32, "
            "bfloat16 or float16"
        )
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    if getattr(config, "sliding_window", None) is not None or kinds != {"full_attention"}:
        raise InputError(
            f"{where} attends through a sliding window ({getattr(config, 'sliding_window', None)} tokens), which "
            "marin does not compute; take a model without one"
        )
    for name, wanted in WANTED.items():
        if (found := getattr(config, name, wanted)) != wanted:
            raise InputError(f"{where}/{CONFIG}: {name} is {found!r}; marin computes {wanted!r} only")
    known = HARMLESS | type(config)().to_dict().keys()
    strange = sorted(name for name, held in written.items() if name not in known and held not in (None, False))
    if strange:
        raise InputError(
            f"{where}/{CONFIG} has fields that marin does not know and that may change the arithmetic: "
            f"{', '.join(f'{name} = {written[name]!r}' for name in strange)}. If you know that a field does not, "
            "remove it from a copy and read the copy with FolderModel"
        )


def _stretched(rope: Mapping[str, Any], where: str) -> Llama3Rope | None:
    kind = rope.get("rope_type", "default")
    understood = {"default": PLAIN_ROPE, "llama3": LLAMA3_ROPE}.get(kind)
    if understood is None or (strange := sorted(rope.keys() - understood)):
        said = f"rope_type {kind!r}" if understood is None else f"rope parameters {', '.join(strange)}"
        raise InputError(f"{where}/{CONFIG}: marin does not compute {said}; it computes 'default' and 'llama3'")
    if kind == "default":
        return None
    held = {ours: float(rope[theirs]) for theirs, ours in LLAMA3.items()}
    return Llama3Rope(**held, original=int(rope["original_max_position_embeddings"]))
