"""Run a training in a child process, for the step that waits for the training."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from marin import errors
from marin.errors import TrainingFailed
from marin.training.child import run_child
from marin.training.hanging import HangWatch
from marin.training.spec import TrainingSpec, to_json
from marin.training.tracking import Tracked


def _ignore(*_: object) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Listeners:
    """The functions that receive a run's news, in order, in the waiting thread.

    step: receives optimizer steps done, and loss. checkpoint: receives the steps done of each complete checkpoint.
    note: receives messages for people. printed: receives each line that the process printed, some lines only when the
    next step is done.
    """

    step: Callable[[int, float], None] = _ignore
    checkpoint: Callable[[int], None] = _ignore
    note: Callable[[str], None] = _ignore
    printed: Callable[[str], None] = _ignore


@dataclass(kw_only=True)
class Timings:
    """The times of a training's start, and its notes.

    imported: seconds until the libraries were imported. prepared: seconds until the first step could begin. began_at:
    the step at which this process began.
    """

    imported: float = 0.0
    prepared: float = 0.0
    began_at: int = 0
    notes: list[str] = field(default_factory=list[str])


@dataclass
class TrainingEvents:
    """The news of a training so far. Each event is passed on when it comes."""

    listeners: Listeners
    timings: Timings = field(default_factory=Timings)
    hanging: HangWatch | None = None

    def hear(self, event: str, **facts: Any) -> None:
        match event:
            case "pause" if self.hanging is not None:
                self.hanging.pause(facts["seconds"])
            case "step":
                if self.hanging is not None:
                    self.hanging.step(facts["step"])
                self.listeners.step(facts["step"], facts["loss"])
            case "checkpoint":
                self.listeners.checkpoint(facts["step"])
            case "note":
                self.timings.notes.append(facts["text"])
                self.listeners.note(facts["text"])
            case "imported":
                self.timings.imported = facts["seconds"]
            case "begin":
                self.timings.prepared, self.timings.began_at = facts["seconds"], facts["step"]
            case _:
                pass


def run_training(
    spec: TrainingSpec,
    log: Path,
    listeners: Listeners,
    *,
    accelerator: bool = False,
    environment: Mapping[str, str] | None = None,
    on_stop: Callable[[Callable[[], object]], object] = _ignore,
) -> Timings:
    """Run ``spec`` to its end. log: file for everything that the process prints. environment: additional variables.

    The training process dies with this process, but after a SIGTERM to this process the training saves first. on_stop
    receives a function that kills the training. Raises the run's own error if it is a MarinError; ProcessLost if the
    training was killed or stood still; else TrainingFailed. The last two quote the end of the log.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    specification = log.with_suffix(".json")
    specification.write_text(to_json(spec), encoding="utf-8")
    hanging = HangWatch(spec.hang_minutes, spec.end_step)
    news = TrainingEvents(listeners, hanging=hanging)
    run_child(
        specification,
        log,
        news.hear,
        listeners.printed,
        called="the training process",
        environment=child_environment(accelerator, spec.tracked) | dict(environment or {}),
        on_stop=on_stop,
        hanging=hanging,
        failed=TrainingFailed,
        keeps=not accelerator and spec.process is None and spec.tracked is None and spec.profile is None,
    )
    return news.timings


def child_environment(accelerator: bool, tracked: Tracked | None = None) -> dict[str, str]:
    """Return this process's environment, set up for a trainer.

    It is offline, uses the right device, finds marin's packages, and keeps compiled programs for later processes.
    """
    root = str(Path(errors.__file__).parents[1])
    paths = [root, *(path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path and path != root)]
    made = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONPATH": os.pathsep.join(paths)}
    if tracked is None:
        made["WANDB_MODE"] = "disabled"  # Levanter imports it
    if not accelerator:
        made["JAX_PLATFORMS"] = "cpu"
    made.setdefault("JAX_COMPILATION_CACHE_DIR", str(compiled_folder() / "programs"))
    made.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2")
    made.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")
    if sys.dont_write_bytecode:
        # Importing Levanter takes 9 s if Python compiles its sources each time, and 4 s if Python reuses bytecode.
        made.pop("PYTHONDONTWRITEBYTECODE", None)
        made["PYTHONPYCACHEPREFIX"] = str(compiled_folder() / "bytecode")
    return made


def compiled_folder() -> Path:
    """Return the folder of this user's compiled programs on this machine: safe to delete, never part of a result."""
    return Path(tempfile.gettempdir()) / f"marin-compiled-{os.getuid()}"
