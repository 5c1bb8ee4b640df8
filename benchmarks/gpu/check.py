"""Check marin's trainer on one GPU in at most eight minutes: see README.md beside this file.

    python benchmarks/gpu/check.py [--only SECTION …] [--tiny] [--minutes 7]

Each section prints one line of JSON when it is done, and no section begins after ``--minutes``. ``--tiny`` replaces the
120 M model by a small one, for machines without a GPU.
"""

# pyright: basic
from __future__ import annotations

import argparse
import dataclasses
import json
import os
import statistics
import sys
import sysconfig
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
import tokenizers

from benchmarks.training.overhead import measure_bare
from marin.data.token_store import write_token_store
from marin.data.tokenizer import CONFIG, TOKENIZER
from marin.store.files.directory import Directory
from marin.training.checkpoint import SAMPLES
from marin.training.metrics import read_metrics
from marin.training.model import Llama, Llama3Rope, Precision, Qwen3, Recompute
from marin.training.optimizer import Adam
from marin.training.process import Listeners, TrainingEvents, child_environment, run_training
from marin.training.schedule import Schedule
from marin.training.spec import Prompts, Source, TrainingSpec, Watched

PEAK_FLOPS = 989e12  # bf16, dense: as infra.hardware has it for an H100
FIRST = 10  # steps that are not counted
PROMPTS = ("def main(", "import ", "# The ")
# Sequence length, batch and steps of the model whose speed counts.
SPEED = {False: (1024, 16, 30), True: (64, 8, 14)}
# A run that takes longer is killed, and the section fails with the end of the log.
RUN_SECONDS = {False: 100, True: 600}
# The model and the recipe of the rehearsals (experiments/marin_32b.py), for 60 steps.
REHEARSAL = Qwen3(hidden=128, intermediate=384, layers=2, heads=4, kv_heads=2, seq_len=128, rope=Llama3Rope())
M120 = Llama(hidden=768, intermediate=2048, layers=12, heads=12, kv_heads=12, seq_len=1024)
TINY = Llama(hidden=64, intermediate=128, layers=2, heads=4, kv_heads=4, seq_len=1024)


