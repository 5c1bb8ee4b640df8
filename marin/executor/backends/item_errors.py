"""Carry an error in one item of ``ctx.map`` from a Ray worker to the step, as it was raised there."""

# pyright: basic

from __future__ import annotations

import pickle
from typing import Any

from marin.errors import StepFailed
from marin.executor.failures import RemoteTraceback, details, first_line, place_of


class ItemError(Exception):
    """Carries an exception between processes. content: the pickled exception; b"" if it cannot be pickled."""

    def __init__(self, content: bytes, said: str, place: str, text: str) -> None:
        super().__init__(content, said, place, text)
        self.content, self.said, self.place, self.text = content, said, place, text

    def original(self) -> BaseException:
        """Return the exception, with the remote traceback as its cause; a StepFailed with its text if it is lost."""
        error = _unpickled(self.content)
        if error is None:
            error = StepFailed(f"{self.said} (in {self.place})")
        error.__cause__ = RemoteTraceback(self.text, self.place)
        return error


def portable(error: Exception) -> ItemError:
    said = f"{type(error).__name__}: {error}"
    try:
        content = pickle.dumps(error)
    except Exception:
        content = b""
    copy = _unpickled(content)
    if type(copy) is not type(error) or str(copy) != str(error):
        content = b""
    return ItemError(content, said, place_of(error), details(error))


def _unpickled(content: bytes) -> BaseException | None:
    try:
        return pickle.loads(content) if content else None
    except Exception:
        return None


def explained(error: Exception) -> BaseException:
    """Return the exception that the step should see for Ray's error in an item."""
    from ray.exceptions import OutOfMemoryError, RayTaskError

    if isinstance(error, RayTaskError):
        cause: Any = error.cause
        if isinstance(cause, ItemError):
            return cause.original()
        return StepFailed(f"an item of map() could not be sent between processes: {type(cause).__name__}: {cause}")
    if isinstance(error, OutOfMemoryError):
        return StepFailed(
            f"a worker of map() was killed because memory ran out: {first_line(error)}. Let fewer workers run at once: "
            "give the --address of a Ray cluster with fewer CPUs (`marin cluster up --cpus N`), or --backend inline"
        )
    return StepFailed(f"a worker of map() died each time (killed, or out of memory?): {first_line(error)}")
