"""How what goes wrong with one item of ``ctx.map`` on a Ray worker reaches the step: as it was raised there."""

# pyright: basic

from __future__ import annotations

import pickle
from typing import Any

from marin.errors import StepFailed
from marin.executor.failures import RemoteTraceback, details, place_of


class ItemError(Exception):
    """Carries an exception between processes. content: it, pickled; b"" where it does not survive that."""

    def __init__(self, content: bytes, said: str, place: str, text: str) -> None:
        super().__init__(content, said, place, text)
        self.content, self.said, self.place, self.text = content, said, place, text

    def original(self) -> BaseException:
        """The exception, with the remote traceback as its cause; a StepFailed that says the same where it is lost."""
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
    """What Ray raised for an item, as the step is to see it."""
    from ray.exceptions import OutOfMemoryError, RayTaskError

    if isinstance(error, RayTaskError):
        cause: Any = error.cause
        if isinstance(cause, ItemError):
            return cause.original()
        return StepFailed(f"an item of map() could not be sent between processes: {type(cause).__name__}: {cause}")
    first = (str(error).strip() or type(error).__name__).splitlines()[0]
    if isinstance(error, OutOfMemoryError):
        return StepFailed(f"a worker of map() was killed because memory ran out: {first}. Ask for fewer CPUs at a time")
    return StepFailed(f"a worker of map() died each time (killed, or out of memory?): {first}")
