"""Waiting for what happens, never for a time."""

from __future__ import annotations

import time
from collections.abc import Callable

import psutil

PATIENCE = 300.0  # seconds, after which it counts as never: a busy machine takes many times as long as a quiet one


def wait_until(happened: Callable[[], object], why: Callable[[], str] = lambda: "it did not happen") -> None:
    """Wait until something has happened. why: the text of the failure."""
    limit = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < limit, why()
        time.sleep(0.02)


def is_gone(pid: int) -> bool:
    """Return whether the process was killed; a zombie counts, because its new parent may not collect it."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
