"""Logs of running steps, side by side on the driver's terminal, while they are written."""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Self

from rich.console import Console
from rich.text import Text

from marin.errors import MarinError
from marin.executor.run_results import Event, StepResult
from marin.store.ends import look_seconds, read_claims
from marin.store.layout import LOG
from marin.store.store import Store

STYLES = ("cyan", "magenta", "blue", "green", "yellow")


@dataclass
class _Tail:
    name: str
    style: str
    log: str = ""  # of the running attempt; "" if there is none
    seen: int = 0  # bytes of the log that were read
    rest: bytes = b""  # an incomplete line
    after: int = 0  # number of an attempt that has ended, so that each look reads only what came later
    lock: threading.Lock = field(default_factory=threading.Lock)


class LogStream:
    """Prints logs of steps as they grow. Call it with each event. Use as a context manager; it reads only inside."""

    def __init__(self, console: Console, store: Store) -> None:
        self._console, self._store = console, store
        self._tails: dict[str, _Tail] = {}  # of running steps, by identity
        self._styled = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="marin-logs", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        for tail in self._tails.values():  # steps that were interrupted
            self._read(tail, tail.log)

    def __call__(self, event: Event, result: StepResult) -> None:
        identity = result.step.identity
        if event is Event.STARTED:
            self._tails[identity] = _Tail(result.step.name, STYLES[self._styled % len(STYLES)])
            self._styled += 1
        elif (tail := self._tails.pop(identity, None)) is not None:
            self._read(tail, result.log or tail.log)

    def _watch(self) -> None:
        while not self._over.wait(look_seconds(self._store.objects)):
            for identity, tail in list(self._tails.items()):
                with suppress(MarinError, OSError):  # the next look may succeed
                    claim = read_claims(self._store.objects, {identity: tail.after}).get(identity)
                    if claim is not None and not claim.holder.is_gone():
                        tail.after = claim.number - 1
                        self._read(tail, f"{claim.attempt}/{LOG}")

    def _read(self, tail: _Tail, log: str) -> None:
        """Print the new part of the log, or all of another log."""
        with tail.lock, suppress(MarinError, OSError):
            if log != tail.log:
                self._print(tail, b"\n" if tail.rest else b"")
                tail.log, tail.seen = log, 0
            more = self._store.objects.read_log(log, tail.seen) if log else b""
            tail.seen += len(more)
            ended = tail.name not in {each.name for each in self._tails.values()}
            self._print(tail, more + (b"\n" if ended and (more or tail.rest) and not more.endswith(b"\n") else b""))

    def _print(self, tail: _Tail, more: bytes) -> None:
        *lines, tail.rest = (tail.rest + more).split(b"\n")
        for line in lines:
            shown = Text.from_ansi(line.decode(errors="replace").rstrip("\r").rpartition("\r")[2])
            self._console.print(Text.assemble((f"{tail.name} │ ", tail.style), shown), soft_wrap=True)
