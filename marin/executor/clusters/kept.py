"""A Ray cluster on this machine that is kept until somebody ends it, unlike the private one of a run.

marin starts the cluster with ``ray start`` and public options, in a folder of its own. It ends the cluster through its
process: ``ray stop`` would end every Ray of this user, also the ones of running experiments. The cluster requires the
user's token and listens on the loopback interface alone.
"""

# pyright: basic

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sysconfig
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec.structs import replace

from marin.errors import NoCluster
from marin.executor.backends.private_ray import (
    MODE,
    ONE_MACHINE,
    PORTS,
    answers,
    free_ports,
    ray_program,
    start_command,
    token_is_configured,
)
from marin.store.documents import BadDocument, Document
from marin.store.process import Holder, started, this_process

STARTED = "Ray runtime started"  # the message of `ray start` when it is ready
ATTEMPTS, START_SECONDS = 3, 300.0  # Ray itself gives up earlier; five seconds are enough on an idle machine
END_SECONDS = 15.0
DASHBOARD_PORT = 8265  # Ray's own choice


class KeptCluster(Document, frozen=True, kw_only=True):
    """A cluster that runs or ran; ``process`` shows which."""

    address: str
    dashboard: str
    folder: str  # of its sockets and logs
    process: Holder


def noted_cluster() -> KeptCluster | None:
    """Return this user's cluster on this machine, also if it has died."""
    try:
        kept = KeptCluster.parse(_note().read_bytes())
    except (OSError, BadDocument):
        return None
    return kept if kept.process.is_here() else None


def kept_cluster() -> KeptCluster | None:
    """Return this user's cluster if it runs."""
    kept = noted_cluster()
    return None if kept is None or kept.process.is_gone() else kept


@contextmanager
def alone() -> Generator[None]:
    """Wait until no other process starts or ends a cluster."""
    _note().parent.mkdir(parents=True, exist_ok=True)
    with _note().with_suffix(".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def keep_cluster(cpus: int | None, dashboard_port: int | None) -> KeptCluster:
    """Start a cluster. cpus: how many steps may take; None for all there are. Raises NoCluster."""
    if dashboard_port is not None and answers(dashboard_port):
        raise NoCluster(f"port {dashboard_port} of this machine is taken; give another --dashboard-port, or none")
    environment = {**os.environ, **ONE_MACHINE, MODE: "token"}
    # Submitted drivers find this Python as "python".
    environment["PATH"] = os.pathsep.join([sysconfig.get_path("scripts"), environment.get("PATH", "")])
    ray = ray_program()
    if not os.path.exists(ray):
        raise NoCluster("Ray is not installed beside this Python: pip install 'marin[run]'")
    if not token_is_configured():
        made = subprocess.run(
            [ray, "get-auth-token", "--generate"], env=environment, capture_output=True, text=True, check=False
        )
        if made.returncode:
            raise NoCluster(f"Ray made no token (`ray get-auth-token --generate`): {made.stderr.strip()}")
        Path.home().joinpath(".ray/auth_token").chmod(0o600)  # Ray leaves the mode to the umask
    for attempt in range(1, ATTEMPTS + 1):
        folder = tempfile.mkdtemp(prefix="marin-cluster-", dir="/tmp")  # paths of sockets must be short
        try:
            kept = _started(folder, environment, cpus, dashboard_port)
            _note().write_bytes(kept.to_json())
            return kept
        except NoCluster:  # its node gives up on a busy machine
            if attempt == ATTEMPTS:
                raise
            shutil.rmtree(folder, ignore_errors=True)
    raise AssertionError


def _started(folder: str, environment: dict[str, str], cpus: int | None, dashboard_port: int | None) -> KeptCluster:
    """Start a cluster's process, and wait until Ray reports that it is ready. Raises NoCluster."""
    ports = dict(zip(PORTS, free_ports(len(PORTS)), strict=True))
    if dashboard_port or not answers(DASHBOARD_PORT):
        ports["dashboard-port"] = dashboard_port or DASHBOARD_PORT
    command = [*start_command(folder, ports), "--node-ip-address=127.0.0.1"]
    command += [f"--num-cpus={cpus}"] if cpus is not None else []
    log = Path(folder, "start.log")
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
        )
    try:
        limit = time.monotonic() + START_SECONDS
        while STARTED not in (said := log.read_text(errors="replace")):
            if process.poll() is not None or time.monotonic() > limit:
                errors = [line.strip() for line in said.splitlines() if "Exception: " in line or "Error: " in line]
                why = errors[-1].rstrip(".") if errors else f"nothing in {START_SECONDS:.0f} s"
                raise NoCluster(
                    f"Ray did not start here: {why}. Try again (a machine under load may be too slow for it); all "
                    f"output is in {log}"
                )
            time.sleep(0.1)
    except BaseException:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise
    return KeptCluster(
        address=f"127.0.0.1:{ports['port']}",
        dashboard=f"http://127.0.0.1:{ports['dashboard-port']}",
        folder=folder,
        process=replace(this_process(), pid=process.pid, started=started(process.pid)),
    )


def end_cluster(kept: KeptCluster) -> None:
    """End the cluster with everything on it. Ray gives running tasks some seconds to end."""
    for number, patience in ((signal.SIGTERM, END_SECONDS), (signal.SIGKILL, END_SECONDS)):
        if kept.process.is_gone():
            break
        with suppress(ProcessLookupError):
            os.killpg(kept.process.pid, number)
        limit = time.monotonic() + patience
        while not kept.process.is_gone() and time.monotonic() < limit:
            time.sleep(0.1)
    shutil.rmtree(kept.folder, ignore_errors=True)
    _note().unlink(missing_ok=True)


def _note() -> Path:
    """Return the file that notes the cluster."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state"
    return Path(state, "marin/cluster.json")
