"""Write safetensors of a Hugging Face model as a marin checkpoint, one tensor at a time.

marin's arrays stack all layers, so a layer's tensor becomes a slice of an array, reshaped from the file's tensor.
Imports JAX and Levanter: do so inside run().
"""

# pyright: basic
from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from marin.errors import InputError
from marin.store.files.directory import Directory
from marin.training.checkpoint import Facts, complete
from marin.training.model import ModelShape

INDEX, SINGLE = "model.safetensors.index.json", "model.safetensors"
WEIGHTS, STACKED = "model", "transformer/layers/stacked/"
FLOATS = ("F64", "F32", "F16", "BF16")
# Older programs also saved the frequencies of the rotary positions.
COMPUTED = re.compile(r".*\.rotary_emb\.inv_freq")
HEAD = "lm_head.weight"
TOP = {
    "embeddings/token_embeddings/weight": "model.embed_tokens.weight",
    "transformer/norm/weight": "model.norm.weight",
    "lm_head/weight": HEAD,
}
CHUNK_BYTES = 64 << 20  # of an array in a checkpoint: reading any part of a chunk reads the whole chunk


@dataclass(frozen=True)
class Place:
    """The place of a tensor. path: an array below ``model/``. layer: a slice of the array, None for the whole array."""

    path: str
    layer: int | None
    shape: tuple[int, ...]


def file_names(index: bytes | None, there: Iterable[str], where: str) -> list[str]:
    """Return a model's safetensors files. index: the INDEX file, if any. Raises InputError if a file is missing."""
    names = set(there)
    if index is None:
        if SINGLE in names:
            return [SINGLE]
        raise InputError(
            f"{where} has no {SINGLE} and no {INDEX}; marin reads safetensors only, because other formats run code "
            "when they are read. Convert it with transformers: model.save_pretrained(folder)"
        )
    wanted = sorted(set(json.loads(index)["weight_map"].values()))
    if missing := [name for name in wanted if name not in names]:
        raise InputError(f"{where}/{INDEX} names {', '.join(missing)}, which {where} does not have; fetch it whole")
    return wanted


def places(shape: ModelShape, rows: int) -> dict[str, Place]:
    """Return the place of each tensor of a model, by the tensor's name in Hugging Face's files."""
    found: dict[str, Place] = {}
    for path, size in array_sizes(shape, rows).items():
        if path in TOP:
            found[TOP[path]] = Place(path, None, size)
            continue
        name = path.removeprefix(STACKED).replace("/", ".")
        for layer in range(shape.layers):
            found[f"model.layers.{layer}.{name}"] = Place(path, layer, size[1:])
    return found


def array_sizes(shape: ModelShape, rows: int) -> dict[str, tuple[int, ...]]:
    """Return the shape of every array of a model's weights, by its path below ``model/``."""
    import equinox as eqx
    import jax

    from marin.training.levanter_model import array_shapes, build_model

    return array_shapes(eqx.filter_eval_shape(lambda key: build_model(shape, rows, key), jax.random.PRNGKey(0)))


