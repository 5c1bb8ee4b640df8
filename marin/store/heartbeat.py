"""One background thread for all repeated work of a process, because a thread for each costs more than its work."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

IDLE = 2.0  # seconds between wake-ups without beats


class HeartbeatThread:
    """A thread that calls each beat again and again, one after the other, until it returns False or is removed."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._lock = threading.Lock()
        self._beats: dict[Callable[[], bool], tuple[float, float]] = {}  # due (monotonic) and seconds between
        self._thread: threading.Thread | None = None
        self._wake = threading.Event()
        self._until = 0.0  # when the thread looks again

    def add(self, beat: Callable[[], bool], every: float) -> None:
        """Add a beat. beat: returns whether to continue. every: seconds before each call, also the first."""
        due = time.monotonic() + every
        with self._lock:
            self._beats[beat] = (due, every)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
                self._thread.start()
            elif due < self._until:
                self._wake.set()

    def remove(self, beat: Callable[[], bool]) -> None:
        """Remove a beat. A call of the beat may still be running."""
        with self._lock:
            self._beats.pop(beat, None)

    def _run(self) -> None:
        while True:
            now = time.monotonic()
            with self._lock:
                self._wake.clear()
                self._until = min((due for due, _ in self._beats.values()), default=now + IDLE)
                due_now = [beat for beat, (due, _) in self._beats.items() if due <= now]
            for beat in due_now:
                goes_on = beat()
                with self._lock:
                    if not goes_on:
                        self._beats.pop(beat, None)
                    elif beat in self._beats:
                        every = self._beats[beat][1]
                        self._beats[beat] = (time.monotonic() + every, every)
            if not due_now:
                self._wake.wait(self._until - now)


_threads: dict[str, HeartbeatThread] = {}


def heartbeat_thread(name: str = "claims") -> HeartbeatThread:
    """Return this process's thread of that name."""
    return _threads.get(name) or _threads.setdefault(name, HeartbeatThread(name))


# A child process does not own its parent's claims, and the parent's threads do not run there.
os.register_at_fork(after_in_child=_threads.clear)
