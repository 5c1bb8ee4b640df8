"""Checkpoints that look complete and are not good, as an older build, a full disk or a lost file leaves them."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from marin.store.files.directory import Directory
from marin.training import checkpoint

LM_HEAD = "model/lm_head/weight"


def poison(directory: Directory, array: str = LM_HEAD) -> None:
    """Make one number of an array NaN, and complete the checkpoint as a build did that did not look."""
    import tensorstore

    store: Any = tensorstore.open({"driver": "zarr3", "kvstore": _arrays(directory) | {"path": array}}).result()
    content = np.array(store.read().result())
    content.flat[0] = np.nan
    store.write(content).result()
    _complete(directory)


def lose_array(directory: Directory, array: str = LM_HEAD) -> None:
    import tensorstore

    store: Any = tensorstore.KvStore.open(_arrays(directory)).result()
    store.delete_range(tensorstore.KvStore.KeyRange(array, array + "0")).result()
    _complete(directory)


def stored_arrays(directory: Directory, below: str) -> dict[str, np.ndarray]:
    """Every array of a checkpoint below this path, by the rest of its own."""
    import json

    import tensorstore

    paths = [each["path"] for each in json.loads(directory.read_text("manifest.json"))["arrays"]]
    return {
        path.removeprefix(f"{below}/"): np.asarray(
            tensorstore.open({"driver": "zarr3", "kvstore": _arrays(directory) | {"path": path}})
            .result()
            .read()
            .result()
        )
        for path in paths
        if path.startswith(f"{below}/")
    }


def truncate(directory: Directory) -> None:
    """Keep half of the largest file."""
    name = max(directory.names(), key=directory.size)
    directory.write_bytes(name, directory.read_bytes(name)[: directory.size(name) // 2])


def garble_marker(directory: Directory) -> None:
    directory.write_text(checkpoint.MARKER, "{")


def _arrays(directory: Directory) -> dict[str, Any]:
    return {"driver": "ocdbt", "base": f"file://{directory.path}/"}


def _complete(directory: Directory) -> None:
    checkpoint.complete(directory, dataclasses.replace(checkpoint.read_facts(directory), finite=False))
