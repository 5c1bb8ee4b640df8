"""Watch a training or evaluation process: if the process hangs, write its stacks to its log and kill it.

A process hangs when a step takes more than ``hang_minutes``, and more than FACTOR times the median of earlier steps.
The start, with loading, compiling and meeting the other processes, may take START_MINUTES. A part of an evaluation may
also take START_MINUTES, since parts differ. If one of several cooperating processes hangs, all of them stand still: the
culprit's stacks differ from the others', or the culprit cannot even write its stacks.
"""

from __future__ import annotations

import signal
import statistics
import subprocess
import threading
import time
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

STACKS_SIGNAL = signal.SIGUSR1
FACTOR = 20
STEPS, FEWEST = 100, 3  # most steps in the median, and the fewest steps for a median
START_MINUTES = 60.0  # limit until FEWEST steps are done, unless hang_minutes is more
STACKS_SECONDS = 2.0  # time to write the stacks
LOOK_SECONDS = 0.5


class HangWatch:
    """The watch over one process.

    minutes: None to wait for ever. last: number of steps at the end, after which the watch stops; None if unknown.
    unit: the name of a step in messages.
    """

    def __init__(self, minutes: float | None, last: int | None, unit: str = "step") -> None:
        self.found = ""  # the message about the hang
        self._minutes, self._last, self._unit = minutes, last, unit
        self._changed = threading.Lock()
        self._seconds: deque[float] = deque(maxlen=STEPS)
        self._done, self._since, self._allowed = 0, 0.0, 0.0

    def step(self, done: int) -> None:
        """Note that ``done`` steps are done."""
        now = time.monotonic()
        with self._changed:
            if self._done:
                self._seconds.append(now - self._since)
            self._done, self._since, self._allowed = done, now, 0.0

    def pause(self, seconds: float) -> None:
        """Allow the next step to take ``seconds`` longer."""
        with self._changed:
            self._allowed += seconds

    @contextmanager
    def of(self, process: subprocess.Popen[bytes]) -> Generator[None]:
        over = threading.Event()
        thread = threading.Thread(target=self._look, args=(process, over), daemon=True)
        self._since = time.monotonic()
        if self._minutes is not None:
            thread.start()
        try:
            yield
        finally:
            over.set()

    def _look(self, process: subprocess.Popen[bytes], over: threading.Event) -> None:
        looked = time.monotonic()
        while not over.wait(LOOK_SECONDS):
            late, looked = time.monotonic() - looked - LOOK_SECONDS, time.monotonic()
            if late > LOOK_SECONDS:
                self.pause(late)  # this watching process was stopped itself (Ctrl-Z)
            with self._changed:
                found = self._standing()
            if found:
                process.send_signal(STACKS_SIGNAL)
                over.wait(STACKS_SECONDS)
                self.found = f"{found}; its stacks are in its log{_state(process.pid)}"
                process.kill()
                return

    def _standing(self) -> str:
        if self._minutes is None or (self._last is not None and self._done >= self._last):
            return ""
        started = len(self._seconds) >= FEWEST
        median = statistics.median(self._seconds) if started else 0.0
        limit = 60 * max(self._minutes, 0.0 if started else START_MINUTES)
        waited = time.monotonic() - self._since
        if waited <= max(limit, FACTOR * median) + self._allowed:
            return ""
        after = f"after {self._unit} {self._done:,}" if self._done else "since it was started"
        usual = f", where one takes {median:.3g} s" if started else ""
        return f"it stood still: no {self._unit} for {waited:,.0f} s {after}{usual}"


def _state(process: int) -> str:
    """Return the system's state of a process, for a message; "" if the system does not tell."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return ""
    state = next((line.partition(":")[2].strip() for line in status.splitlines() if line.startswith("State:")), "")
    return f"; its process is {state}" if state else ""
