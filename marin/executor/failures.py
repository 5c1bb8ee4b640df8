"""Show an exception to people: one line that names a place in the project's code, and the whole traceback."""

from __future__ import annotations

import os
import pickle
import traceback
from typing import Any

from marin.errors import MarinError, StepFailed
from marin.fingerprint.origin import Origin, origin_of


class RemoteError(Exception):
    """Carries an exception out of a Ray worker, and is its cause from then on: it prints the worker's traceback.

    error: the exception; a StepFailed with its text if it cannot be pickled. place: where it was raised.
    """

    def __init__(self, error: BaseException, place: str, text: str) -> None:
        super().__init__(error, place, text)
        self.error, self.place, self.text = error, place, text

    def __str__(self) -> str:
        return f"in another process:\n{self.text.rstrip()}"


def failure_line(error: BaseException) -> str:
    """Return ``ValueError: shard 3 has no text (in filter.py:41)``. Marin's own errors name the place themselves."""
    line = f"{type(error).__name__}: {error}"
    return line if isinstance(error, MarinError) else f"{line.splitlines()[0]} (in {place_of(error)})"


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message; its type if it has none."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def details(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


def place_of(error: BaseException) -> str:
    """Return file and line of the project's code that raised the error, or that called the code that raised it."""
    if isinstance(error.__cause__, RemoteError):
        return error.__cause__.place
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if origin_of(frame.filename) is Origin.PROJECT]
    if not frames:
        return "unknown place"
    frame = (own or frames)[-1]
    return f"{os.path.basename(frame.filename)}:{frame.lineno}"


def portable(error: Exception) -> RemoteError:
    try:
        copy = pickle.loads(pickle.dumps(error))
        is_whole = type(copy) is type(error) and str(copy) == str(error)
    except Exception:
        is_whole = False
    place = place_of(error)
    sent = error if is_whole else StepFailed(f"{type(error).__name__}: {error} (in {place})")
    return RemoteError(sent, place, details(error))


def explained(error: Exception) -> BaseException:
    """Return the exception that the step should see for Ray's error in an item."""
    from ray.exceptions import OutOfMemoryError, RayTaskError

    if isinstance(error, RayTaskError):
        cause: Any = getattr(error, "cause")
        if isinstance(cause, RemoteError):
            cause.error.__cause__ = cause
            return cause.error
        return StepFailed(f"an item of map() could not be sent between processes: {type(cause).__name__}: {cause}")
    if isinstance(error, OutOfMemoryError):
        return StepFailed(
            f"a worker of map() was killed because memory ran out: {first_line(error)}. Let fewer workers run at once: "
            "give the --address of a Ray cluster with fewer CPUs (`marin cluster up --cpus N`), or --backend inline"
        )
    return StepFailed(f"a worker of map() died each time (killed, or out of memory?): {first_line(error)}")
