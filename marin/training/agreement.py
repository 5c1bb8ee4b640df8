"""What the processes of a run agree on at the end of each step: to save because it is time, or to stop.

They must all do the same at the same step, or they wait for each other for ever.
"""

# pyright: basic
from __future__ import annotations

import signal
import time
from enum import IntEnum

import jax
import numpy as np
from jax.experimental import multihost_utils


class Wish(IntEnum):
    """The greater one holds."""

    GO_ON = 0
    SAVE = 1
    STOP = 2  # save first


class Agreement:
    """minutes: between checkpoints at most, by the first process's clock; None for no such bound.

    From now on SIGTERM, with which a machine is taken away, is a wish to stop. Made after jax.distributed is
    initialized, which has a handler of its own.
    """

    def __init__(self, minutes: float | None) -> None:
        self._seconds = None if minutes is None else 60 * minutes
        self._saved = time.monotonic()
        self._told = False
        signal.signal(signal.SIGTERM, self._on_signal)

    def wish(self) -> Wish:
        """After a step; every process of the run calls it after every step."""
        mine = Wish.GO_ON
        if self._seconds is not None and jax.process_index() == 0 and time.monotonic() - self._saved >= self._seconds:
            mine = Wish.SAVE
        if self._told:
            mine = Wish.STOP
        if jax.process_count() > 1:
            return Wish(int(np.max(multihost_utils.process_allgather(np.int32(mine)))))
        return mine

    def saved(self) -> None:
        """A checkpoint was begun: the next one may wait."""
        self._saved = time.monotonic()

    def _on_signal(self, _number: int, _frame: object) -> None:
        self._told = True
