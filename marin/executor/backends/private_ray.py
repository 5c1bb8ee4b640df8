"""A Ray cluster for one run on this machine, started with ``ray start`` and public options.

It requires a token for every call. The user may have configured one for Ray (RAY_AUTH_TOKEN, RAY_AUTH_TOKEN_PATH,
~/.ray/auth_token). Otherwise this process makes one, in the cluster's folder, in a file that only this user may read. A
variable would not do, because a step may print its environment to a log. The cluster listens on the loopback interface
only, as Ray does where clusters of several machines are switched off. It ends with this process, even if this process
is killed.

``ray.init`` is not used, because it takes no ports. If Ray must find ports itself, its node waits 15 seconds for an
agent to report them, and dies if the machine is too busy for that.
"""

# pyright: basic

from __future__ import annotations

import atexit
import functools
import logging
import os
import secrets
import shutil
import socket
import subprocess
import sysconfig
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from marin.errors import NoCluster

logger = logging.getLogger(__name__)
MODE, TOKEN, TOKEN_PATH = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"
ONE_MACHINE = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}  # read when Ray is imported
OBJECT_STORE_BYTES = 256 << 20  # only small messages; outputs go through the store
START_SECONDS = 120.0  # five are enough on an idle machine
END_SECONDS = 10.0
PORTS = (
    *("port", "node-manager-port", "object-manager-port", "dashboard-port", "dashboard-agent-listen-port"),
    *("dashboard-agent-grpc-port", "runtime-env-agent-port", "metrics-export-port", "ray-client-server-port"),
)
FIRST_PORT, LAST_PORT = 20_000, 32_000  # below the ports of outgoing connections
# Becomes Ray, and leaves a process that ends Ray when standard input is closed. That happens however this process ends.
# (Not the other way round: a process that the shell starts in the background ignores SIGINT, and so would the steps.)
KEEPER = """
folder=$1; shift; exec 3<&0
{ read -r _ <&3; trap "" TERM; kill -TERM 0; sleep 1; rm -rf "$folder"; kill -KILL 0; } &
exec "$@" </dev/null 3<&-
"""


def stay_on_this_machine() -> None:
    """Make Ray take "this machine" for the loopback interface. Call it before Ray is imported."""
    os.environ.update(ONE_MACHINE)


class PrivateRay:
    """A running private cluster. token: path of its token's file; "" if the user's token is used."""

    def __init__(self) -> None:
        """Start the cluster. Raises NoCluster."""
        stay_on_this_machine()
        self._environment = {name: os.environ.get(name) for name in (MODE, TOKEN_PATH)}
        os.environ[MODE] = "token"
        self._folder = tempfile.mkdtemp(prefix="marin-ray-", dir="/tmp")  # paths of sockets must be short
        self.token = "" if token_is_configured() else os.path.join(self._folder, "token")
        if self.token:
            with open(os.open(self.token, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(_token())
            os.environ[TOKEN_PATH] = self.token
        self._log = Path(self._folder, "start.log")
        ports = dict(zip(PORTS, free_ports(len(PORTS)), strict=True))
        self.address = f"127.0.0.1:{ports['port']}"
        command = start_command(self._folder, ports)
        logger.debug("starting %s", command)
        began = time.monotonic()
        with self._log.open("wb") as log:
            self._keeper = subprocess.Popen(
                ["sh", "-c", KEEPER, "sh", self._folder, *command],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        atexit.register(self._wait_for_end)
        try:
            import ray  # noqa: F401  # while it starts

            limit = time.monotonic() + START_SECONDS
            while not (answers(ports["port"]) and answers(ports["node-manager-port"])):
                self.must_live(give_up=time.monotonic() > limit)  # Ray reports an error at once, and ends
                time.sleep(0.05)
            logger.info("Ray answers at %s after %.1f s", self.address, time.monotonic() - began)
        except BaseException:
            self.end()
            raise

    def must_live(self, *, give_up: bool = False) -> None:
        """Raise NoCluster with Ray's last words if it has ended. give_up: also if it has not."""
        if self._keeper.poll() is None and not give_up:
            return
        said = self._log.read_text(errors="replace") if self._log.exists() else ""
        last = next((line for line in reversed(said.splitlines()) if line.strip()), "it says nothing")
        raise NoCluster(
            f"Ray did not start here: {last.strip().rstrip('.')}. Try again (a machine under load may be too slow for "
            "it), give the --address of a cluster, or --backend inline"
        )

    def end(self) -> None:
        """Let the cluster end. That takes a second, in which the caller may go on; this process exits afterwards."""
        assert self._keeper.stdin is not None
        self._keeper.stdin.close()
        for name, value in self._environment.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value

    def _wait_for_end(self) -> None:
        """Wait for the cluster's end when this process exits."""
        self.end()
        try:
            self._keeper.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._keeper.kill()
        shutil.rmtree(self._folder, ignore_errors=True)


def ray_program() -> str:
    """Return the path of ``ray`` beside this Python."""
    return os.path.join(sysconfig.get_path("scripts"), "ray")


def start_command(folder: str, ports: Mapping[str, int]) -> list[str]:
    """Return the command that starts a cluster on this machine. folder: of its sockets and logs. ports: by PORTS."""
    return [
        *(ray_program(), "start", "--head", "--block", "--disable-usage-stats"),
        # A folder of our own, because Ray opens its default folder to every user of the machine.
        *(f"--temp-dir={folder}/ray", f"--object-store-memory={OBJECT_STORE_BYTES}"),
        *("--include-log-monitor=false", "--min-worker-port=0", "--max-worker-port=0"),
        *(f"--{name}={port}" for name, port in ports.items()),
    ]


def answers(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


def free_ports(count: int, address: str = "127.0.0.1") -> list[int]:
    """Return free ports, below those of outgoing connections, which could take one before its user starts."""
    found: set[int] = set()
    while len(found) < count:
        port = FIRST_PORT + secrets.randbelow(LAST_PORT - FIRST_PORT)
        with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as tried, suppress(OSError):
            tried.bind((address, port))
            found.add(port)
    return list(found)


def token_is_configured() -> bool:
    """Return whether the user configured a token. Raises NoCluster for a file that does not exist."""
    if os.environ.get(TOKEN):
        return True
    if path := os.environ.get(TOKEN_PATH):
        if not os.path.isfile(path):
            raise NoCluster(f"{TOKEN_PATH} names {path}, which is no file; write the token there, or unset it")
        return True
    return Path.home().joinpath(".ray/auth_token").exists()


@functools.cache  # Ray reads a token once in a process
def _token() -> str:
    return secrets.token_hex(32)
