"""Show an exception to people: one line that names a place in the project's code, and the whole traceback.

An ItemError carries an exception from a Ray worker to the step. There the exception has a RemoteTraceback as its cause.
"""

from __future__ import annotations

import os
import pickle
import sysconfig
import traceback
from typing import Any

from marin.errors import MarinError, StepFailed
from marin.fingerprint.origin import is_engine


class RemoteTraceback(Exception):
    """The traceback from another process, printed with the exception that it causes. place: where it was raised."""

    def __init__(self, text: str, place: str) -> None:
        super().__init__(text, place)
        self.text, self.place = text, place

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
    if isinstance(error.__cause__, RemoteTraceback):
        return error.__cause__.place
    installed = tuple(sysconfig.get_path(name) + os.sep for name in ("stdlib", "purelib", "platlib"))
    frames = list(traceback.walk_tb(error.__traceback__))
    own = [
        (frame, number)
        for frame, number in frames
        if not frame.f_code.co_filename.startswith((*installed, "<"))
        and not is_engine(frame.f_globals.get("__name__", ""))
    ]
    if not frames:
        return "unknown place"
    frame, number = (own or frames)[-1]
    return f"{os.path.basename(frame.f_code.co_filename)}:{number}"


class ItemError(Exception):
    """Carries an exception between processes. content: the pickled exception; b"" if it cannot be pickled."""

    def __init__(self, content: bytes, said: str, place: str, text: str) -> None:
        super().__init__(content, said, place, text)
        self.content, self.said, self.place, self.text = content, said, place, text

    def original(self) -> BaseException:
        """Return the exception, with the remote traceback as its cause; a StepFailed with its text if it is lost."""
        try:
            error = pickle.loads(self.content)
        except Exception:  # it is b"", or a class that only the worker knows
            error = StepFailed(f"{self.said} (in {self.place})")
        error.__cause__ = RemoteTraceback(self.text, self.place)
        return error


def portable(error: Exception) -> ItemError:
    said = f"{type(error).__name__}: {error}"
    try:
        content = pickle.dumps(error)
        copy = pickle.loads(content)
        if type(copy) is not type(error) or str(copy) != str(error):
            content = b""
    except Exception:
        content = b""
    return ItemError(content, said, place_of(error), details(error))


def explained(error: Exception) -> BaseException:
    """Return the exception that the step should see for Ray's error in an item."""
    from ray.exceptions import OutOfMemoryError, RayTaskError

    if isinstance(error, RayTaskError):
        cause: Any = getattr(error, "cause")
        if isinstance(cause, ItemError):
            return cause.original()
        return StepFailed(f"an item of map() could not be sent between processes: {type(cause).__name__}: {cause}")
    if isinstance(error, OutOfMemoryError):
        return StepFailed(
            f"a worker of map() was killed because memory ran out: {first_line(error)}. Let fewer workers run at once: "
            "give the --address of a Ray cluster with fewer CPUs (`marin cluster up --cpus N`), or --backend inline"
        )
    return StepFailed(f"a worker of map() died each time (killed, or out of memory?): {first_line(error)}")
