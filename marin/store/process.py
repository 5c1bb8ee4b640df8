"""Who works on a step: a process, described so that others on its machine can see that it is gone."""

from __future__ import annotations

import functools
import getpass
import os
import socket
import subprocess

from marin.store.documents import Document

UNKNOWN = "unknown"


class Holder(Document, frozen=True, kw_only=True):
    """One process."""

    user: str
    host: str
    boot: str  # one start of one kernel
    pid: int
    started: str  # in the kernel's own ticks, so that a process id that was used again is not taken for the old one
    space: str = UNKNOWN  # the processes it can see there, which a container narrows; older leases lack it

    def is_gone(self) -> bool:
        """True only where this process can see that: it would find that one, were it still there.

        A host's name proves nothing (pods, clones and laptops share them), and a machine that was started
        again cannot be told from its clone: then only the lease's beat tells.
        """
        return self.is_here() and started(self.pid) not in (self.started, UNKNOWN)

    def is_here(self) -> bool:
        """Would this process find that one, were it still there?"""
        me = this_process()
        return UNKNOWN not in (me.boot, me.space) and (self.boot, self.space, self.host) == (me.boot, me.space, me.host)

    def __str__(self) -> str:
        return f"{self.user}@{self.host} (process {self.pid})"


def this_process() -> Holder:
    return _described(os.getpid())


@functools.lru_cache(maxsize=1)  # by process id: a fork is another process
def _described(pid: int) -> Holder:
    return Holder(user=_user(), host=socket.gethostname(), boot=_boot(), pid=pid, started=started(pid), space=_space())


@functools.cache
def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return str(os.getuid())


@functools.cache
def _boot() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as handle:
            return handle.read().strip() or UNKNOWN
    except OSError:
        pass
    try:  # macOS
        asked = subprocess.run(["sysctl", "-n", "kern.bootsessionuuid"], capture_output=True, text=True, check=False)
    except OSError:
        return UNKNOWN
    return asked.stdout.strip() or UNKNOWN


@functools.cache
def _space() -> str:
    if not os.path.exists("/proc/self/stat"):
        return "whole"  # a system without /proc has no process namespaces either
    try:
        # A namespace made without a /proc of its own shows other processes under our numbers.
        return os.readlink("/proc/self/ns/pid") if os.readlink("/proc/self") == str(os.getpid()) else UNKNOWN
    except OSError:
        return UNKNOWN


def started(pid: int) -> str:
    """When a process was started, in clock ticks since boot; "" if there is none, UNKNOWN if it cannot be seen."""
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
