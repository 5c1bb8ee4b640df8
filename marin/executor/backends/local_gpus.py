"""``--resources gpu``: the GPUs of this machine, for the steps of an experiment that can use them."""

from __future__ import annotations

import dataclasses
import subprocess
from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import Any, NamedTuple, cast

from marin.errors import BadField, MarinError, MissingDependency, PlanError
from marin.steps.experiment import Experiment
from marin.steps.resources import ANY_GPU, Accelerator
from marin.steps.step import ExecutorStep
from marin.store.numbers import counted

# NVIDIA's driver brings it. It tells the memory too, and counts in a moment; JAX takes seconds and the GPUs' memory.
LIST = ("nvidia-smi", "--query-gpu=index,uuid,memory.total,name", "--format=csv,noheader,nounits")
LIST_SECONDS = 60
VISIBLE, PLATFORMS = "CUDA_VISIBLE_DEVICES", "JAX_PLATFORMS"
WITHOUT = "Without --resources gpu, the steps that ask for no accelerator run on CPUs"


class _Gpu(NamedTuple):
    number: str
    uuid: str
    mebibytes: float  # 0 where the driver does not say
    kind: str


def on_local_gpus(experiment: Experiment, environment: Mapping[str, str]) -> Experiment:
    """Give all GPUs of this machine to each step that can use them and asks for no accelerator.

    No identity changes. A step that asks for GPUs in its file keeps its request. Raises BadField where a step asks
    for a TPU or cannot share its work among the GPUs, PlanError where there is no GPU, MissingDependency.
    """
    able: list[ExecutorStep[Any]] = [step for step in experiment.steps() if step.uses_accelerator]
    for step in able:
        if tpu := next((each for each in step.resources.accelerators if each.is_tpu), None):
            raise BadField(
                f"--resources gpu: {step.name} asks for {tpu} in its file. Leave out --resources, or choose a --scale "
                "at which no step asks for a TPU"
            )
    if not any(_can_have(step) for step in able):
        return experiment
    found = _gpus(environment)
    memory = min(gpu.mebibytes for gpu in found) * 2**20 / 1e9
    # Peak FLOP/s are unknown, so marin shows neither MFU nor chip-hours.
    given = Accelerator(name=ANY_GPU, chips=len(found), hosts=1, peak_flops=0.0, memory_gb=round(memory, 1))

    def adjust(holder: Any, now: Mapping[str, Any]) -> Mapping[str, Any]:
        if not (isinstance(holder, ExecutorStep) and _can_have(cast(ExecutorStep[Any], holder))):
            return {}
        return {"resources": dataclasses.replace(now["resources"], accelerator=given)}

    try:
        return experiment.adjusted(adjust, why="--resources gpu")
    except MarinError as error:
        error.add_note(
            f"  with --resources gpu, which found {_in_words(found)}. To use the first GPU alone, write {VISIBLE}=0 "
            f"before the command. {WITHOUT}"
        )
        raise


def _can_have(step: ExecutorStep[Any]) -> bool:
    return step.uses_accelerator and step.resources.accelerator is None


def _gpus(environment: Mapping[str, str]) -> list[_Gpu]:
    """Return the GPUs that the driver lists and CUDA_VISIBLE_DEVICES leaves. Raises PlanError or MissingDependency."""
    found = _listed(environment)
    if (visible := environment.get(VISIBLE)) is not None:
        wanted = [each.strip() for each in visible.split(",") if each.strip()]
        by_uuid = tuple(each for each in wanted if each.startswith("GPU-"))  # CUDA accepts the beginning of a UUID
        seen = [gpu for gpu in found if gpu.number in wanted or gpu.uuid.startswith(by_uuid)]
        if not seen:
            raise PlanError(
                f"--resources gpu: no GPU is left: {VISIBLE} is {visible!r}, and this machine has {_in_words(found)}, "
                f"numbered {', '.join(gpu.number for gpu in found)}. Unset it, or name some of them. {WITHOUT}"
            )
        found = seen
    platforms = environment.get(PLATFORMS, "")
    if platforms and not {"cuda", "gpu"} & {each.strip().lower() for each in platforms.split(",")}:
        raise PlanError(
            f"--resources gpu: {PLATFORMS} is {platforms!r}, which keeps JAX from the {_in_words(found)}. Unset it, or "
            f"leave out --resources gpu"
        )
    if not any("cuda" in plugin.name for plugin in entry_points(group="jax_plugins")):
        raise MissingDependency(
            f"--resources gpu: this machine has {_in_words(found)}, but JAX for CUDA is not installed: "
            f"pip install 'marin[gpu]'. {WITHOUT}"
        )
    return found


def _listed(environment: Mapping[str, str]) -> list[_Gpu]:
    command = " ".join(LIST[:2])
    try:
        done = subprocess.run(
            LIST, env=dict(environment), capture_output=True, text=True, timeout=LIST_SECONDS, check=False
        )
    except FileNotFoundError:
        raise _no_gpu(
            "nvidia-smi, which lists the GPUs and comes with NVIDIA's driver, is not on PATH. Install the driver"
        ) from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _no_gpu(f"{command}: {error}") from None
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip() or "nothing").splitlines()[0]
        raise _no_gpu(f"{command} ended with {done.returncode} and said: {said.rstrip('.')}")
    rows = [[part.strip() for part in line.split(",", 3)] for line in done.stdout.splitlines()]
    found = [_Gpu(row[0], row[1], _number(row[2]), row[3]) for row in rows if len(row) == len(_Gpu._fields)]
    if not found:
        raise _no_gpu(f"{command} lists none")
    return found


def _no_gpu(why: str) -> PlanError:
    return PlanError(f"--resources gpu: no GPU found: {why}. {WITHOUT}")


def _number(text: str) -> float:
    """Parse a memory size. nvidia-smi prints ``[N/A]`` for GPUs that share the memory of their host."""
    try:
        return float(text)
    except ValueError:
        return 0.0


def _in_words(found: list[_Gpu]) -> str:
    """Return a description: "2 GPUs (NVIDIA L40S)"."""
    return f"{counted(len(found), 'GPU')} ({' and '.join(dict.fromkeys(gpu.kind for gpu in found))})"
