"""LoRA on a Levanter model: add adapters, train them alone, merge them into the weights. See marin.training.lora."""

# pyright: basic
from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import equinox as eqx
import jax
from levanter.adaptor.lora import (
    LoraConfig,
    combine_lora_params,
    is_lora_param,
    lora_trainable_params_filter,
    loraize,
    merge_lora_modules,
    partition_lora_params,
)

from marin.training.lora import LoRA


class _NoDropout(eqx.Module):
    """A layer that does nothing, in place of Levanter's dropout.

    Levanter's dropout holds a truth value. Plain jax.jit traces this value, and Python code then fails to test it.
    """

    is_active: ClassVar[bool] = False

    def __call__(self, x: Any, key: Any = None) -> Any:
        return x


def with_adapters(model: Any, lora: LoRA, key: Any) -> Any:
    """Return the model with fresh adapters, which change nothing yet. key: a JAX random key."""
    config = LoraConfig(
        target_modules=list(lora.modules), r=lora.rank, alpha=lora.alpha, a_init_mode="random", zero_init_b=True
    )
    return jax.tree.map(
        lambda node: dataclasses.replace(node, dropout=_NoDropout()) if is_lora_param(node) else node,
        loraize(model, config, key),
        is_leaf=is_lora_param,
    )


def trainable(model: Any) -> Any:
    """Return Levanter's filter of the parameters to train: the adapters."""
    return lora_trainable_params_filter(model)


def frozen(model: Any) -> Any:
    """Return the model with gradients for the adapters only.

    Levanter would compute the gradients of all weights and then drop the gradients of untrained ones.
    """
    own, adapters = partition_lora_params(model)
    return combine_lora_params(jax.tree.map(jax.lax.stop_gradient, own), adapters)


def adapters_of(model: Any) -> Any:
    return partition_lora_params(model)[1]


def own_weights_of(model: Any) -> Any:
    return partition_lora_params(model)[0]


def with_merged_adapters(own: Any, adapters: Any) -> Any:
    """Return the model with W + (alpha / rank) · B · A in place of each W and its adapter."""
    return merge_lora_modules(combine_lora_params(own, adapters))


def converted(model: Any, dtype: Any) -> Any:
    """Return the model with weights of another type.

    The conversion goes array by array and deletes each old array, so memory never holds both models whole.
    """

    def one(leaf: Any) -> Any:
        if not eqx.is_inexact_array(leaf) or leaf.dtype == dtype:
            return leaf
        made = jax.block_until_ready(leaf.astype(dtype))
        leaf.delete()
        return made

    return jax.tree.map(one, model)
