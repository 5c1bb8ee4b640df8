"""Small training runs on a token store that a model can learn something from."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
import tokenizers.models

from marin.data.token_store import write_token_store
from marin.data.tokenizer import CONFIG, TOKENIZER
from marin.errors import NonFiniteLoss
from marin.store.files.directory import Directory
from marin.training import checkpoint
from marin.training.main import LOCK
from marin.training.metrics import TIMINGS
from marin.training.model import Llama, ModelShape, Precision, Qwen3, Recompute
from marin.training.optimizer import Adam
from marin.training.process import Listeners, Timings, TrainingEvents, compiled_folder, run_training
from marin.training.schedule import Schedule
from marin.training.spec import Prompts, Source, TrainingSpec, to_json

VOCABULARY, SEQ_LEN = 64, 32
LLAMA = Llama(hidden=32, intermediate=64, layers=2, heads=4, kv_heads=2, seq_len=SEQ_LEN)
QWEN3 = Qwen3(hidden=32, intermediate=64, layers=2, heads=4, kv_heads=2, seq_len=SEQ_LEN)


def write_source(directory: Path, *, stride: int, documents: int = 400) -> Source:
    """A store of arithmetic sequences modulo the vocabulary: the next token follows from the two before it."""
    rng = np.random.default_rng(stride)
    texts = [
        (start + stride * np.arange(20)) % (VOCABULARY - 1) + 1 for start in rng.integers(0, VOCABULARY, documents)
    ]
    write_token_store(Directory(str(directory)), texts, vocabulary=VOCABULARY, tokenizer="counting", eos=0)
    return Source(name=f"stride {stride}", store=str(directory))


PROMPTS = {"1 2 3 4": (0, 1, 2, 3, 4), "7 12 17": (0, 7, 12, 17), "": (0,)}


def prompts_in(folder: Path) -> Prompts:
    """A number a token; the tokenizer lies below ``folder``."""
    directory = Directory(str(folder / "tokenizer"))
    words = {str(number): number for number in range(VOCABULARY)}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="0"))
    directory.write_text(TOKENIZER, made.to_str())
    directory.write_text(CONFIG, json.dumps({"eos_token": "0"}))
    return Prompts(texts=tuple(PROMPTS), tokens=tuple(PROMPTS.values()), most=10, tokenizer=directory.url)


def samples(directory: Directory) -> list[dict[str, Any]]:
    return [json.loads(line) for line in directory.read_text(checkpoint.SAMPLES).splitlines()]


def small_spec(folder: Path, **changes: Any) -> TrainingSpec:
    """12 steps of a 30,000-parameter Llama on two sources; resumable work in ``folder/state``."""
    sources = tuple(write_source(folder.parent / f"tokens-{stride}", stride=stride) for stride in (1, 5))
    spec = TrainingSpec(
        model=LLAMA,
        vocabulary=VOCABULARY,
        optimizer=Adam(peak_lr=1e-2, max_grad_norm=1.0, ema=0.8),
        schedule=Schedule(warmup=2),
        precision=Precision.FLOAT32,
        recompute=Recompute.NOTHING,
        sources=sources,
        stages={0: {"stride 1": 0.75, "stride 5": 0.25}},
        batch={0: 8},
        shuffle="feistel",
        seed=3,
        block=16,
        seq_len=SEQ_LEN,
        separate_documents=True,
        first_step=0,
        end_step=12,
        state=str(folder / "state"),
        checkpoint_every=4,
    )
    return dataclasses.replace(spec, **changes)


def train_here(spec: TrainingSpec, **listeners: Any) -> Timings:
    """As run_training, but in this process: Levanter, whose import takes longer than such a run, is imported once."""
    with warnings.catch_warnings(action="ignore"):  # of Levanter's own imports
        import jax

        from marin.training.levanter_run import train

        jax.config.update("jax_platforms", "cpu")
        jax.config.update("jax_compilation_cache_dir", str(compiled_folder() / "programs"))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
        news = TrainingEvents(Listeners(**listeners))
        train(spec, news.hear)
    return news.timings


@dataclasses.dataclass
class Runs:
    """folder: of one module's runs. spec: of the one that went well, which is complete."""

    folder: Path
    spec: TrainingSpec

    def named(self, name: str, **changes: Any) -> TrainingSpec:
        """The good run's specification with a state of its own."""
        return dataclasses.replace(self.spec, state=str(self.folder / name / "state"), **changes)

    def continued(self, name: str, **changes: Any) -> TrainingSpec:
        """One that begins with all that the good run left."""
        spec = self.named(name, **changes)
        shutil.copytree(self.spec.state, spec.state)
        return spec

    def rows(self, spec: TrainingSpec) -> list[dict[str, Any]]:
        """Metrics without the timings."""
        rows = strict_rows(Directory(spec.state))
        return [{name: held for name, held in row.items() if name not in TIMINGS} for row in rows]

    def train(self, spec: TrainingSpec, **listeners: Any) -> Timings:
        return train_here(spec, **listeners)

    def train_apart(self, spec: TrainingSpec, **listeners: Any) -> Timings:
        return run_training(spec, Path(spec.state).parent / "training.log", Listeners(**listeners))

    def checkpoint(self, spec: TrainingSpec, step: int) -> Directory:
        return checkpoint.step_directory(Directory(spec.state) / "checkpoints", step)

    def diverging(self, spec: TrainingSpec, **recipe: Any) -> str:
        """Return the message of a run that must stop; the run announces no checkpoint and writes valid JSON metrics."""
        optimizer = dataclasses.replace(spec.optimizer, **recipe)
        saved: list[int] = []
        before = checkpoint.complete_steps(Directory(spec.state) / "checkpoints")
        with pytest.raises(NonFiniteLoss) as stopped:
            self.train(dataclasses.replace(spec, optimizer=optimizer), checkpoint=saved.append)
        assert set(saved) <= set(before)
        assert checkpoint.complete_steps(Directory(spec.state) / "checkpoints") == before
        assert strict_rows(Directory(spec.state))[-1]["non_finite"]
        return str(stopped.value)


