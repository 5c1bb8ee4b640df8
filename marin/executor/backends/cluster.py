"""The Ray cluster for steps: a named one, or a private one. Uses only public options of Ray."""

# pyright: basic

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from msgspec import Struct

from marin.errors import ClusterLost, NoCluster, TokenRefused
from marin.executor import verbosity
from marin.executor.backends.private_ray import (
    MODE,
    TOKEN,
    TOKEN_PATH,
    PrivateRay,
    stay_on_this_machine,
    token_is_configured,
)

logger = logging.getLogger(__name__)
ADDRESS = "RAY_ADDRESS"
DASHBOARD = "Ray dashboard: "
QUIET: Mapping[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
CONNECT_SECONDS = 5.0  # for a socket to answer
JOIN_SECONDS = 15.0  # for a cluster to accept us; usually it takes a fifth of a second
JOIN_ATTEMPTS = 5  # Ray itself tries for some seconds each time
CHECK_EVERY, GONE_SECONDS, RESTART_SECONDS = 1.0, 2.0, 20.0
# Ray itself tries a wrong address or a wrong token for minutes, and cannot be interrupted meanwhile.
PROBE = """
import sys, ray
print("imported", flush=True)
ray.init(address=sys.argv[1], log_to_driver=False, logging_level="ERROR")
ray.shutdown()
"""
REFUSED = "Unauthenticated"  # part of Ray's message about a token
REMEDY = "Give another --address, --address local for a private Ray, or --backend inline"


class NamedCluster(Struct, frozen=True, kw_only=True):
    """A cluster that the user named. origin: the option or variable that names it. remedy: advice if it fails."""

    address: str
    origin: str
    remedy: str = REMEDY

    @property
    def is_this_machine(self) -> bool:
        return self.address.rpartition("://")[2].startswith(("127.", "localhost:", "[::1]:"))

    def __str__(self) -> str:
        return f"Ray cluster at {self.address} ({self.origin})"


def named_cluster(address: str) -> NamedCluster | None:
    """Return the cluster to join; None for a private one. address: of ``--address``, which wins over RAY_ADDRESS."""
    origin = "--address" if address else ADDRESS
    address = address or os.environ.get(ADDRESS, "")
    return None if address in ("", "local") else NamedCluster(address=address, origin=origin)


class Cluster:
    """A connection to a named or a private cluster."""

    def __init__(self, named: NamedCluster | None, context: Any, private: PrivateRay | None = None) -> None:
        import ray

        self.named, self.private = named, private
        self.dashboard: str = context.dashboard_url or ""
        self.nodes: list[dict[str, Any]] = ray.nodes()
        self._watched = self._vital_addresses()
        self._answered = dict.fromkeys(self._watched, time.monotonic())
        self._next_check = 0.0

    def _vital_addresses(self) -> dict[str, float]:
        """Return the servers that the driver talks to, each with the seconds that it may be silent."""
        import ray

        if self.named is not None and "://" in self.named.address:  # a Ray client may not reach the other servers
            return {self.named.address.partition("://")[2]: RESTART_SECONDS}
        context = ray.get_runtime_context()
        here = next(node for node in self.nodes if node["NodeID"] == context.get_node_id())
        return {
            context.gcs_address: GONE_SECONDS if self.named is None else RESTART_SECONDS,
            f"{here['NodeManagerAddress']}:{here['NodeManagerPort']}": GONE_SECONDS,
        }

    def must_live(self) -> None:
        """Raise ClusterLost if the cluster is dead. Cheap: call it often.

        Ray itself reports nothing: tasks on a dead node stay "running" forever.
        """
        now = time.monotonic()
        if now < self._next_check:
            return
        for address, patience in self._watched.items():
            if connection_refusal(address) is None:
                self._answered[address] = time.monotonic()
            elif now - self._answered[address] > patience:
                what = str(self.named) if self.named else "Ray that this run started here"
                raise ClusterLost(
                    f"the {what} has died: nothing answers at {address} any more (killed, or out of memory?). "
                    "Committed outputs stay. Free memory or start the cluster again, then give the same command: "
                    "only interrupted steps run again"
                )
        self._next_check = time.monotonic() + CHECK_EVERY

    def answers(self) -> bool:
        return all(connection_refusal(address) is None for address in self._watched)

    def describe(self) -> str:
        """Return where people can watch the cluster; "" if it has no dashboard."""
        if not self.dashboard:
            return ""
        token = self.private.token if self.private is not None else ""
        return f"{DASHBOARD}http://{self.dashboard}" + (f" · its token is in {token}" if token else "")

    def leave(self) -> None:
        """Disconnect. A private cluster ends."""
        import ray

        try:
            ray.shutdown()
        finally:
            if self.private is not None:
                self.private.end()


def start_private() -> Cluster:
    """Start a cluster for this run. Raises NoCluster."""
    os.environ["PYTHONPATH"] = os.pathsep.join(import_path())  # its workers inherit it
    private = PrivateRay()
    import ray

    try:
        for _ in range(JOIN_ATTEMPTS - 1):
            with suppress(ConnectionError):  # its node answers before the cluster knows the node
                return Cluster(None, ray.init(address=private.address, **QUIET), private)
            private.must_live()  # on a busy machine its node gives up, and Ray would then try for a minute each time
        return Cluster(None, ray.init(address=private.address, **QUIET), private)
    except BaseException as error:
        private.end()
        if isinstance(error, Exception) and not isinstance(error, NoCluster):  # Ray raises plain exceptions
            raise NoCluster(f"the Ray that was started here cannot be joined: {error}. Try again") from error
        raise


def join(named: NamedCluster) -> Cluster:
    """Join a named cluster. Raises NoCluster within seconds."""
    must_answer(named)
    # Ray sends a token only if a variable says so, and it reads that variable when it is imported.
    has_unused_token = MODE not in os.environ and token_is_configured()
    try:
        asked(named, PROBE, import_ray=not has_unused_token)
    except TokenRefused:
        if not has_unused_token:
            raise
        os.environ[MODE] = "token"
        asked(named, PROBE, import_ray=True)
    import ray

    os.environ.setdefault("RAY_OVERRIDE_JOB_RUNTIME_ENV", "1")  # a submitted job may have a PYTHONPATH; ours extends it
    path = os.pathsep.join([*import_path(), "${PYTHONPATH}"])
    try:
        variables = {"PYTHONPATH": path}
        if level := os.environ.get(verbosity.VARIABLE):
            variables[verbosity.VARIABLE] = level
        context = ray.init(address=named.address, runtime_env={"env_vars": variables}, **QUIET)
    except Exception as error:
        raise _cannot_join(named, str(error)) from error
    logger.info("joined the %s", named)
    return Cluster(named, context)


def asked(named: NamedCluster, program: str, *, import_ray: bool = False) -> str:
    """Run a program that asks a cluster something, and return its output. It prints "imported" before it asks.

    import_ray: import Ray here meanwhile. Raises NoCluster as soon as the cluster refuses it, or lets it wait too long.
    """
    if named.is_this_machine:
        stay_on_this_machine()  # else Ray uses the address of another interface, where nothing may listen
    probe = subprocess.Popen(
        [sys.executable, "-c", program, named.address],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,  # Ctrl-C is for us
    )
    assert probe.stdout is not None
    limit, said = threading.Timer(JOIN_SECONDS, probe.kill), ""
    try:
        if import_ray:
            import ray  # noqa: F401
        for line in probe.stdout:
            if line.startswith("imported"):
                limit.start()
            said += line
            if REFUSED in line:
                raise _cannot_join(named, said)
        if probe.wait():
            raise _cannot_join(named, said)
        return said
    finally:
        limit.cancel()
        probe.kill()
        probe.wait()
        probe.stdout.close()


def must_answer(named: NamedCluster) -> None:
    """Raise NoCluster unless the named host and port answer. Ray itself finds addresses such as "auto"."""
    address = named.address.partition("://")[2] or named.address
    if address == "auto":
        return
    if named.address.startswith(("http://", "https://")):
        raise NoCluster(
            f"{named.address} ({named.origin}) is a dashboard, which takes jobs (`marin submit EXPERIMENT`) but no "
            f"steps: wanted HOST:PORT of the cluster itself. {named.remedy}"
        )
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535 or named.address not in (address, f"ray://{address}"):
        raise NoCluster(
            f"{named.address} ({named.origin}) is no address of a Ray cluster: wanted HOST:PORT. {named.remedy}"
        )
    if (refusal := connection_refusal(address)) is not None:
        raise NoCluster(f"no {named}: nothing answers there ({refusal}). {named.remedy}")


def _cannot_join(named: NamedCluster, said: str) -> NoCluster:
    if REFUSED in said or "AuthenticationError" in said:
        return token_refused(named)
    last = next((line for line in reversed(said.splitlines()) if "Error: " in line), "")
    why = last or f"the server is no Ray, or did not let us in within {JOIN_SECONDS:.0f} s"
    return NoCluster(f"the {named} cannot be joined: {why}. {named.remedy}")


def token_refused(named: NamedCluster) -> TokenRefused:
    why = "does not accept the token that Ray has here"
    if not token_is_configured():
        why = "wants a token, and Ray has none here"
    return TokenRefused(
        f"the {named} {why}. Set {MODE}=token, and {TOKEN} or {TOKEN_PATH} to the token of that cluster. {named.remedy}"
    )


def connection_refusal(address: str) -> str | None:
    """Return why no connection can be made; None if it can."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_SECONDS):
            return None
    except OSError as error:
        return error.strerror or str(error)


def import_path() -> list[str]:
    """Return folders where only this process finds modules, such as an experiment's folder, and not every Python."""
    installed = tuple(sysconfig.get_paths().values())
    entries = dict.fromkeys(os.path.abspath(entry) for entry in sys.path)
    return [entry for entry in entries if os.path.isdir(entry) and not entry.startswith(installed)]
