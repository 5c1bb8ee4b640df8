"""Stop work that must not go on: the code of a step that another driver took over."""

from __future__ import annotations

import ctypes
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

from marin.errors import LeaseLost

WAKE = signal.SIGUSR2  # ends a system call that blocks; a step must not use it itself


class Stop:
    """Raises LeaseLost in the thread that made this object, on a call from another thread, until ``disarm``.

    In the main thread, it also ends a blocking system call. In another thread, it waits for the next bytecode.
    """

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self._in_main = threading.current_thread() is threading.main_thread()
        self._before: Any = None
        if self._in_main:
            self._before = signal.signal(WAKE, self._raise)

    def now(self) -> None:
        if self._in_main:
            signal.pthread_kill(self._thread, WAKE)
        else:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._thread), ctypes.py_object(LeaseLost))

    def disarm(self, quiet: Callable[[], None]) -> None:
        """Raise nothing after this. quiet: waits until no thread calls ``now`` any more."""
        try:
            self._disarm(quiet)
        except LeaseLost:
            self._disarm(quiet)  # it came at this moment, and comes only once

    def _disarm(self, quiet: Callable[[], None]) -> None:
        quiet()
        if self._in_main:
            signal.signal(WAKE, self._before)
        else:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._thread), None)

    def _raise(self, _number: int, _frame: FrameType | None) -> None:
        raise LeaseLost("this attempt was taken over")
