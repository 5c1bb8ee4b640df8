"""How a model and the rows of a batch lie on all chips of all hosts. Imports JAX and Levanter.

Weights: the hidden dimension over the chips of a slice ("data"), a copy on each slice. With ``tensor`` > 1 so many
chips ("model") hold a part each of every head group and of the inner dimension, too, and work on the same rows.
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

HIDDEN = {"embed": "data"}  # Levanter's name of the axis → that of the mesh


def mesh_config(tensor: int = 1) -> MeshConfig:
    # Of its own, Levanter splits heads where they are mixed, not where they are made.
    return MeshConfig(axes={"data": -1, "replica": 1, "model": tensor}, shared_mapping={"kv_head": "model"})


class Chips:
    """All there are, for a model that is only asked. What is the same on every host goes in, and comes out again.

    mesh, mapping: of a training that goes on around it; of its own without.
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
        """As many, or a few more, that all chips can share."""
        return -(-rows // self.count) * self.count

    def spread(self, rows: np.ndarray) -> Any:
        """An array of which each chip holds some rows."""
        if self.count == 1:
            return rows
        axes = PartitionSpec(self._mapping["batch"])
        return jax.make_array_from_callback(rows.shape, NamedSharding(self.mesh, axes), lambda at: rows[at])

    def zeros(self, axes: tuple[Axis, ...], dtype: Any) -> NamedArray:
        """Spread by their "batch"."""
        if self.count == 1:
            return haliax.zeros(axes, dtype)
        sharding = haliax.partitioning.sharding_for_axis(axes, self._mapping, self.mesh)
        return NamedArray(jax.numpy.zeros(tuple(axis.size for axis in axes), dtype, device=sharding), axes)

    def whole(self, result: Any) -> Any:
        """Arrays of numpy, on every host, of what lies anywhere."""
        if self.count > 1:
            result = _same(self._replicated)(result)
        return jax.tree.map(np.asarray, result)

    @contextmanager
    def at_work(self) -> Generator[None]:
        """What is compiled here keeps rows where they are."""
        if self.count == 1:
            yield
            return
        with haliax.partitioning.set_mesh(self.mesh), haliax.axis_mapping(self._mapping):
            yield


@functools.cache
def _same(sharding: NamedSharding) -> Any:
    return jax.jit(lambda result: result, out_shardings=sharding)
