"""The backend ``--backend inline``: one attempt at a time, in a new process that imports only what steps need.

The child does not see changes that an experiment made to modules on import or in ``build``, and neither do Ray workers.
The child has this process's stdin, so that ``breakpoint()`` works in a step. A terminal's Ctrl-C reaches both.
"""

from __future__ import annotations

import codecs
import ctypes
import os
import pickle
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
AHEAD = 3  # jobs queued at the child, so that the child need not wait
QUIET_SECONDS = 0.2  # after which an incomplete line of output is shown
_END = b""  # follows the last job
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
LEAVE_SECONDS = 5.0  # for an idle child's libraries to end


class ChildBackend:
    """Runs attempts in a child process. It ignores resources, but refuses accelerators.

    A child that dies fails its attempt; the next attempt gets a new child.
    """

    def __init__(self) -> None:
        self.queue: deque[Job] = deque()
        self.sent: deque[Job] = deque()  # the first one runs
        self.child: _Child | None = None

    def start(self, steps: list[ExecutorStep[Any]], watcher: Watcher) -> None:
        must_need_no_chips(steps)
        self.watch, self.parcels = watcher, packed(steps)

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
            self.watch(self.sent[0], "")
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
                self.watch(job, "")


class _Child:
    """The child process, as this process sees it."""

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
        self._to_send = SimpleQueue[bytes]()
        self._to_send.put(pickle.dumps((sys.argv, parcels)))
        # A thread of its own: a child that prints much takes no job until somebody reads its output.
        self._feeder = threading.Thread(target=self._feed, name="marin-jobs", daemon=True)
        self._feeder.start()

    def send(self, job: Job) -> None:
        self._to_send.put(addressed(job))

    def _feed(self) -> None:
        with suppress(OSError):  # the child is gone; ``outcome`` reports that
            while content := self._to_send.get():
                self._jobs.send_bytes(content)
            self._jobs.send_bytes(_END)

    def outcome(self, seconds: float) -> Outcome | None:
        """Return the outcome of the child's job, or None if the job does not end within this time."""
        if self._listen(seconds):
            with suppress(EOFError, ConnectionResetError):
                return pickle.loads(self._jobs.recv_bytes())
        elif self.process.poll() is None:
            return None
        code = self.process.wait()  # the other end may stay open in a process that it forked
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        advice = " (out of memory?)" if code == -signal.SIGKILL else ""
        self._close()
        return Outcome(ending=Ending.FAILED, error=f"the process that ran this step ended with {how}{advice}")

    def stop(self, *, at_work: bool) -> None:
        """End the child. at_work: let it give back its attempt first, however long that takes."""
        if at_work:
            self.process.send_signal(SIGNALS.number)  # a terminal has sent it too; the child heeds only the first
        self._to_send.put(_END)
        until = time.monotonic() + LEAVE_SECONDS
        while self.process.poll() is None and (at_work or time.monotonic() < until):
            if self._listen(QUIET_SECONDS):
                time.sleep(QUIET_SECONDS / 10)  # the child has closed its end, and is about to exit
        self.process.kill()
        self.process.wait()
        self._close()

    def _close(self) -> None:
        """Release the resources of a child that has ended."""
        self._listen(0.0)
        self._to_send.put(_END)
        self._feeder.join()
        self._jobs.close()
        for pipe in (self.process.stdout, self.process.stderr):
            assert pipe is not None
            pipe.close()

    def _listen(self, seconds: float) -> bool:
        """Pass on the child's output until its job ends or the time is over. Return whether the job ended."""
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
    """Output from a pipe, in whole lines and without credentials."""

    def __init__(self, stream: CleanStream) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")

    def pass_on(self, number: int, *, flush: bool) -> bool:
        """Pass on all available output. flush: incomplete lines too. Return False after the last output."""
        with suppress(BlockingIOError):
            while piece := os.read(number, 1 << 16):
                self._stream.write(self._decoder.decode(piece))
            self._stream.flush()
            return False
        if flush:
            self._stream.flush()
        return True


def serve(number: int, parent: int) -> None:
    """Run jobs from an inherited socket until it is closed or a signal comes. Called in the child."""
    _die_with(parent)
    remember_start()
    SIGNALS.install(heed_once=True)
    log_as_asked()
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True, errors="backslashreplace")  # pyright: ignore
    jobs = Connection(number)
    with suppress(EOFError, KeyboardInterrupt):  # the attempt has been given back
        sys.argv[:], parcels = pickle.loads(jobs.recv_bytes())
        unpacked = Unpacked(parcels)
        # Not ``jobs.recv``: marin would observe each class that the standard library unpickles.
        while content := jobs.recv_bytes():
            jobs.send_bytes(pickle.dumps(_outcome(content, unpacked)))


def _die_with(parent: int) -> None:
    """Have Linux kill this process when its parent ends. Exit at once if the parent has already ended."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _outcome(content: bytes, unpacked: Unpacked) -> Outcome:
    try:
        job = unpacked.job(content)
    except Exception as error:
        line = f"the process that runs steps could not load this step: {type(error).__name__}: {error}"
        return Outcome(ending=Ending.FAILED, error=line)
    outcome = attempt(job, map_here)
    sys.stdout.flush()
    sys.stderr.flush()
    return outcome
