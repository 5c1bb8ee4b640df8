"""Measure the memory and time to read published weights, beside the size of the largest shard.

    ./py benchmarks/training/import_memory.py [SHARDS]

The benchmark writes a Llama of random bfloat16 weights (26 M parameters a layer, a layer a shard, 4 by default) into a
temporary folder and reads it as FolderModel does. It prints how far memory rises above the imported libraries alone.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import ml_dtypes
import numpy as np
from safetensors.numpy import save_file

from marin.store.files.directory import Directory
from marin.training.checkpoint import Facts, Origin
from marin.training.config_json import read_config
from marin.training.import_weights import array_sizes, import_weights, places

ROWS = 32_000
CONFIG = {
    "model_type": "llama",
    "vocab_size": ROWS,
    "hidden_size": 1024,
    "intermediate_size": 7168,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": True,
}


def main(shards: int) -> None:
    config = read_config(json.dumps(CONFIG | {"num_hidden_layers": shards}), "random")
    sizes = array_sizes(config.shape, ROWS)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, __file__, str(shards), folder], check=True)  # its memory does not count
        files = [(path.name, path) for path in sorted(Path(folder).iterdir())]
        origin = Origin(source="random", licence=None, tokenizer="", entries=ROWS, stored="")
        facts = Facts(
            step=0, tokens=0, loss=None, model=config.shape, vocabulary=ROWS, averaged=False, finite=True, origin=origin
        )
        largest = max(path.stat().st_size for _, path in files)
        before, started = _peak(), time.monotonic()
        import_weights(files, Directory(f"{folder}/out"), facts, "random")
        seconds = time.monotonic() - started
    parameters = config.shape.parameters(ROWS)
    print(f"{parameters / 1e6:,.0f} M parameters, largest shard {largest / 2**20:,.0f} MiB, {len(sizes)} arrays")
    print(f"{seconds:.1f} s, {(_peak() - before) / 2**20:,.0f} MiB above {before / 2**20:,.0f} MiB")


def write(shards: int, folder: Path) -> None:
    config = read_config(json.dumps(CONFIG | {"num_hidden_layers": shards}), "random")
    random = np.random.default_rng(0)
    for shard in range(shards):
        held = {
            name: random.standard_normal(_two(place.shape, name), np.float32).astype(ml_dtypes.bfloat16)
            for name, place in places(config.shape, ROWS).items()
            if (place.layer or 0) == shard
        }
        save_file(held, folder / f"{shard:03}.safetensors")


def _two(shape: tuple[int, ...], name: str) -> tuple[int, ...]:
    """As Hugging Face has it: outputs × inputs."""
    if len(shape) < 3:
        return shape
    return (shape[0], int(np.prod(shape[1:]))) if "o_proj" in name else (int(np.prod(shape[:-1])), shape[-1])


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    if len(sys.argv) > 2:
        write(int(sys.argv[1]), Path(sys.argv[2]))
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 4)
