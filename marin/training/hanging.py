"""A process that trains or evaluates and stands still is found, says where it stands, and is killed.

It stands still when a step takes more than ``hang_minutes``, and more than FACTOR times the median of those before it;
at its start, where it loads, compiles and meets the others, only when that takes START_MINUTES. A part of an evaluation
may take these, too, since parts differ. Its stacks go to its log. Of several processes that work together all stand
still when one does: the stacks of the one differ, or it cannot even write them.
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
STEPS, FEWEST = 100, 3  # whose median it is, and how many must have been made
START_MINUTES = 60.0  # until so many are made, if hang_minutes are not more
STACKS_SECONDS = 2.0  # to write them
LOOK_SECONDS = 0.5


class HangWatch:
    """minutes: None to wait for ever. last: steps done at the end, after which nobody waits; None where nobody knows.
    unit: what a step is called."""

    def __init__(self, minutes: float | None, last: int | None, unit: str = "step") -> None:
        self.found = ""  # what stood still, for people
        self._minutes, self._last, self._unit = minutes, last, unit
        self._changed = threading.Lock()
        self._seconds: deque[float] = deque(maxlen=STEPS)
        self._done, self._since, self._allowed = 0, 0.0, 0.0

    def step(self, done: int) -> None:
        """One more is done."""
        now = time.monotonic()
        with self._changed:
            if self._done:
                self._seconds.append(now - self._since)
            self._done, self._since, self._allowed = done, now, 0.0

    def pause(self, seconds: float) -> None:
        """The next step may come so much later."""
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
                self.pause(late)  # who looks was stopped itself (Ctrl-Z)
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
    """What the system says of a process that does not run, where it says that."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return ""
    state = next((line.partition(":")[2].strip() for line in status.splitlines() if line.startswith("State:")), "")
    return f"; its process is {state}" if state else ""
