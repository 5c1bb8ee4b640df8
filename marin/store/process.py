"""The process that works on a step, described so that other processes on its machine can see when it is gone."""

from __future__ import annotations

import functools
import getpass
import os
import socket
import subprocess
from contextlib import suppress
from pathlib import Path

from marin.store.documents import Document

UNKNOWN = "unknown"


class Holder(Document, frozen=True, kw_only=True):
    """A process, as claims and records describe it."""

    user: str
    host: str
    boot: str  # one start of one kernel
    pid: int
    started: str  # in the kernel's own ticks, which tell a reused process id from the old process
    space: str = UNKNOWN  # its process namespace, which a container narrows; older ones lack it

    def is_gone(self) -> bool:
        """Is the holder gone, as far as this process can see? True only if this process would find a live holder.

        A host's name proves nothing: pods, clones and laptops share names. A restarted machine also looks like its
        clone. In these cases only the claim's beat tells.
        """
        return self.is_here() and started(self.pid) not in (self.started, UNKNOWN)

    def is_here(self) -> bool:
        """Would this process find the holder if the holder were alive?"""
        me = this_process()
        return UNKNOWN not in (me.boot, me.space) and (self.boot, self.space, self.host) == (me.boot, me.space, me.host)

    def __str__(self) -> str:
        return f"{self.user}@{self.host} (process {self.pid})"


def this_process() -> Holder:
    return _described(os.getpid())


@functools.lru_cache(maxsize=1)  # keyed by process id, because a fork is another process
def _described(pid: int) -> Holder:
    try:
        user = getpass.getuser()
    except (OSError, KeyError):
        user = str(os.getuid())
    return Holder(user=user, host=socket.gethostname(), boot=_boot(), pid=pid, started=started(pid), space=_space())


def _boot() -> str:
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip() or UNKNOWN
    with suppress(OSError):  # macOS
        asked = subprocess.run(["sysctl", "-n", "kern.bootsessionuuid"], capture_output=True, text=True, check=False)
        return asked.stdout.strip() or UNKNOWN
    return UNKNOWN


def _space() -> str:
    if not os.path.exists("/proc/self/stat"):
        return "whole"  # a system without /proc has no process namespaces either
    with suppress(OSError):
        # A namespace made without a /proc of its own shows other processes under our numbers.
        return os.readlink("/proc/self/ns/pid") if os.readlink("/proc/self") == str(os.getpid()) else UNKNOWN
    return UNKNOWN


def started(pid: int) -> str:
    """Return when a process was started, in clock ticks since boot.

    "" if there is no such process, UNKNOWN if this process cannot see it.
    """
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as handle:
            fields = handle.read().rsplit(")", 1)[1].split()
    except OSError:
        try:  # another user's process may be hidden (hidepid), and not every system has /proc
            os.kill(pid, 0)
        except ProcessLookupError:
            return ""
        except OSError:
            pass
        return UNKNOWN
    return "" if fields[0] == "Z" else fields[19]
