"""Plain Ray tasks that pass references: no cache, no record, nothing but the work.  ray_tasks.py FOLDER STEPS

Ray is started as marin/executor/backends/private_ray.py does: with a token, on the loopback interface, with its
dashboard.
"""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from typing import Any

from dag import SEED, SEED_VALUE, answer, layers, make

FOLDER, STEPS = sys.argv[1], int(sys.argv[2])


def started(folder: str) -> tuple[subprocess.Popen[bytes], str]:
    """``ray start`` with the options of marin/executor/backends/private_ray.py, and its address."""
    names = (
        *("port", "node-manager-port", "object-manager-port", "dashboard-port", "dashboard-agent-listen-port"),
        *("dashboard-agent-grpc-port", "runtime-env-agent-port", "metrics-export-port", "ray-client-server-port"),
    )
    first = 20_000 + secrets.randbelow(12_000)
    ports = {name: first + number for number, name in enumerate(names)}
    command = [
        os.path.join(os.path.dirname(sys.executable), "ray"),
        *("start", "--head", "--block", "--disable-usage-stats", "--include-log-monitor=false"),
        *(f"--temp-dir={folder}", f"--object-store-memory={256 << 20}", "--min-worker-port=0", "--max-worker-port=0"),
        *(f"--{name}={port}" for name, port in ports.items()),
    ]
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True)
    for name in ("port", "node-manager-port"):
        while socket.socket().connect_ex(("127.0.0.1", ports[name])):
            time.sleep(0.05)
    return process, f"127.0.0.1:{ports['port']}"


if __name__ == "__main__":
    os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    os.environ["RAY_AUTH_MODE"], os.environ["RAY_AUTH_TOKEN"] = "token", secrets.token_hex(32)
    os.environ["PYTHONPATH"] = os.path.dirname(os.path.abspath(__file__))  # its workers import dag too
    temporary = tempfile.mkdtemp(prefix="ray-tasks-", dir="/tmp")
    cluster, address = started(temporary)
    import ray

    for left in reversed(range(5)):
        try:
            ray.init(address=address, log_to_driver=False, logging_level="ERROR")
            break
        except ConnectionError:  # the node answers before the cluster has registered it
            if not left:
                raise

    @ray.remote(max_retries=0)
    def step(folder: str, reads: tuple[str, ...], *values: str) -> str:
        return make(folder, reads, values)

    held: dict[str, Any] = {SEED: SEED_VALUE}
    last: list[Any] = []
    for layer in layers(STEPS):
        for node in layer:
            held[node.name] = step.remote(FOLDER, node.reads, *(held[read] for read in node.reads))
        last = [held[node.name] for node in layer]
    print("answer", answer(ray.get(last)))
    ray.shutdown()
    os.killpg(cluster.pid, signal.SIGTERM)
    time.sleep(1)
    os.killpg(cluster.pid, signal.SIGKILL)  # ``ray start`` takes longer to end
    cluster.wait()
    shutil.rmtree(temporary, ignore_errors=True)
