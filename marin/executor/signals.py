"""Signals that stop a process: Ctrl-C, a scheduler's SIGTERM, a terminal that was closed."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType

DEBOUNCE_SECONDS = 0.5  # seconds; a terminal and a wrapper both pass one Ctrl-C on
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Signals:
    """Turns the first signal to stop into KeyboardInterrupt in the main thread, so that work stops and leases are given
    back: for every signal, because that is what libraries let through. A second signal ends the process at once.

    number: the signal that came, once one did.
    """

    def __init__(self) -> None:
        self.number = signal.SIGINT
        self.first: float | None = None
        self.heed_once = False

    def install(self, *, heed_once: bool = False) -> None:
        """From now on, for good. Signals that the process was started to ignore stay ignored. heed_once: a second one
        does nothing, because a parent, which a terminal tells too, ends this process with itself."""
        self.heed_once = heed_once
        if threading.current_thread() is not threading.main_thread():
            return  # who called this from a thread of its own has handlers of its own
        for number in STOPPING:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._on_signal)

    @contextmanager
    def heard_by_worker(self) -> Generator[None]:
        """Of a worker: SIGTERM, with which a machine is taken away, becomes KeyboardInterrupt in its attempt."""
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
        """Was this process told to end by a scheduler, not by a person?"""
        return self.first is not None and self.number is signal.SIGTERM

    def __str__(self) -> str:
        """For people; also in a process that got no signal itself, but was stopped by the one that did."""
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
