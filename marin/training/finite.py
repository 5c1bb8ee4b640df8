"""Find numbers that are not finite in a model or a training state. Imports JAX: do so inside run()."""

# pyright: basic
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import haliax
import jax
import jax.numpy as jnp
import numpy as np
from levanter.utils.jax_utils import leaf_key_paths

NAMED = 3


def non_finite_arrays(tree: Any) -> list[str]:
    """Return the checkpoint paths of the floating-point arrays that hold a NaN or an infinite number.

    Each device reduces its arrays in place; only one vector of truth values comes to the host.
    """
    paths = jax.tree.leaves(leaf_key_paths(tree, is_leaf=haliax.is_named_array))
    leaves = jax.tree.leaves(tree, is_leaf=haliax.is_named_array)
    arrays = {
        path.replace(".", "/"): array
        for path, leaf in zip(paths, leaves, strict=True)
        if eqx.is_inexact_array(array := leaf.array if haliax.is_named_array(leaf) else leaf)
    }
    if not arrays:
        return []
    finite = np.asarray(_all_finite(list(arrays.values())))
    return [path for path, good in zip(arrays, finite, strict=True) if not good]


def write_arrays(paths: Sequence[str]) -> str:
    """Return ``NaN or infinite numbers in model/lm_head/weight``, with the first few names."""
    more = f" and {len(paths) - NAMED} more" if len(paths) > NAMED else ""
    return f"NaN or infinite numbers in {', '.join(paths[:NAMED])}{more}"


@jax.jit
def _all_finite(arrays: list[Any]) -> Any:
    return jnp.stack([jnp.isfinite(array).all() for array in arrays])
