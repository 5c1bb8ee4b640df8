"""Test ``--resources gpu`` on a machine that pretends to have GPUs. JAX takes CPUs for the GPUs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from marin.store.files.directory import Directory
from marin.training.metrics import read_metrics
from tests.support.clusters import ray_cluster
from tests.support.line_server import ROOT

EXPERIMENT = '''
"""Do two seeds agree?"""
import numpy as np

from infra.hardware import gpu, tpu
from marin import (
    BatchSchedule, Context, Experiment, ExecutorStep, Mixture, Resources, Scale, Stages, Tokens, executor_main
)
from marin.training.optimizer import Adam
from marin.training.schedule import Schedule
from operators.train import Train
from tests.training.runs import LLAMA, SEQ_LEN, VOCABULARY


class Numbers(ExecutorStep[Tokens], op="toy-numbers-for-gpus"):
    def run(self, ctx: Context) -> Tokens:
        from marin.data.token_store import write_token_store

        texts = [(start + np.arange(20)) % (VOCABULARY - 1) + 1 for start in range(200)]
        made = write_token_store(ctx.out, texts, vocabulary=VOCABULARY, tokenizer="counting", eos=0)
        return Tokens(tokens=made.tokens, documents=made.documents, vocabulary=VOCABULARY, tokenizer="counting")


def trained(seed: int, resources: Resources) -> Train:
    return Train(
        label=f"run-{seed}", model=LLAMA, vocabulary=VOCABULARY, optimizer=Adam(peak_lr=1e-2),
        schedule=Schedule(warmup=1), data=Stages({0: Mixture({Numbers(label="numbers"): 1.0})}),
        batch=BatchSchedule({0: 8}), seq_len=SEQ_LEN, seed=seed, block=16, end_step=6, max_epochs=1e6,
        resources=resources,
    )


def build(scale: Scale) -> Experiment:
    resources = RESOURCES
    return Experiment(issue=1, question=__doc__, results={f"run-{seed}": trained(seed, resources) for seed in range(2)})


if __name__ == "__main__":
    executor_main(build)
'''
SMI = """#!/bin/sh
for gpu in $GPUS; do echo "$gpu, GPU-0000000$gpu-aaaa, 24564, NVIDIA GeForce RTX 4090"; done
exit ${SMI_ENDS:-0}
"""
PLUGIN = "def initialize():\n    pass\n"  # JAX's name for the plugin of `pip install 'marin[gpu]'`


@dataclass
class Machine:
    folder: Path

    def __post_init__(self) -> None:
        for name in ("bin", "packages/jax_cuda_toy-1.dist-info"):
            (self.folder / name).mkdir(parents=True)
        (self.folder / "bin/nvidia-smi").write_text(SMI)
        (self.folder / "bin/nvidia-smi").chmod(0o755)
        (self.folder / "packages/jax_cuda_toy.py").write_text(PLUGIN)
        about = self.folder / "packages/jax_cuda_toy-1.dist-info"
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: jax-cuda-toy\nVersion: 1\n")
        (about / "entry_points.txt").write_text("[jax_plugins]\nxla_cuda13 = jax_cuda_toy\n")
        self.write("Resources()")

    def write(self, resources: str) -> None:
        """Write the experiment, with the resources of its trainings."""
        (self.folder / "exp1_seeds.py").write_text(EXPERIMENT.replace("RESOURCES", resources))

    def environment(self, gpus: int, *, plugin: bool = True) -> dict[str, str]:
        held = {name: value for name, value in os.environ.items() if name not in ("JAX_PLATFORMS", "RAY_ADDRESS")}
        packages = [str(self.folder / "packages")] if plugin else []
        return {
            **held,
            "GPUS": " ".join(map(str, range(gpus))),
            "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join([*packages, str(ROOT)]),
        }

    def run(self, environment: dict[str, str], *arguments: str, expect: int = 0) -> str:
        done = subprocess.run(
            [sys.executable, "exp1_seeds.py", *arguments],
            cwd=self.folder, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == expect, done.stdout + done.stderr
        return " ".join((done.stdout + done.stderr).split())

    def rows(self, store: str) -> list[list[dict[str, Any]]]:
        """Return the metrics that each training has written, step by step."""
        outputs = sorted((self.folder / store).glob("train/run-*"))
        return [list(read_metrics(Directory(str(output)))) for output in outputs if output.is_dir()]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "machine")


@pytest.fixture
def cluster(machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """Yield the environment of a driver on a machine with two GPUs."""
    with monkeypatch.context() as patch:
        for name, value in machine.environment(2).items():
            patch.setenv(name, value)
        patch.delenv("JAX_PLATFORMS", raising=False)
        patch.setenv("XLA_FLAGS", "--xla_force_host_platform_device_count=2")
        with ray_cluster(tmp_path / "cluster", gpus=2) as running:
            patch.delenv("XLA_FLAGS")
            yield {**running.environment, **machine.environment(2), "RAY_ADDRESS": running.address} | {
                "XLA_FLAGS": os.environ.get("XLA_FLAGS", "")
            }


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_trainings_take_all_gpus_one_after_another_and_are_what_they_were(
    machine: Machine, cluster: dict[str, str]
) -> None:
    machine.run(cluster, "--prefix=gpus", "--resources=gpu")
    machine.run(machine.environment(0), "--prefix=alone", "--backend=inline")

    both, alone = machine.rows("gpus"), machine.rows("alone")
    assert [len(rows) for rows in both] == [6, 6]
    for rows, mine in zip(both, alone, strict=True):
        assert [row["process"]["devices"] for row in rows if "process" in row] == [2]
        assert [row["process"]["devices"] for row in mine if "process" in row] == [1]
        np.testing.assert_allclose([row["loss"] for row in rows], [row["loss"] for row in mine], rtol=1e-5)
        assert not any("mfu" in row for row in rows)
    first, second = sorted(([row["time"] for row in rows] for rows in both), key=min)
    assert max(first) < min(second)

    assert "3 cached" in machine.run(machine.environment(0), "--prefix=gpus", "--dry-run")
    assert "3 cached" in machine.run(machine.environment(2), "--prefix=alone", "--dry-run", "--resources=gpu")


@pytest.mark.parametrize(
    ("gpus", "given", "said"),
    [
        (0, {}, "no GPU found: nvidia-smi --query-gpu=index,uuid,memory.total,name lists none. Without --resources"),
        (0, {"SMI_ENDS": "9"}, "nvidia-smi --query-gpu=index,uuid,memory.total,name ended with 9 and said: nothing"),
        (2, {"PATH": "/nowhere"}, "nvidia-smi, which lists the GPUs and comes with NVIDIA's driver, is not on PATH"),
        (2, {"CUDA_VISIBLE_DEVICES": "7"}, "CUDA_VISIBLE_DEVICES is '7', and this machine has 2 GPUs (NVIDIA GeForce"),
        (2, {"JAX_PLATFORMS": "cpu"}, "JAX_PLATFORMS is 'cpu', which keeps JAX from the 2 GPUs (NVIDIA GeForce"),
        (3, {}, "a batch of 8 sequences, from step 0 on, cannot be shared by the 3 chips of gpu. Nearest that can: 6"),
    ],
)  # fmt: skip
def test_what_cannot_run_on_this_machine_is_refused_with_a_way_on(
    machine: Machine, gpus: int, given: dict[str, str], said: str
) -> None:
    assert said in machine.run({**machine.environment(gpus), **given}, "--resources=gpu", "--dry-run", expect=4)


@pytest.mark.skipif(
    any("cuda" in plugin.name for plugin in entry_points(group="jax_plugins")), reason="JAX for CUDA is installed here"
)
def test_jax_without_cuda_is_named_with_what_brings_it(machine: Machine) -> None:
    refused = machine.run(machine.environment(2, plugin=False), "--resources=gpu", "--dry-run", expect=1)
    assert "2 GPUs (NVIDIA GeForce RTX 4090), but JAX for CUDA is not installed: pip install 'marin[gpu]'" in refused


def test_a_plan_shows_the_gpus_that_are_visible(machine: Machine) -> None:
    visible = {"CUDA_VISIBLE_DEVICES": "GPU-00000001,2"}
    plan = machine.run({**machine.environment(3), **visible}, "--resources=gpu", "--dry-run")
    assert "gpu" in plan.split()
    with_note = machine.run(machine.environment(3), "--resources=gpu", "--dry-run", expect=4)
    assert "which found 3 GPUs (NVIDIA GeForce RTX 4090)" in with_note


def test_steps_with_an_accelerator_of_their_own_keep_it_unless_it_is_a_tpu(machine: Machine) -> None:
    machine.write('tpu("v4-8")')
    refused = machine.run(machine.environment(2), "--resources=gpu", "--dry-run", expect=4)
    assert "--resources gpu: train/run-0 asks for v4-8 in its file" in refused
    machine.write('gpu("h100", count=4)')
    assert "h100" in machine.run(machine.environment(0), "--resources=gpu", "--dry-run")
    assert "'v5' is not 'gpu'" in machine.run(machine.environment(2), "--resources=v5", expect=2)