def kill_trainer(spec: TrainingSpec) -> None:
    os.kill(int((Path(spec.state) / LOCK).read_text()), signal.SIGKILL)


def resumes_of(spec: TrainingSpec) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Directory(spec.state).read_text("resumes.jsonl").splitlines()]


def strict_rows(directory: Directory) -> list[dict[str, Any]]:
    """The lines of metrics.jsonl, read as JSON is defined: without NaN and Infinity."""

    def refuse(word: str) -> NoReturn:
        raise AssertionError(f"{word} is not JSON")

    text = directory.read_text("metrics.jsonl")
    return [json.loads(line, parse_constant=refuse) for line in text.splitlines()]


def waiting_for(spec: TrainingSpec, where: Path) -> subprocess.Popen[str]:
    """Start a process that waits for a training; return after the first step. where: a new folder for its spec."""
    where.mkdir()
    (where / "spec.json").write_text(to_json(spec))
    waiting = subprocess.Popen(
        [sys.executable, "-c", WAITING, str(where / "spec.json"), str(where / "log.txt")],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert waiting.stdout is not None
    assert waiting.stdout.readline() == "1\n"
    return waiting


WAITING = """
import sys
from pathlib import Path
from marin.training.process import Listeners, run_training
from marin.training.spec import from_json
show = Listeners(step=lambda done, loss: print(done, flush=True))
run_training(from_json(Path(sys.argv[1]).read_text()), Path(sys.argv[2]), show)
"""


def random_checkpoint(directory: Directory, model: ModelShape, vocabulary: int, *, seed: int) -> checkpoint.Facts:
    """Freshly initialised weights, without optimizer state."""
    import jax
    from levanter.checkpoint import save_checkpoint

    from marin.training.bucket_address import find_buckets
    from marin.training.levanter_model import build_model

    find_buckets()
    built = build_model(model, vocabulary, jax.random.PRNGKey(seed))
    save_checkpoint({"model": built}, step=0, checkpoint_path=directory.url)
    directory.write_text(checkpoint.METRICS, "")
    facts = checkpoint.Facts(step=0, tokens=0, loss=None, model=model, vocabulary=vocabulary, averaged=False)
    checkpoint.complete(directory, facts)
    return facts
