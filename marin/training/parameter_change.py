"""Measure the distance between two checkpoints' weights, group by group. Reads ranges, never a whole checkpoint."""

# pyright: basic
from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from marin.errors import UnreadableCheckpoint
from marin.store.files.directory import Directory

MANIFEST = "manifest.json"
WEIGHTS = "model/"
AT_ONCE = 64 << 20  # bytes of each checkpoint in memory
# Parts of a path that many parameters share. The group is the rest ("self_attn/q_proj", "embeddings/token_embeddings").
SHARED = ("model/", "transformer/", "layers/", "stacked/")


@dataclass(frozen=True, kw_only=True)
class GroupChange:
    """The change of one group of parameters.

    relative: norm of the difference over the norm of the first checkpoint's weights; None if shapes differ or one
    checkpoint lacks an array of the group.
    """

    name: str
    parameters: int
    relative: float | None


def weights_bytes(directory: Directory) -> int:
    """Return the bytes of a checkpoint's weights. Raises UnreadableCheckpoint."""
    return sum(_bytes(each) for each in _arrays(directory).values())


def parameter_changes(first: Directory, second: Directory) -> list[GroupChange]:
    """Return the change of each group, in the first checkpoint's order; groups of the second alone come last.

    Raises UnreadableCheckpoint.
    """
    before, after = _arrays(first), _arrays(second)
    sums: dict[str, tuple[int, float, float]] = {}
    unlike = {_group(path) for path in before.keys() ^ after.keys()}
    for path in dict.fromkeys([*before, *after]):
        array = before.get(path) or after[path]
        group, parameters = _group(path), math.prod(array["shape"])
        held, square, change = sums.get(group, (0, 0.0, 0.0))
        if path in before and path in after and before[path]["shape"] != after[path]["shape"]:
            unlike.add(group)
        if group not in unlike:
            of_weights, of_change = _squares(first, second, path, array)
            square, change = square + of_weights, change + of_change
        sums[group] = held + parameters, square, change
    return [
        GroupChange(
            name=group,
            parameters=parameters,
            relative=None if group in unlike else math.sqrt(change / square) if square else 0.0,
        )
        for group, (parameters, square, change) in sums.items()
    ]


def mean_changes(of_runs: Sequence[Sequence[GroupChange]]) -> list[GroupChange]:
    """Return the mean change of each group over pairs of runs that have the same groups."""
    return [
        replace(groups[0], relative=fmean(known) if len(known) == len(groups) else None)
        for groups in zip(*of_runs, strict=True)
        for known in [[each.relative for each in groups if each.relative is not None]]
    ]


def _arrays(directory: Directory) -> dict[str, dict[str, Any]]:
    if not directory.exists(MANIFEST):
        raise UnreadableCheckpoint(f"{directory.url} holds no {MANIFEST}; wanted a checkpoint that was trained here")
    try:
        listed = json.loads(directory.read_bytes(MANIFEST))["arrays"]
        return {each["path"]: each for each in listed if each["path"].startswith(WEIGHTS)}
    except (KeyError, TypeError, ValueError) as error:
        raise UnreadableCheckpoint(f"{directory.url}/{MANIFEST} is garbled ({error}); rebuild the training") from error


def _group(path: str) -> str:
    parts = [part for part in path.split("/") if f"{part}/" not in SHARED]
    return "/".join(parts[:-1] if len(parts) > 1 else parts)


def _squares(first: Directory, second: Directory, path: str, array: dict[str, Any]) -> tuple[float, float]:
    """Return the sum of squares of the first checkpoint's weights, and of the difference."""
    import numpy as np

    weights = changed = 0.0
    opened = [_opened(each, path) for each in (first, second)]
    for part in _parts(array):
        old, new = (np.asarray(each[part].read().result(), np.float64) for each in opened)
        weights += float((old * old).sum())
        changed += float(((new - old) ** 2).sum())
    return weights, changed


def _parts(array: dict[str, Any]) -> Iterator[Any]:
    """Yield slices of the first axis, each of at most AT_ONCE bytes or one row."""
    shape = array["shape"]
    if not shape:
        yield ()
        return
    rows = max(1, AT_ONCE * shape[0] // max(1, _bytes(array)))
    for start in range(0, shape[0], rows):
        yield slice(start, min(start + rows, shape[0]))


def _bytes(array: dict[str, Any]) -> int:
    width = 2 if array["dtype"] in ("bfloat16", "float16") else 4
    return width * math.prod(array["shape"])


def _opened(directory: Directory, path: str) -> Any:
    import tensorstore
    from levanter import tensorstore_serialization as levanter

    from marin.training.bucket_address import find_buckets

    find_buckets()
    base = levanter.build_kvstore_spec(directory.url)
    spec = {"driver": "zarr3", "kvstore": {"driver": "ocdbt", "base": base, "path": path}}
    try:
        return tensorstore.open(spec, read=True, open=True).result()
    except ValueError as error:
        raise UnreadableCheckpoint(f"{directory.url}: {path} cannot be read: {error}") from error
