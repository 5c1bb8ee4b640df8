"""Asking a server again: which of its answers pass by themselves, how long to wait, and when to give up."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from marin.errors import InputError

PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})
TRIES = 8  # that bring nothing new, one after the other
FIRST_WAIT, LONGEST_WAIT = 1.0, 60.0  # seconds; doubled from try to try, a quarter more or less by chance
LONGEST_ASKED = 900.0  # seconds; a server that wants to be left alone for longer is left alone


class Tries:
    """How often one thing was asked for. what: its URL. remedy: what to do where it stays so."""

    def __init__(self, what: str) -> None:
        self._what, self._began, self._made, self._idle = what, time.monotonic(), 0, 0

    def failed(self, problem: str, *, status: int = 0, asked: float | None = None, grown: bool, goes_on: str) -> None:
        """Wait until it may be tried again. asked: seconds that the server wants to be left alone. grown: whether the
        try brought anything.

        Raises InputError, naming all of it, after TRIES that brought nothing.
        """
        self._made += 1
        self._idle = 0 if grown else self._idle + 1
        if self._idle == TRIES or (asked or 0) > LONGEST_ASKED:
            times = f"tried {self._made} times in {time.monotonic() - self._began:.0f} s"
            raise InputError(f"{self._what}: {problem}, {times}; {_remedy(status, asked)}. Run again to {goes_on}")
        if asked is not None:
            time.sleep(asked)
        elif self._idle:
            time.sleep(min(FIRST_WAIT * 2 ** (self._idle - 1), LONGEST_WAIT) * random.uniform(0.75, 1.25))


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that the answer asks to wait, in either form that HTTP has for it; None if it asks for nothing."""
    said = next((value for name, value in headers.items() if name.lower() == "retry-after"), "").strip()
    if said.isdecimal():
        return float(said)
    try:
        when = parsedate_to_datetime(said)
    except ValueError:
        return None
    when = when if when.tzinfo else when.replace(tzinfo=UTC)
    return max(0.0, (when - datetime.now(UTC)).total_seconds())


def _remedy(status: int, asked: float | None) -> str:
    if status == 429 or asked is not None:
        wait = f"for {asked:.0f} s more" if asked else "for a while"
        return (
            f"it limits how often it is asked and wants to be left alone {wait}; wait, or log in if it knows accounts"
        )
    if status >= 500:
        return "the server is in trouble; see its status page, or ask later"
    return "check the network and the address"
