"""Training in a process of its own, seen from the step that waits for it."""

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
    """What to do with the news of a run; called in the thread that waits, in order.

    step: optimizer steps done, loss. checkpoint: steps done, when it is complete. note: for people. printed: each line
    that the process printed, some of them only when the next step is done.
    """

    step: Callable[[int, float], None] = _ignore
    checkpoint: Callable[[int], None] = _ignore
    note: Callable[[str], None] = _ignore
    printed: Callable[[str], None] = _ignore


@dataclass(kw_only=True)
class Timings:
    """Seconds until the libraries were imported and until the first step could begin; the step it began at."""

    imported: float = 0.0
    prepared: float = 0.0
    began_at: int = 0
    notes: list[str] = field(default_factory=list[str])


@dataclass
class News:
    """What a training has told of itself, each event passed on when it comes."""

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
    """Run ``spec`` to its end. log: file for everything that the process prints. environment: that it needs besides.

    The process dies with this one, but SIGTERM to this one lets it save first. on_stop is given what kills it. Raises
    what the run raised, if it is an error of ours; ProcessLost if it was killed or stood still; else TrainingFailed.
    The last two have the end of the log.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    specification = log.with_suffix(".json")
    specification.write_text(to_json(spec), encoding="utf-8")
    hanging = HangWatch(spec.hang_minutes, spec.end_step)
    news = News(listeners, hanging=hanging)
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
    )
    return news.timings


def child_environment(accelerator: bool, tracked: Tracked | None = None) -> dict[str, str]:
    """This process's environment, with what a trainer needs: offline, on the right device, our packages found."""
    root = str(Path(errors.__file__).parents[1])
    paths = [root, *(path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path and path != root)]
    made = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONPATH": os.pathsep.join(paths)}
    if tracked is None:
        made["WANDB_MODE"] = "disabled"  # Levanter imports it
    if not accelerator:
        made["JAX_PLATFORMS"] = "cpu"
    if sys.dont_write_bytecode:
        # Importing Levanter takes 9 s when its sources are compiled each time, 4 s when they are not.
        made.pop("PYTHONDONTWRITEBYTECODE", None)
        made["PYTHONPYCACHEPREFIX"] = str(compiled_folder() / "bytecode")
    return made


def compiled_folder() -> Path:
    """Where this user's compiled programs are kept on this machine: safe to delete, never part of a result."""
    return Path(tempfile.gettempdir()) / f"marin-compiled-{os.getuid()}"
