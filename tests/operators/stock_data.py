"""Small data in the form that datasets of lm-evaluation-harness have on the hub, and two of the tasks that read it."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from marin.evaluation.harness_task import HarnessTask
from tests.evaluation.problems import problems

GSM8K = HarnessTask(name="gsm8k", folder="gsm8k", dataset="openai/gsm8k", shots=1)
ARC = HarnessTask(name="arc_easy", folder="arc", dataset="allenai/ai2_arc", shots=1)


def parquet(rows: list[dict[str, Any]]) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), out)
    return out.getvalue()


def dataset(config: str, splits: Mapping[str, list[dict[str, Any]]]) -> dict[str, bytes]:
    return repository({config: splits})


def repository(configs: Mapping[str, Mapping[str, list[dict[str, Any]]]]) -> dict[str, bytes]:
    """The files of a repository on the hub, with the card that says which are of which configuration and split."""
    lines, files = ["---", "configs:"], dict[str, bytes]()
    for config, splits in configs.items():
        lines += [f"- config_name: {config}", "  data_files:"]
        for split, rows in splits.items():
            lines += [f"  - split: {split}", f"    path: {config}/{split}-*"]
            files[f"{config}/{split}-00000-of-00001.parquet"] = parquet(rows)
    return {"README.md": "\n".join([*lines, "---", ""]).encode(), **files}


def put(files: Mapping[str, bytes], folder: Path) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def arc(count: int) -> list[dict[str, Any]]:
    choices = {"text": ["a stone", "a river", "the sun", "a leaf"], "label": ["A", "B", "C", "D"]}
    return [
        {"id": f"q{n}", "question": f"Which of these is number {n}?", "choices": choices, "answerKey": "ABCD"[n % 4]}
        for n in range(count)
    ]


def gsm8k(count: int, seed: int) -> list[dict[str, Any]]:
    return [{"question": item.question, "answer": item.answer} for item in problems(count, seed)]


FILES = {
    "openai/gsm8k": dataset("main", {"train": gsm8k(3, 1), "test": gsm8k(4, 2)}),
    "allenai/ai2_arc": dataset("ARC-Easy", {"train": arc(3), "validation": arc(2), "test": arc(6)}),
}
