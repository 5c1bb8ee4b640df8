"""Show an exception to people: one line that names a place in the project's code, and the whole traceback.

An exception from another process has a RemoteTraceback as its cause.
"""

from __future__ import annotations

import os
import sysconfig
import traceback

from marin.errors import MarinError
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