def import_weights(
    files: Iterable[tuple[str, Path]],
    out: Directory,
    facts: Facts,
    where: str,
    done: Callable[[int], object] = lambda _: None,
) -> Facts:
    """Write a checkpoint from safetensors files. Returns the checkpoint's facts, with the number type of the files.

    files: name and local path of each file; marin asks for the next file once the one before is written. where: the
    model's name in errors. done: receives the number of written tensors. Raises InputError for a tensor that is
    missing, unknown, stored twice, of another shape, of integers, or not finite.
    """
    import tensorstore
    from levanter import tensorstore_serialization as levanter
    from levanter.checkpoint_manifest import CheckpointArray, build_manifest, write_manifest

    from marin.training.bucket_address import find_buckets

    find_buckets()
    wanted, sizes = places(facts.model, facts.vocabulary), array_sizes(facts.model, facts.vocabulary)
    base = levanter.build_kvstore_spec(out.url)
    chunks = {path: _chunk(path, size) for path, size in sizes.items()}
    opened: dict[str, Any] = {}
    written, types = set[str](), set[str]()
    for name, tensor, kind in _tensors(files, wanted, facts.model, where):
        place = wanted[name]
        if name in written:
            raise InputError(f"{where} holds {name} twice; fetch it whole")
        if place.path not in opened:
            spec = {
                "driver": "zarr3",
                "kvstore": {"driver": "ocdbt", "base": base, "path": f"{WEIGHTS}/{place.path}"},
                "metadata": {
                    "shape": list(sizes[place.path]),
                    "data_type": "float32",
                    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(chunks[place.path])}},
                },
            }
            opened[place.path] = tensorstore.open(spec, create=True).result()
        array = opened[place.path] if place.layer is None else opened[place.path][place.layer]
        array.write(tensor.reshape(place.shape)).result()
        written.add(name)
        types.add(kind)
        done(len(written))
    if missing := sorted(wanted.keys() - written):
        raise InputError(f"{where} lacks {_some(missing)}, which its {facts.model.architecture.value} model has")
    arrays = [
        CheckpointArray(path=f"{WEIGHTS}/{path}", shape=size, dtype="float32", chunk_shape=chunks[path])
        for path, size in sorted(sizes.items())
    ]
    write_manifest(out.url, build_manifest(arrays, array_driver="zarr3", kvstore_driver="ocdbt"))
    marker = {"step": facts.step, "timestamp": datetime.now(UTC).isoformat(), "is_temporary": False}
    out.write_text("metadata.json", json.dumps(marker))
    assert facts.origin is not None
    facts = replace(facts, origin=replace(facts.origin, stored="+".join(sorted(types))))
    complete(out, facts)
    return facts


def _tensors(
    files: Iterable[tuple[str, Path]], wanted: Mapping[str, Place], shape: ModelShape, where: str
) -> Iterator[tuple[str, np.ndarray, str]]:
    """Yield each tensor as (name, float32 values, stored type)."""
    from safetensors import SafetensorError, safe_open

    for file, path in files:
        try:
            opened: Any = safe_open(path, "numpy")
        except SafetensorError as error:
            raise InputError(f"{where}/{file} is no safetensors file: {error}; fetch it again") from error
        with opened as held:
            for name in held.keys():  # noqa: SIM118 — the library's object has no iterator
                if COMPUTED.fullmatch(name) or (name == HEAD and shape.tied_embeddings):
                    continue
                size, kind = tuple(held.get_slice(name).get_shape()), held.get_slice(name).get_dtype()
                if name not in wanted:
                    raise InputError(
                        f"{where}/{file} holds {name}, which a {shape.architecture.value} model does not have; marin "
                        "would leave it out, so it reads nothing"
                    )
                if kind not in FLOATS:
                    raise InputError(f"{where}/{file}: {name} is stored as {kind}; wanted {', '.join(FLOATS)}")
                if not _folds(size, wanted[name].shape):
                    raise InputError(
                        f"{where}/{file}: {name} has shape {size}, and config.json says {wanted[name].shape}; they "
                        "are not of one model"
                    )
                tensor = np.asarray(held.get_tensor(name), np.float32)
                if not np.isfinite(tensor).all():
                    raise InputError(f"{where}/{file}: {name} holds numbers that are not finite; fetch it again")
                yield name, tensor, kind


def _folds(size: tuple[int, ...], into: tuple[int, ...]) -> bool:
    """Return whether merging neighbouring axes of ``into`` gives ``size``."""
    axes = list(into)
    for length in size:
        product = 1
        while product < length and axes:
            product *= axes.pop(0)
        if product != length:
            return False
    return math.prod(axes) == 1


def _chunk(path: str, size: tuple[int, ...]) -> tuple[int, ...]:
    """Return the chunk shape of an array. A chunk never holds two layers, and has at most CHUNK_BYTES."""
    chunk = [1, *size[1:]] if path.startswith(STACKED) else list(size)
    for axis in range(len(chunk)):
        others = math.prod(chunk) // chunk[axis]
        chunk[axis] = max(1, min(chunk[axis], CHUNK_BYTES // (4 * others)))
        if 4 * math.prod(chunk) <= CHUNK_BYTES:
            break
    return tuple(chunk)


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
