"""Signals that stop a process: Ctrl-C, a scheduler's SIGTERM, a closed terminal."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType

DEBOUNCE_SECONDS = 0.5  # a terminal and a wrapper may both pass on one Ctrl-C
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Signals:
    """Turns the first stopping signal into KeyboardInterrupt in the main thread, so that attempts are given back.

    Every signal becomes KeyboardInterrupt, because libraries let it through. A second signal ends the process at once.
    number: the signal that came, once one did.
    """

    def __init__(self) -> None:
        self.number = signal.SIGINT
        self.first: float | None = None
        self.heed_once = False

    def install(self, *, heed_once: bool = False) -> None:
        """Handle signals from now on. Signals that the process was started to ignore stay ignored.

        heed_once: ignore a second signal. A terminal signals the parent too, and the parent ends this process.
        """
        self.heed_once = heed_once
        if threading.current_thread() is not threading.main_thread():
            return  # a caller in another thread has its own handlers
        for number in STOPPING:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._on_signal)

    @contextmanager
    def heard_by_worker(self) -> Generator[None]:
        """Turn SIGTERM in a worker into KeyboardInterrupt in its attempt. Clusters send it to take a machine away."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.signal(signal.SIGTERM, self._on_signal)
        try:
            yield
        finally:
            signal.signal(signal.SIGTERM, before)

    @property
    def terminated(self) -> bool:
        """Return whether a scheduler, not a person, told this process to end."""
        return self.first is not None and self.number is signal.SIGTERM

    def __str__(self) -> str:
        """Return the reason for people. A process without a signal of its own was stopped by its run."""
        if self.first is None:
            return "stopped with its run"
        return f"stopped by {'Ctrl-C' if self.number is signal.SIGINT else self.number.name}"

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        now = time.monotonic()
        if self.first is None:
            self.first, self.number = now, signal.Signals(number)
            raise KeyboardInterrupt
        if now - self.first > DEBOUNCE_SECONDS and not self.heed_once:
            os.write(2, b"stopped at once; the next run takes over what this one held\n")
            os._exit(128 + number)


SIGNALS = Signals()  # of this process
