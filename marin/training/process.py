"""Training in a process of its own, seen from the step that waits for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from marin import errors
from marin.fingerprint.observation.listening import answering, current
from marin.fingerprint.observation.observation import Observation, Scope
from marin.training.spec import TrainingSpec, to_json
from marin.training.tracking import Tracked

LOG_LINES_SHOWN = 15


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


def run_training(spec: TrainingSpec, log: Path, listeners: Listeners, *, accelerator: bool = False) -> Timings:
    """Run ``spec`` to its end. log: file for everything that the process prints.

    The process dies with this one. Raises what the run raised, if it is an error of ours, else
    TrainingFailed with the end of the log.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    specification = log.with_name("training_spec.json")
    specification.write_text(to_json(spec), encoding="utf-8")
    printed = _Printed(log)
    reading, writing = os.pipe()
    here = current()
    scope = here.scope if here is not None else Scope()
    with log.open("ab") as output, os.fdopen(reading, encoding="utf-8") as events:
        try:
            with answering():
                process = subprocess.Popen(
                    [
                        *(sys.executable, "-m", "marin.training.main", str(specification), str(writing)),
                        *(str(os.getpid()), json.dumps(scope.to_plain())),
                    ],
                    stdin=subprocess.PIPE,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env=child_environment(accelerator, spec.tracked),
                    pass_fds=(writing,),
                )
        finally:
            os.close(writing)
        try:
            timings, failure = _follow(events, listeners, printed)
        except BaseException:
            process.kill()
            raise
        finally:
            # Closing its input tells the process to go, if it is still there.
            process.communicate()
    printed.tell(listeners.printed, ended=True)
    if failure is not None:
        if failure["missing"]:
            raise ModuleNotFoundError(failure["message"], name=failure["missing"])
        kind = getattr(errors, failure["kind"], None)
        if isinstance(kind, type) and issubclass(kind, errors.MarinError):
            raise kind(failure["message"])
        raise errors.TrainingFailed(f"{failure['kind']}: {failure['message']}; the end of {log}:\n{_tail(log)}")
    if process.returncode != 0:
        raise errors.TrainingFailed(f"{_how_it_ended(process.returncode)}; the end of {log}:\n{_tail(log)}")
    return timings


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


class _Printed:
    """What is added to a file from now on, in whole lines."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._seen = log.stat().st_size if log.exists() else 0

    def tell(self, listener: Callable[[str], None], *, ended: bool = False) -> None:
        with self._log.open("rb") as handle:
            handle.seek(self._seen)
            added = handle.read()
        whole = added if ended else added[: added.rfind(b"\n") + 1]
        self._seen += len(whole)
        for line in whole.decode(errors="replace").removesuffix("\n").split("\n") if whole else ():
            listener(line.rstrip("\r").rpartition("\r")[2])  # of a progress bar, how it ended


def _follow(events: Any, listeners: Listeners, printed: _Printed) -> tuple[Timings, dict[str, Any] | None]:
    timings, failure = Timings(), None
    for line in events:
        printed.tell(listeners.printed)
        news = json.loads(line)
        match news.pop("event"):
            case "step":
                listeners.step(news["step"], news["loss"])
            case "checkpoint":
                listeners.checkpoint(news["step"])
            case "note":
                timings.notes.append(news["text"])
                listeners.note(news["text"])
            case "imported":
                timings.imported = news["seconds"]
            case "begin":
                timings.prepared, timings.began_at = news["seconds"], news["step"]
            case "observed":
                if (here := current()) is not None:
                    here.join(Observation.from_plain(news))
            case "failed":
                failure = news
            case _:
                pass
    return timings, failure


def _how_it_ended(status: int) -> str:
    if status < 0:
        return f"the training process was killed by signal {-status} (9 is also what running out of memory looks like)"
    return f"the training process ended with status {status} and without saying why"


def _tail(log: Path) -> str:
    with log.open(encoding="utf-8", errors="replace") as handle:
        return "".join(deque(handle, LOG_LINES_SHOWN)).rstrip()
