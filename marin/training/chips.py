"""The layout of a model and of a batch's rows on all chips of all hosts. Imports JAX and Levanter.

Weights: the chips of a slice share the hidden dimension ("data"), and each slice has a copy. With ``tensor`` > 1,
``tensor`` chips ("model") also share every head group and the inner dimension, and work on the same rows.
"""

# pyright: basic
from __future__ import annotations

import functools
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

import haliax
import jax
import numpy as np
from haliax import Axis, NamedArray
from jax.sharding import NamedSharding, PartitionSpec
from levanter.utils.mesh import MeshConfig, create_mesh_from_axis_specs

HIDDEN = {"embed": "data"}  # Levanter's name of the axis → the mesh's name


def mesh_config(tensor: int = 1) -> MeshConfig:
    # By default, Levanter splits heads where attention mixes them, not where the projections make them.
    return MeshConfig(axes={"data": -1, "replica": 1, "model": tensor}, shared_mapping={"kv_head": "model"})


class Chips:
    """All chips of all hosts, for a model that only predicts.

    Every host gives the same inputs and gets the same results. mesh, mapping: a running training's; None for new ones.
    """

    def __init__(self, mesh: Any = None, mapping: Mapping[str, Any] | None = None) -> None:
        if mesh is None or mapping is None:
            config = mesh_config()
            slices = max(getattr(device, "slice_index", 0) for device in jax.devices()) + 1
            within, between = config.axis_shapes(jax.device_count(), slices)
            mesh = create_mesh_from_axis_specs(ici_axes=within, dcn_axes=between)
            mapping = config.resolved_compute_mapping
        self.mesh, self._mapping = mesh, mapping
        self._replicated = NamedSharding(self.mesh, PartitionSpec())

    @property
    def count(self) -> int:
        return self.mesh.size

    def rounded(self, rows: int) -> int:
        """Return ``rows`` rounded up to a multiple of the number of chips."""
        return -(-rows // self.count) * self.count

    def spread(self, rows: np.ndarray) -> Any:
        """Return an array whose rows are spread over the chips."""
        if self.count == 1:
            return rows
        axes = PartitionSpec(self._mapping["batch"])
        return jax.make_array_from_callback(rows.shape, NamedSharding(self.mesh, axes), lambda at: rows[at])

    def zeros(self, axes: tuple[Axis, ...], dtype: Any) -> NamedArray:
        """Return zeros, spread over the chips along "batch"."""
        if self.count == 1:
            return haliax.zeros(axes, dtype)
        sharding = haliax.partitioning.sharding_for_axis(axes, self._mapping, self.mesh)
        return NamedArray(jax.numpy.zeros(tuple(axis.size for axis in axes), dtype, device=sharding), axes)

    def whole(self, result: Any) -> Any:
        """Return a result's arrays as whole numpy arrays on every host, wherever their parts lie."""
        if self.count > 1:
            result = _same(self._replicated)(result)
        return jax.tree.map(np.asarray, result)

    @contextmanager
    def at_work(self) -> Generator[None]:
        """Set the mesh and the axis mapping, so that code compiled in this context keeps rows where they are."""
        if self.count == 1:
            yield
            return
        with haliax.partitioning.set_mesh(self.mesh), haliax.axis_mapping(self._mapping):
            yield


@functools.cache
def _same(sharding: NamedSharding) -> Any:
    return jax.jit(lambda result: result, out_shardings=sharding)
