"""The Ray cluster that steps are sent to: the one that was named, or a private one on this machine.

Only public options of Ray are used. A private cluster

- wants a token for every call, as every local Ray does by default. It is the token that the user configured for Ray
  (RAY_AUTH_TOKEN, RAY_AUTH_TOKEN_PATH, ~/.ray/auth_token), or one made for this process and kept in a file that only
  this user may read. A file, because what a step prints of its environment goes to a log;
- listens on the loopback interface only: that is what Ray does where clusters of several machines are switched off.
"""

# pyright: basic

from __future__ import annotations

import atexit
import functools
import os
import secrets
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from marin.errors import ClusterLost, NoCluster

ADDRESS = "RAY_ADDRESS"
MODE, TOKEN, TOKEN_PATH = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"
ONE_MACHINE = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}  # read when Ray is imported
OBJECT_STORE_BYTES = 256 << 20  # a private cluster passes only small messages; outputs go through the store
QUIET: Mapping[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
CONNECT_SECONDS = 5.0  # for a socket to be answered
JOIN_SECONDS = 15.0  # for a cluster to let us in: it takes a fifth of a second
CHECK_EVERY, GONE_SECONDS, RESTART_SECONDS = 1.0, 2.0, 20.0
# Ray itself asks a wrong address, or with a wrong token, for minutes, and cannot be interrupted meanwhile.
PROBE = """
import sys, ray
print("imported", flush=True)
ray.init(address=sys.argv[1], log_to_driver=False, logging_level="ERROR")
ray.shutdown()
"""
REFUSED = "Unauthenticated"  # in what Ray says of a token
REMEDY = "Give another --address, or none for a Ray of this run's own, or --backend inline"


@dataclass(frozen=True, kw_only=True)
class NamedCluster:
    """origin: who named it."""

    address: str
    origin: str

    @property
    def is_this_machine(self) -> bool:
        return self.address.rpartition("://")[2].startswith(("127.", "localhost:", "[::1]:"))

    def __str__(self) -> str:
        return f"Ray cluster at {self.address} ({self.origin})"


def named_cluster(address: str) -> NamedCluster | None:
    """The cluster to join; None for a private one. address: of ``--address``, which goes before RAY_ADDRESS."""
    named = NamedCluster(address=address, origin="--address")
    if not address:
        named = NamedCluster(address=os.environ.get(ADDRESS, ""), origin=ADDRESS)
    return None if named.address in ("", "local") else named


def stay_on_this_machine() -> None:
    """Before Ray is imported: clusters that this process starts listen on the loopback interface only."""
    os.environ.update(ONE_MACHINE)


class Cluster:
    """A connection to a cluster. named: None for a private one. token: path of the file that holds the token which was
    made for it, "" if none was."""

    def __init__(self, named: NamedCluster | None, context: Any, token: str = "") -> None:
        import ray

        self.named, self.token = named, token
        self.dashboard: str = context.dashboard_url or ""
        self.nodes: list[dict[str, Any]] = ray.nodes()
        self._watched = self._vital_addresses()
        self._answered = dict.fromkeys(self._watched, time.monotonic())
        self._next_check = 0.0

    def _vital_addresses(self) -> dict[str, float]:
        """The servers that the driver talks to, each with the seconds that it may be silent."""
        import ray

        if self.named is not None and "://" in self.named.address:  # the others may be out of a Ray client's reach
            return {self.named.address.partition("://")[2]: RESTART_SECONDS}
        context = ray.get_runtime_context()
        here = next(node for node in self.nodes if node["NodeID"] == context.get_node_id())
        return {
            context.gcs_address: GONE_SECONDS if self.named is None else RESTART_SECONDS,
            f"{here['NodeManagerAddress']}:{here['NodeManagerPort']}": GONE_SECONDS,
        }

    def must_live(self) -> None:
        """Raises ClusterLost. Ray says nothing: what its dead node ran is running forever. Cheap: call it often."""
        now = time.monotonic()
        if now < self._next_check:
            return
        for address, patience in self._watched.items():
            if _refusal(address) is None:
                self._answered[address] = time.monotonic()
            elif now - self._answered[address] > patience:
                what = str(self.named) if self.named else "Ray that this run started here"
                raise ClusterLost(
                    f"the {what} has died: nothing answers at {address} any more (killed, or out of memory?). What was "
                    "committed stays, and what ran is made again: give the same command when there is memory, or a "
                    "cluster, to run it"
                )
        self._next_check = time.monotonic() + CHECK_EVERY

    def describe(self) -> str:
        """Where people can watch it; "" where there is nothing to see."""
        if not self.dashboard:
            return ""
        return f"Ray dashboard: http://{self.dashboard}" + (f" · its token is in {self.token}" if self.token else "")


def start_private() -> Cluster:
    """A cluster of this process on this machine. Raises NoCluster."""
    stay_on_this_machine()
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.pop(MODE, None)  # without it Ray asks for tokens
    token = "" if _token_is_configured() else _token_file()
    if token:
        os.environ[TOKEN_PATH] = token
    os.environ["PYTHONPATH"] = os.pathsep.join(import_path())  # its workers inherit it
    import ray

    try:
        # "local": without it Ray joins whatever cluster it finds on this machine, another driver's included.
        context = ray.init(address="local", object_store_memory=OBJECT_STORE_BYTES, **QUIET)
    except Exception as error:  # Ray raises plain ones
        raise NoCluster(
            f"Ray did not start here: {str(error).strip()}. Try again (a machine under load is too slow for it), give "
            "the --address of a cluster, or --backend inline"
        ) from error
    return Cluster(None, context, token)


def join(named: NamedCluster) -> Cluster:
    """Raises NoCluster, within seconds."""
    _must_answer(named)
    if named.is_this_machine:
        stay_on_this_machine()  # else Ray takes the address of another interface for it, where nothing may listen
    probe = subprocess.Popen(
        [sys.executable, "-c", PROBE, named.address],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,  # Ctrl-C is for us
    )
    try:
        import ray  # while the probe does

        _must_be_let_in(named, probe)
    finally:
        probe.kill()
        probe.wait()
    os.environ.setdefault("RAY_OVERRIDE_JOB_RUNTIME_ENV", "1")  # a submitted job may have a PYTHONPATH: ours holds it
    path = os.pathsep.join([*import_path(), "${PYTHONPATH}"])
    try:
        context = ray.init(address=named.address, runtime_env={"env_vars": {"PYTHONPATH": path}}, **QUIET)
    except Exception as error:
        raise _cannot_join(named, str(error)) from error
    return Cluster(named, context)


def _must_answer(named: NamedCluster) -> None:
    """Where the address names a host and port. "auto" and the like are for Ray to find."""
    address = named.address.partition("://")[2] or named.address
    if address == "auto":
        return
    if not address.rpartition(":")[0] or not address.rpartition(":")[2].isdigit():
        raise NoCluster(f"{named.address} ({named.origin}) is no address of a Ray cluster: wanted HOST:PORT. {REMEDY}")
    if (refusal := _refusal(address)) is not None:
        raise NoCluster(f"no {named}: nothing answers there ({refusal}). {REMEDY}")


def _must_be_let_in(named: NamedCluster, probe: subprocess.Popen[str]) -> None:
    """Raises NoCluster as soon as the probe is turned away, or is not let in."""
    assert probe.stdout is not None
    limit, said = threading.Timer(JOIN_SECONDS, probe.kill), ""
    try:
        for line in probe.stdout:
            if line.startswith("imported"):
                limit.start()
            said += line
            if REFUSED in line:
                raise _cannot_join(named, said)
        if probe.wait():
            raise _cannot_join(named, said)
    finally:
        limit.cancel()


def _cannot_join(named: NamedCluster, said: str) -> NoCluster:
    if REFUSED in said or "AuthenticationError" in said:
        why = (
            f"it does not accept our token. Set {MODE}=token, and {TOKEN} or {TOKEN_PATH} to the token of that cluster"
        )
    else:
        last = next((line for line in reversed(said.splitlines()) if "Error: " in line), "")
        why = last or f"what answers there is no Ray, or did not let us in within {JOIN_SECONDS:.0f} s"
    return NoCluster(f"the {named} cannot be joined: {why}. {REMEDY}")


def _refusal(address: str) -> str | None:
    """Why no connection can be made."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_SECONDS):
            return None
    except OSError as error:
        return error.strerror or str(error)


def _token_is_configured() -> bool:
    """By the user. Not by us: an earlier run of this process."""
    if os.environ.get(TOKEN):
        return True
    if path := os.environ.get(TOKEN_PATH):
        return path not in _made
    return Path.home().joinpath(".ray/auth_token").exists()


_made: set[str] = set()


@functools.cache  # Ray reads a token once in a process
def _token_file() -> str:
    """A new token that lasts as long as this process."""
    folder, owner = tempfile.mkdtemp(prefix="marin-ray-"), os.getpid()
    path = os.path.join(folder, "token")
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(secrets.token_hex(32))

    def remove() -> None:
        if os.getpid() == owner:
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    _made.add(path)
    return path


def import_path() -> list[str]:
    """Where this process finds modules that not every Python of this installation finds: an experiment's folder."""
    installed = tuple(sysconfig.get_paths().values())
    entries = dict.fromkeys(os.path.abspath(entry) for entry in sys.path)
    return [entry for entry in entries if os.path.isdir(entry) and not entry.startswith(installed)]
