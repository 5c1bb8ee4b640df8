"""Seconds for the same tasks of lm-evaluation-harness by marin and by the harness's own ``hf`` model, on one export.

    MARIN_TORCH_PYTHON=/path/to/python ./py benchmarks/evaluation/against_hf.py [ITEMS]

The model is a Qwen3 of 1.6 million random parameters on this CPU. The items are generated: in the form of GSM8K (3
examples before each, 256 tokens of answer), and four times as many in the form of ARC (10 examples, four choices). The
Python needs torch, transformers and lm-eval. marin's seconds are given with and without compile time. Beside each are
the processor seconds, which other work on the machine changes less.
"""

# pyright: basic
from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from marin.evaluation.encoder import OffsetEncoder
from marin.evaluation.harness_model import HarnessModel
from marin.evaluation.harness_task import HarnessTask
from marin.evaluation.stock_tasks import evaluate_task, loaded_task
from marin.training.export import export
from marin.training.model import Precision, Qwen3
from marin.training.scoring import load_model
from tests.operators.stock_data import arc, dataset, gsm8k, put
from tests.operators.test_export import written_checkpoint, written_tokenizer

SHAPE = Qwen3(hidden=128, intermediate=512, layers=4, heads=4, kv_heads=2, seq_len=2048)
TASKS = [HarnessTask("gsm8k", "gsm8k", "openai/gsm8k", 3), HarnessTask("arc_easy", "arc", "allenai/ai2_arc", 10)]
BATCH = 16  # of the hf model


def main(items: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder)
        tokenizer = written_tokenizer(where / "tokenizer").directory
        checkpoint = written_checkpoint(where / "checkpoint", dataclasses.replace(SHAPE)).directory
        exported = where / "export"
        export(checkpoint, tokenizer, exported, averaged=False, precision=Precision.FLOAT32)
        files = {
            "openai/gsm8k": dataset("main", {"train": gsm8k(8, 1), "test": gsm8k(items, 2)}),
            "allenai/ai2_arc": dataset("ARC-Easy", {"train": arc(20), "validation": arc(2), "test": arc(4 * items)}),
        }
        for repo, held in files.items():
            put(held, where / repo)
        model = HarnessModel(load_model(checkpoint), OffsetEncoder(tokenizer), separated=False)
        ours: dict[str, list[str]] = {}
        for task in TASKS:
            for _ in range(2):
                with loaded_task(task, where / task.dataset) as loaded:
                    began, worked = time.perf_counter(), time.process_time()
                    evaluate_task(model, task, loaded, None)
                    took = written(time.perf_counter() - began, time.process_time() - worked)
                    ours.setdefault(task.name, []).append(took)
        asked = [{"name": t.name, "folder": t.folder, "data": str(where / t.dataset), "shots": t.shots} for t in TASKS]
        script = Path(__file__).resolve().parents[2] / "tests/evaluation/hf_reference.py"
        done = subprocess.run(
            [os.environ["MARIN_TORCH_PYTHON"], str(script), str(exported), str(BATCH)],
            input=json.dumps(asked), capture_output=True, text=True, check=True,
        )  # fmt: skip
        theirs = json.loads(done.stdout.splitlines()[-1])
        print(f"load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
        for name, (first, again) in ours.items():
            hf = written(theirs[name]["seconds"], theirs[name]["processor_seconds"])
            print(f"{name}: hf {hf}; marin {first}, compiled before {again}")


def written(seconds: float, processor: float) -> str:
    return f"{seconds:.1f} s ({processor:.1f} s)"


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 32)
