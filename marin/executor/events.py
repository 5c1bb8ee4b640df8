"""Events of a run: one JSON line each, in the store, so that people can see later who ran what."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
import time
from pathlib import Path

from msgspec.structs import asdict

from marin.errors import MarinError
from marin.executor.run_results import Event, StepResult
from marin.executor.signals import SIGNALS
from marin.store.documents import json_bytes
from marin.store.heartbeat import heartbeat_thread
from marin.store.layout import RUNS, slug
from marin.store.process import this_process
from marin.store.redaction import without_credentials
from marin.store.store import Store

SUBMITTED_GIT = "MARIN_GIT"  # variable of a submitted job: the revision of its submitter
DIRTY = "+dirty"
WRITE_EVERY = 0.5  # seconds; events of this time are lost if the driver is killed


class Events:
    """Writes ``.marin/runs/<time>-<experiment>.jsonl``, from the run's beginning until ``ended`` or ``stopped``."""

    def __init__(self, store: Store, experiment: str) -> None:
        self.store = store
        seconds, fraction = divmod(time.time_ns(), 1_000_000_000)  # read once, so that names sort like the runs
        moment = f"{time.strftime('%Y%m%dT%H%M%S', time.localtime(seconds))}.{fraction // 1_000_000:03d}"
        self.name = f"{RUNS}/{moment}-{slug(experiment)}-{os.getpid()}.jsonl"
        self._lines: list[bytes] = []  # not written yet
        self._failed: MarinError | None = None  # why the last lines could not be written
        self._lock = threading.Lock()

    def note(self, event: str, **details: object) -> None:
        """Add an event. Raises StoreError if an earlier event could not be written."""
        if self._failed is not None:
            raise self._failed
        line = {"when": time.strftime("%Y-%m-%d %H:%M:%S"), "event": event, **without_credentials(details)}
        with self._lock:
            self._lines.append(json_bytes(line) + b"\n")

    def _write(self) -> None:
        with self._lock:
            lines, self._lines = self._lines, []
            if lines:
                self.store.objects.append(self.name, b"".join(lines))

    def _beat(self) -> bool:
        try:
            self._write()
        except MarinError as error:
            self._failed = error
        return self._failed is None

    def _end(self) -> None:
        heartbeat_thread().remove(self._beat)
        self._write()
        self.store.objects.flush(self.name)

    def began(self, command: str, git: str, scale: str, todo: int) -> None:
        """Record the beginning. todo: how many steps the run sets out to make."""
        me = this_process()
        self.note("began", command=command, git=git, scale=scale, todo=todo, who=str(me), holder=asdict(me))
        self._write()
        heartbeat_thread().add(self._beat, WRITE_EVERY)

    def stopped(self, error: BaseException) -> None:
        """Record that the run was cut short. A failure to write is ignored: the reason for the stop matters more."""
        why = str(SIGNALS) if isinstance(error, KeyboardInterrupt) else f"{type(error).__name__}: {error}".rstrip(": ")
        with contextlib.suppress(MarinError):
            self._failed = None
            self.note("stopped", error=why)
            self._end()

    def ended(self, seconds: float, failed: int) -> None:
        self.note("ended", seconds=round(seconds, 3), failed=failed)
        self._end()

    def step(self, event: Event, result: StepResult) -> None:
        self.note(
            event,
            step=result.step.name,
            identity=result.step.identity,
            status=result.status,
            reason=result.reason,
            seconds=round(result.seconds, 3),
            **({"wants": result.wants} if result.wants else {}),
            **({"error": result.error, "log": result.log} if result.error else {}),
        )


def git_revision(folder: Path) -> str:
    """Return the revision of a folder's checkout, with DIRTY if there are uncommitted changes; "" without git.

    A submitted job has no checkout and takes its submitter's.
    """
    describe = ("describe", "--always", "--abbrev=64", "--exclude=*", f"--dirty={DIRTY}")
    with contextlib.suppress(FileNotFoundError):
        done = subprocess.run(["git", "-C", str(folder), *describe], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return done.stdout.strip()
    return os.environ.get(SUBMITTED_GIT, "")
