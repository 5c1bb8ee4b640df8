"""One command, from start to end: wall seconds, peak memory of the whole process tree, how it ended."""

from __future__ import annotations

import os
import resource
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import psutil

FIRST_SAMPLES = 0.005  # seconds between looks at the tree, at first: the quickest tools live for ten milliseconds
SAMPLES = 0.1
GRACE = 10.0  # seconds that killed processes may take to end


class Ending(StrEnum):
    OK = "ok"
    FAILED = "failed"
    TIMEOUT = "timeout"


@dataclass(frozen=True, kw_only=True)
class Measured:
    """seconds: wall. cpu: processor seconds of the process and its ended children, less noisy than wall.

    peak: bytes of resident memory, summed over the tree (shared pages count in each process).
    """

    ending: Ending
    seconds: float
    cpu: float
    peak: int
    output: str


class _Tree:
    """Every descendant ever seen, also those that left the tree (daemons)."""

    def __init__(self, pid: int) -> None:
        self.root = psutil.Process(pid)
        self.seen: dict[tuple[int, float], psutil.Process] = {}
        self.peak = 0

    def look(self) -> None:
        total = 0
        try:
            processes = [self.root, *self.root.children(recursive=True)]
        except psutil.NoSuchProcess:
            processes = []
        current = {(process.pid, process.create_time()): process for process in processes}
        self.seen |= current
        for key, process in list(self.seen.items()):
            try:
                if process.is_running():
                    total += process.memory_info().rss
                else:
                    del self.seen[key]
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                self.seen.pop(key, None)
        self.peak = max(self.peak, total)

    def kill(self) -> None:
        """End whatever of the tree still runs, daemons included."""
        self.look()
        left = [process for process in self.seen.values() if process.pid != os.getpid()]
        for process in left:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        psutil.wait_procs(left, timeout=GRACE)


def measured(
    command: Sequence[str], folder: Path, environment: Mapping[str, str], timeout: float, log: Path
) -> Measured:
    """Run a command in a folder, with its output in ``log``. Kill every process that it leaves running."""
    ended = threading.Event()
    with log.open("ab") as handle:
        used = _children_cpu()
        began = time.perf_counter()
        process = subprocess.Popen(
            command, cwd=folder, env=dict(environment), stdin=subprocess.DEVNULL, stdout=handle, stderr=handle
        )
        tree = _Tree(process.pid)

        def watch() -> None:
            pause = FIRST_SAMPLES
            while not ended.wait(pause):
                try:
                    tree.look()
                except psutil.NoSuchProcess:
                    continue
                pause = min(SAMPLES, pause * 1.2)

        watcher = threading.Thread(target=watch)
        watcher.start()
        late = threading.Event()
        alarm = threading.Timer(timeout, lambda: (late.set(), process.kill()))
        alarm.start()
        code = process.wait()  # without a timeout of its own: that would look only every 50 ms
        seconds, cpu = time.perf_counter() - began, _children_cpu() - used
        alarm.cancel()
        ended.set()
        watcher.join()
        tree.kill()
    ending = Ending.TIMEOUT if late.is_set() else Ending.FAILED if code else Ending.OK
    return Measured(ending=ending, seconds=seconds, cpu=cpu, peak=tree.peak, output=log.read_text(errors="replace"))


def _children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
