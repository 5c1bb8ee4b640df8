"""One attempt at a time, in a new process beside this one that has only imported what steps need: ``--backend inline``.

What an experiment changes in modules, while it is imported or in ``build``, is not there, as it is not on Ray. The
child has this process's stdin, so that ``breakpoint()`` works in a step, and a terminal's Ctrl-C reaches both.
"""

from __future__ import annotations

import codecs
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from contextlib import suppress
from multiprocessing import connection
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any

from marin.executor.attempt import attempt
from marin.executor.backends.backend import Watcher
from marin.executor.backends.inline import map_here, must_need_no_chips
from marin.executor.backends.step_pickles import Parcels, Unpacked, addressed, packed
from marin.executor.job import Ending, Job, Outcome
from marin.executor.log_capture import CleanStream
from marin.executor.signals import SIGNALS
from marin.executor.verbosity import log_as_asked
from marin.fingerprint.observation.start import remember_start
from marin.steps.step import ExecutorStep

_PROGRAM = (
    "import sys\n"
    "number, parent, *sys.path = sys.argv[1:]\n"
    "from marin.executor.backends.child import serve\n"
    "serve(int(number), int(parent))\n"
)
AHEAD = 3  # jobs that wait at the child, so that it need not
QUIET_SECONDS = 0.2  # after which what was printed is shown though its line has not ended
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
LEAVE_SECONDS = 5.0  # for the libraries of a child that has nothing to do to end


class ChildBackend:
    """Ignores resources, but refuses accelerators. A child that dies fails its attempt; the next gets a new child."""

    def __init__(self) -> None:
        self.queue: deque[Job] = deque()
        self.sent: deque[Job] = deque()  # the first of them runs
        self.child: _Child | None = None

    def start(self, steps: list[ExecutorStep[Any]], watcher: Watcher) -> None:
        must_need_no_chips(steps)
        self.watcher, self.parcels = watcher, packed(steps)

    def submit(self, job: Job) -> None:
        self.queue.append(job)

    def wait(self, seconds: float) -> list[tuple[Job, Outcome]]:
        self._send()
        if self.child is None or not self.sent:
            time.sleep(seconds)
            return []
        outcome = self.child.outcome(seconds)
        if outcome is None:
            return []
        ended = self.sent.popleft()
        if self.child.process.returncode is not None:
            self.queue.extendleft(reversed(self.sent))
            self.sent.clear()
            self.child = None
        elif self.sent:
            self.watcher.began(self.sent[0])
        return [(ended, outcome)]

    def stop(self) -> None:
        self.queue.clear()
        if self.child is not None:
            self.child.stop(at_work=bool(self.sent))
        self.sent.clear()
        self.child = None

    def _send(self) -> None:
        while self.queue and len(self.sent) <= AHEAD:
            self.child = self.child or _Child(self.parcels)
            self.child.send(job := self.queue.popleft())
            self.sent.append(job)
            if len(self.sent) == 1:
                self.watcher.began(job)


class _Child:
    """The process, from here."""

    def __init__(self, parcels: Parcels) -> None:
        self._jobs, theirs = connection.Pipe()
        self.process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, str(theirs.fileno()), str(os.getpid()), *sys.path],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=[theirs.fileno()],
        )
        theirs.close()
        self._said: dict[int, _Said] = {}
        for pipe, stream in ((self.process.stdout, sys.stdout), (self.process.stderr, sys.stderr)):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
            self._said[pipe.fileno()] = _Said(CleanStream(stream))
        self._to_send = SimpleQueue[object]()
        self._to_send.put((sys.argv, parcels))
        # In a thread of its own: a child that prints much while it works takes no job before somebody reads that.
        self._feeder = threading.Thread(target=self._feed, name="marin-jobs", daemon=True)
        self._feeder.start()

    def send(self, job: Job) -> None:
        self._to_send.put(addressed(job))

    def _feed(self) -> None:
        with suppress(OSError):  # the child is gone, which is said where its outcome is asked for
            sent = self
            while sent is not None:
                self._jobs.send(sent := self._to_send.get())

    def outcome(self, seconds: float) -> Outcome | None:
        """How its job ended, None if it has not within this time."""
        if self._listen(seconds):
            with suppress(EOFError, ConnectionResetError):
                return self._jobs.recv()
        elif self.process.poll() is None:
            return None
        code = self.process.wait()  # the other end may stay open in a process that it forked
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        advice = "; was memory short?" if code == -signal.SIGKILL else ""
        self._close()
        return Outcome(ending=Ending.FAILED, error=f"the process that made it ended with {how}{advice}")

    def stop(self, *, at_work: bool) -> None:
        """at_work: it first gives back what it holds, as long as that takes."""
        if at_work:
            self.process.send_signal(SIGNALS.number)  # a terminal has sent it too: the child heeds the first
        self._to_send.put(None)
        until = time.monotonic() + LEAVE_SECONDS
        while self.process.poll() is None and (at_work or time.monotonic() < until):
            if self._listen(QUIET_SECONDS):
                time.sleep(QUIET_SECONDS / 10)  # it has closed its end, and is about to end
        self.process.kill()
        self.process.wait()
        self._close()

    def _close(self) -> None:
        """Of one that has ended."""
        self._listen(0.0)
        self._to_send.put(None)
        self._feeder.join()
        self._jobs.close()
        for pipe in (self.process.stdout, self.process.stderr):
            assert pipe is not None
            pipe.close()

    def _listen(self, seconds: float) -> bool:
        """Passes on what it prints, for this time or until it has said how its job ended. Whether it has."""
        sources: list[Any] = [*self._said, self._jobs]
        until = time.monotonic() + seconds
        while True:
            ready = connection.wait(sources, min(QUIET_SECONDS, max(0.0, until - time.monotonic())))
            for number in list(self._said):
                if not self._said[number].pass_on(number, flush=not ready or self._jobs in ready):
                    sources.remove(number)
                    del self._said[number]
            if self._jobs in ready or time.monotonic() >= until:
                return self._jobs in ready
            if not sources:
                time.sleep(QUIET_SECONDS)


class _Said:
    """What comes out of a pipe, in whole lines and without credentials."""

    def __init__(self, stream: CleanStream) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")

    def pass_on(self, number: int, *, flush: bool) -> bool:
        """All that is there; flush: also the beginning of a line. False once there will be no more."""
        with suppress(BlockingIOError):
            while piece := os.read(number, 1 << 16):
                self._stream.write(self._decoder.decode(piece))
            self._stream.flush()
            return False
        if flush:
            self._stream.flush()
        return True


def serve(number: int, parent: int) -> None:
    """In the child: attempts at jobs that come through an inherited socket, until it is closed or a signal comes."""
    _die_with(parent)
    remember_start()
    SIGNALS.install(heed_once=True)
    log_as_asked()
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True, errors="backslashreplace")  # pyright: ignore
    jobs = Connection(number)
    with suppress(EOFError, KeyboardInterrupt):  # the attempt has given back what it held
        sys.argv[:], parcels = jobs.recv()
        unpacked = Unpacked(parcels)
        while (job := jobs.recv()) is not None:
            jobs.send(_outcome(job, unpacked))


def _die_with(parent: int) -> None:
    """Killed when its parent ends, where the system can do that; at once if it has ended already."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _outcome(job: Job, unpacked: Unpacked) -> Outcome:
    try:
        job = unpacked.job(job)
    except Exception as error:
        return Outcome(ending=Ending.FAILED, error=f"its process could not take it: {type(error).__name__}: {error}")
    outcome = attempt(job, map_here)
    sys.stdout.flush()
    sys.stderr.flush()
    return outcome
