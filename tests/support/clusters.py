"""Ray clusters for tests, started with ``ray start`` as a lab's are, each in a folder of its own."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

START_SECONDS = 300.0
RAY = str(Path(sys.executable).with_name("ray"))


@dataclass(frozen=True, kw_only=True)
class RayCluster:
    """environment: in which the cluster lets one in: Ray's variables, without RAY_ADDRESS."""

    address: str
    dashboard: str
    environment: dict[str, str]
    process: subprocess.Popen[bytes]

    def kill(self, name: str) -> None:
        """kill -9 of its ``raylet`` or ``gcs_server``."""
        for child in psutil.Process(self.process.pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):  # a cluster that starts has processes that end
                if child.name() == name:
                    child.kill()


NICENESS = "RAY_worker_niceness"  # see tests/conftest.py


@contextmanager
def ray_cluster(folder: Path, *, gpus: int = 0) -> Generator[RayCluster]:
    """With a token, a dashboard, two CPUs and so many GPUs to give away, on this machine's loopback interface."""
    folder.mkdir(parents=True, exist_ok=True)
    sockets = tempfile.mkdtemp(prefix="ray-")  # whose paths may not be long
    ports = free_ports(7)
    environment = {
        **{name: held for name, held in os.environ.items() if not name.startswith("RAY_") or name == NICENESS},
        "HOME": str(folder),
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    command = [
        *(RAY, "start", "--head", "--block", "--num-cpus=2", f"--num-gpus={gpus}", "--object-store-memory=100000000"),
        *(f"--port={ports[0]}", f"--dashboard-port={ports[1]}", f"--dashboard-agent-listen-port={ports[2]}"),
        *(f"--ray-client-server-port={ports[3]}", f"--temp-dir={sockets}", "--include-log-monitor=false"),
        # Ray waits only 15 s for ports that it must find itself, which is too short on a machine under load.
        *(f"--dashboard-agent-grpc-port={ports[4]}", f"--metrics-export-port={ports[5]}"),
        f"--runtime-env-agent-port={ports[6]}",
    ]
    log = folder / "start.log"
    process = _started(command, environment, log)
    try:
        yield RayCluster(
            address=f"127.0.0.1:{ports[0]}",
            dashboard=f"http://127.0.0.1:{ports[1]}",
            environment=environment,
            process=process,
        )
    finally:
        end([psutil.Process(process.pid)] if process.poll() is None else [])
        process.wait()
        shutil.rmtree(sockets, ignore_errors=True)


def _started(command: list[str], environment: dict[str, str], log: Path) -> subprocess.Popen[bytes]:
    """Return the process of a cluster that has started. Ray gives a node 30 s, which a machine under load exceeds."""
    limit = time.monotonic() + START_SECONDS
    while True:
        with log.open("wb") as out:
            process = subprocess.Popen(command, env=environment, stdout=out, stderr=out, start_new_session=True)
        while process.poll() is None and time.monotonic() < limit:
            if "Ray runtime started" in log.read_text():
                return process
            time.sleep(0.1)
        if process.poll() is None or "timed out during startup" not in log.read_text():
            end([psutil.Process(process.pid)] if process.poll() is None else [])
            raise AssertionError(log.read_text())


def end(roots: list[psutil.Process]) -> None:
    """Kill these and all below them."""
    every = [process for root in roots for process in (*root.children(recursive=True), root)]
    for process in every:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue
    psutil.wait_procs(every, timeout=30)


def free_ports(count: int) -> list[int]:
    """Above those that Ray gives its workers (10002 to 19999)."""
    found: list[int] = []
    for port in range(20_000 + secrets.randbelow(10_000), 32_000):
        with socket.socket() as tried:
            if tried.connect_ex(("127.0.0.1", port)) and len(found) < count:
                found.append(port)
        if len(found) == count:
            return found
    raise AssertionError("no free ports")
