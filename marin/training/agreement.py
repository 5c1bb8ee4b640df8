"""The agreement between the processes of a run at the end of each step: go on, save because it is time, or stop.

All processes must do the same at the same step, or they wait for each other for ever.
"""

# pyright: basic
from __future__ import annotations

import signal
import time
from enum import IntEnum

import jax
import numpy as np
from jax.experimental import multihost_utils


class Request(IntEnum):
    """A process's wish for the next step. The greatest wish of all processes holds."""

    GO_ON = 0
    SAVE = 1
    STOP = 2  # save first


class Agreement:
    """The common decision of a run's processes after each step.

    minutes: the most minutes between two checkpoints, by the first process's clock; None for no limit. From the
    construction on, SIGTERM (the machine is being taken away) is a wish to stop. Construct an Agreement after
    jax.distributed is initialized, because jax.distributed installs a handler of its own.
    """

    def __init__(self, minutes: float | None) -> None:
        self._seconds = None if minutes is None else 60 * minutes
        self._saved = time.monotonic()
        self._told = False
        signal.signal(signal.SIGTERM, self._on_signal)

    def wish(self) -> Request:
        """Return the common wish after a step. Every process of the run must call this after every step."""
        mine = Request.GO_ON
        if self._seconds is not None and jax.process_index() == 0 and time.monotonic() - self._saved >= self._seconds:
            mine = Request.SAVE
        if self._told:
            mine = Request.STOP
        if jax.process_count() > 1:
            return Request(int(np.max(multihost_utils.process_allgather(np.int32(mine)))))
        return mine

    def saved(self) -> None:
        """Restart the clock of ``minutes``: a checkpoint was begun."""
        self._saved = time.monotonic()

    def _on_signal(self, _number: int, _frame: object) -> None:
        self._told = True
