"""Tokenizing by tiktoken and by tokenizers: equal ids, and MB a CPU second: ``./py benchmarks/data/tokenizing.py``.

GPT-2's tokenizer on the JSON lines (gzip, field ``text``) of ../shared/data, or of the folder that is given. The quick
way is measured with its comparisons, as Tokenize runs it, and alone.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from benchmarks.data.real_text import SHARED, texts
from marin.data.quick_bpe import Compared, QuickBpe
from marin.data.tokenizer import DOCUMENTS_PER_BATCH, TOKENIZER, LoadedTokenizer


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("folder", nargs="?", type=Path, default=SHARED)
    arguments.add_argument("--tokenizer", type=Path, default=SHARED / "gpt2-tokenizer")
    given = arguments.parse_args()
    documents = texts(given.folder)
    megabytes = sum(len(text.encode()) for text in documents) / 1e6
    path = given.tokenizer / TOKENIZER
    loaded = Tokenizer.from_file(str(path))
    loaded.encode_special_tokens = True
    tokenizer, quick = LoadedTokenizer(loaded, "", 0), QuickBpe(json.loads(path.read_bytes()))
    fast = PreTrainedTokenizerFast(tokenizer_object=loaded)

    def encode_batch(held: Iterable[str]) -> Iterator[Any]:
        """As datatrove calls it."""
        for batch in itertools.batched(held, DOCUMENTS_PER_BATCH):
            yield from (encoded.ids for encoded in loaded.encode_batch(list(batch), add_special_tokens=False))

    def transformed(held: Iterable[str]) -> Iterator[Any]:
        """As most people call it."""
        for batch in itertools.batched(held, DOCUMENTS_PER_BATCH):
            yield from fast(list(batch), add_special_tokens=False)["input_ids"]

    ways: dict[str, Callable[[Iterable[str]], Iterator[Any]]] = {
        "tokenizers, its fast batches": tokenizer.encode,
        "tokenizers, encode_batch": encode_batch,
        "transformers": transformed,
        "tiktoken, compared": Compared(tokenizer, quick).encode,
        "tiktoken alone": lambda held: quick.encode(list(held)),
    }
    print(f"{len(documents)} documents, {megabytes:.1f} MB")
    first: list[Any] = []
    for name, encode in ways.items():
        began = time.process_time()
        found = list(encode(documents))
        speed = megabytes / (time.process_time() - began)
        first = first or found
        equal = sum(map(np.array_equal, found, first))
        print(f"{name:30} {speed:5.2f} MB/s, {equal} of {len(found)} equal")


if __name__ == "__main__":
    main()