class Check:
    """folder: for token stores and runs. accelerator: whether trainers run on the GPU."""

    def __init__(self, folder: Path, *, tiny: bool, accelerator: bool) -> None:
        self.folder, self.tiny, self.accelerator = folder, tiny, accelerator
        self.source = Source(name="python", store=str(folder / "bytes"))
        library = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))[:120]
        texts = [np.frombuffer(path.read_bytes(), np.uint8).astype(np.int64) + 1 for path in library]
        write_token_store(Directory(self.source.store), texts, vocabulary=257, tokenizer="bytes", eos=0)

    def spec(self, name: str, **changes: Any) -> TrainingSpec:
        made = TrainingSpec(
            model=REHEARSAL,
            vocabulary=257,
            optimizer=Adam(peak_lr=5e-3, max_grad_norm=1.0),
            schedule=Schedule(warmup=10),
            precision=Precision.FLOAT32,
            recompute=Recompute.NOTHING,
            sources=(self.source,),
            stages={0: {"python": 1.0}},
            batch={0: 32},
            shuffle="feistel",
            seed=0,
            block=32,
            seq_len=128,
            separate_documents=True,
            max_epochs=100.0,
            first_step=0,
            end_step=60,
            state=str(self.folder / name / "state"),
            checkpoint_every=60,
            peak_flops=PEAK_FLOPS if self.accelerator else 0.0,
        )
        return dataclasses.replace(made, **changes)

    def large(self, name: str, **changes: Any) -> TrainingSpec:
        """The run whose speed counts: in bfloat16, with a vocabulary of 32,000."""
        seq_len, batch, steps = SPEED[self.tiny]
        shape = {"seq_len": seq_len, "batch": {0: batch}, "block": batch, "end_step": steps, "checkpoint_every": steps}
        kind = {"model": TINY if self.tiny else M120, "precision": Precision.BFLOAT16, "vocabulary": 32_000}
        return self.spec(name, **{**shape, **kind, "optimizer": Adam(peak_lr=1e-3, max_grad_norm=1.0), **changes})

    def train(self, spec: TrainingSpec, *, cpu: bool = False, **environment: str) -> list[dict[str, Any]]:
        """Train in a process of its own and return the metrics rows. The time goes to standard error."""
        log, began, name = Path(spec.state).parent / "training.log", time.monotonic(), Path(spec.state).parent.name
        timers: list[threading.Timer] = []

        def kill_later(kill: Callable[[], object]) -> None:
            timers.append(threading.Timer(RUN_SECONDS[self.tiny], kill))
            timers[0].start()

        def say(step: int, loss: float) -> None:
            if step in (1, 2, 10, spec.end_step):
                print(f"{name}: step {step} after {time.monotonic() - began:.1f} s", file=sys.stderr, flush=True)

        try:
            took = run_training(
                spec,
                log,
                Listeners(step=say),
                accelerator=self.accelerator and not cpu,
                environment=environment,
                on_stop=kill_later,
            )
        finally:
            timers[0].cancel()
        print(
            f"{name}: imported in {took.imported:.1f} s, ready {took.prepared:.1f} s later", file=sys.stderr, flush=True
        )
        return read_metrics(Directory(spec.state))

    def rehearsal(self) -> dict[str, Any]:
        """Losses of one run on the CPU and on the GPU, with the GPU's usual products (TF32) and with exact ones."""
        tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel({chr(i + 255): i for i in range(257)}, chr(255)))
        prompts = self._prompts(tokenizer)
        watch = Watched(every=60, prompts=prompts)
        runs = {"cpu": (True, "highest"), "gpu": (False, "default"), "gpu exact": (False, "highest")}
        with ThreadPoolExecutor() as pool:
            held = {
                name: pool.submit(
                    self.train,
                    self.spec(name.replace(" ", "-"), watch=watch),
                    cpu=cpu,
                    JAX_DEFAULT_MATMUL_PRECISION=precision,
                    XLA_PYTHON_CLIENT_PREALLOCATE="false",
                )
                for name, (cpu, precision) in runs.items()
            }
            rows = {name: np.array([row["loss"] for row in future.result()]) for name, future in held.items()}
        wrote = {
            name: Directory(str(self.folder / name.replace(" ", "-") / "state")).read_text(SAMPLES) for name in runs
        }
        greedy = {name: [line["greedy"] for line in map(json.loads, text.splitlines())] for name, text in wrote.items()}
        return {
            "losses_cpu": [round(float(loss), 4) for loss in rows["cpu"][[0, 9, 19, 39, 59]]],
            **{
                f"largest difference, {name}, steps 0-{until}": float(np.abs(rows[name] - rows["cpu"])[:until].max())
                for name in ("gpu", "gpu exact")
                for until in (10, 60)
            },
            **{f"greedy text as on the CPU, {name}": greedy[name] == greedy["cpu"] for name in ("gpu", "gpu exact")},
        }

    def speed(self) -> dict[str, Any]:
        """Tokens a second of a bare Levanter loop, of marin's trainer, and of the bare loop again, in one process."""
        spec = self.large("speed", separate_documents=False)
        tokens = spec.seq_len * spec.batch[0]
        bare = [tokens / self._bare(spec)]
        print(f"bare: {bare[0]:,.0f} tokens a second", file=sys.stderr, flush=True)
        from marin.training.levanter_run import train

        began = time.monotonic()
        train(spec, TrainingEvents(Listeners()).hear)
        rows = read_metrics(Directory(spec.state))[FIRST:]
        ours = tokens / statistics.median(row["seconds"] - row["paused_seconds"] for row in rows)
        took = time.monotonic() - began
        bare.append(tokens / self._bare(spec))
        per_token = spec.model.flops_per_token(spec.vocabulary, spec.seq_len)
        return {
            "parameters": spec.model.parameters(spec.vocabulary),
            "tokens_per_second": {"bare": [round(each) for each in bare], "marin": round(ours)},
            "mfu": {
                "bare": round(max(bare) * per_token / PEAK_FLOPS, 4),
                "marin": round(ours * per_token / PEAK_FLOPS, 4),
            },
            "marin/bare": round(ours / max(bare), 4),
            "seconds of marin's run": round(took, 1),
        }

    def microbatches(self) -> dict[str, Any]:
        """A batch in four micro-batches against the whole batch: losses and speed, with separated documents."""
        batch = self.large("whole").batch[0]
        whole = self.train(self.large("whole"))
        parts = self.train(self.large("parts", sequences_per_device=batch // 4))
        loss = [np.array([row["loss"] for row in rows]) for rows in (whole, parts)]
        speed = [statistics.median(row["tokens_per_second"] for row in rows[FIRST:]) for rows in (whole, parts)]
        return {
            "largest difference of a loss, first step": float(abs(loss[0][0] - loss[1][0])),
            "largest difference of a loss": float(np.abs(loss[0] - loss[1]).max()),
            "tokens_per_second": {"whole": round(speed[0]), "4 micro-batches": round(speed[1])},
        }

    def resume(self) -> dict[str, Any]:
        """A run that is preempted and goes on, against one that is not: also twice the same run, for comparison."""
        steps = 40
        rows = [self.train(self.spec(name, end_step=steps, checkpoint_every=20)) for name in ("first", "second")]
        half = self.spec("cut", end_step=20, checkpoint_every=20, schedule=Schedule(warmup=10))
        self.train(half)
        rows.append(self.train(dataclasses.replace(half, end_step=steps)))
        losses = [np.array([row["loss"] for row in each]) for each in rows]
        return {
            "steps": [len(each) for each in losses],
            "largest difference, the same run twice": float(np.abs(losses[0] - losses[1]).max()),
            "largest difference, cut and resumed": float(np.abs(losses[0] - losses[2]).max()),
        }

    def generation(self) -> dict[str, Any]:
        """Seconds that a look takes in which the large model writes 64 tokens after each of three prompts, twice."""
        tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel({chr(i + 255): i for i in range(257)}, chr(255)))
        prompts = self._prompts(tokenizer)
        rows = self.train(
            self.large("writing", watch=Watched(every=4, prompts=prompts), end_step=12, checkpoint_every=12)
        )
        looks = [row["watch_seconds"] for row in rows if "watch_seconds" in row]
        lines = [json.loads(line) for line in Directory(self.large("writing").state).read_text(SAMPLES).splitlines()]
        return {"seconds_a_look": looks, "lines": len(lines)}

    def _bare(self, spec: TrainingSpec) -> float:
        return measure_bare(dataclasses.replace(spec, end_step=FIRST + 20), FIRST)[0]

    def _prompts(self, tokenizer: tokenizers.Tokenizer) -> Prompts:
        directory = Directory(str(self.folder / "tokenizer"))
        directory.write_text(TOKENIZER, tokenizer.to_str())
        directory.write_text(CONFIG, json.dumps({"eos_token": chr(255)}))
        tokens = tuple((0, *(byte + 1 for byte in text.encode())) for text in PROMPTS)
        return Prompts(texts=PROMPTS, tokens=tokens, most=64, tokenizer=directory.url)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sections = ("rehearsal", "microbatches", "resume", "generation", "speed")
    parser.add_argument("--only", nargs="+", choices=sections, default=sections)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--minutes", type=float, default=7.0)
    chosen = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        check = Check(Path(folder), tiny=chosen.tiny, accelerator=not chosen.tiny)
        os.environ["JAX_COMPILATION_CACHE_DIR"] = f"{folder}/programs"  # empty, so the first run compiles
        os.environ.update(child_environment(accelerator=not chosen.tiny))
        for name in chosen.only:
            if time.monotonic() - began > 60 * chosen.minutes:
                print(json.dumps({"section": name, "skipped": "no time was left"}), flush=True)
                continue
            before, section = time.monotonic(), _named(check, name)
            try:
                found = section()
            except Exception as error:  # the sections after it still say something
                found = {"failed": f"{type(error).__name__}: {error}"[-3000:]}
            print(json.dumps({"section": name, **found, "seconds": round(time.monotonic() - before, 1)}), flush=True)
    os._exit(0)  # Levanter's threads would hold the interpreter up


def _named(check: Check, name: str) -> Callable[[], dict[str, Any]]:
    return getattr(check, name)


if __name__ == "__main__":
    main()
