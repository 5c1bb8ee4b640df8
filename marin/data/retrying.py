"""Retry requests to a server: recognise temporary errors, wait, and give up in the end."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from marin.errors import InputError

PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})
TRIES = 8  # consecutive tries without progress
FIRST_WAIT, LONGEST_WAIT = 1.0, 60.0  # seconds; doubled after each try, ± 25 % at random
LONGEST_ASKED = 900.0  # seconds; give up on a server that asks for a longer pause


class Tries:
    """The tries of one request. what: its URL."""

    def __init__(self, what: str) -> None:
        self._what, self._began, self._made, self._idle = what, time.monotonic(), 0, 0

    def failed(self, problem: str, *, status: int = 0, asked: float | None = None, grown: bool, goes_on: str) -> None:
        """Wait until the next try. asked: pause in seconds that the server asks for. grown: whether the try progressed.

        goes_on: the effect of another run, for the message. Raises InputError after TRIES without progress, or if the
        server asks for a pause over LONGEST_ASKED.
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
    """Return the pause in seconds that the answer asks for, in either form of HTTP, or None."""
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
        return f"the server limits requests and asks clients to wait {wait}; wait, or log in if the server has accounts"
    if status >= 500:
        return "the server has a problem; see its status page, or try later"
    return "check the network and the address"
