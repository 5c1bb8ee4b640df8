"""Test the choice of a run's Ray cluster, access to the cluster, and the cluster's view of the run."""

from __future__ import annotations

import ipaddress
import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import psutil
import pytest

from tests.support.clusters import RAY, RayCluster, end, free_ports
from tests.support.project import ROOT, Project, gated, wait_for
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.slow


def started(project: Project, environment: dict[str, str], *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(project.file), "--prefix", str(project.store), *arguments],
        env={**environment, "PYTHONPATH": str(ROOT)},
        cwd=project.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def without_ray(home: Path) -> dict[str, str]:
    """Return the environment of a user who never heard of Ray."""
    home.mkdir(exist_ok=True)
    return {**{name: held for name, held in os.environ.items() if not name.startswith("RAY_")}, "HOME": str(home)}


def ray(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [RAY, *arguments], env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE
    )


def tasks(environment: dict[str, str], dashboard: str) -> list[dict[str, str]]:
    listed = ray(environment, "list", "tasks", "--address", dashboard, "--format", "json")
    assert listed.returncode == 0, listed.stderr
    return json.loads(listed.stdout)


def test_a_private_cluster_listens_on_loopback_wants_its_token_and_shows_steps_by_name(tmp_path: Path) -> None:
    project, gate = gated(tmp_path)
    environment = without_ray(tmp_path / "home")
    driver = started(project, environment)
    try:
        wait_for(Path(f"{gate}.started"))
        assert driver.stdout is not None
        said = ""
        while "Ray dashboard" not in said:
            said += driver.stdout.readline()
        printed = re.search(r"Ray dashboard: (http://\S+) · its token is in (\S+)", said)
        assert printed is not None, said
        dashboard, token = printed[1], Path(printed[2])
        processes = [psutil.Process(driver.pid), *psutil.Process(driver.pid).children(recursive=True)]
        listening = {
            (process.name(), socket.laddr.ip)  # pyright: ignore[reportUnknownMemberType, reportAttributeAccessIssue]
            for process in processes
            for socket in process.net_connections(kind="inet")
            if socket.status == psutil.CONN_LISTEN
        }
        assert len(listening) > 3
        assert [held for held in listening if not is_loopback(held[1])] == []

        assert oct(token.stat().st_mode)[-3:] == "600"
        secret = token.read_text()
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(f"{dashboard}/api/jobs/", timeout=30)
        submitted = ray(environment, "job", "submit", "--address", dashboard, "--", "touch", str(tmp_path / "owned"))
        assert submitted.returncode != 0
        assert "401" in submitted.stdout + submitted.stderr or "oken" in submitted.stdout + submitted.stderr
        let_in = {**environment, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token)}
        assert [task["state"] for task in tasks(let_in, dashboard) if task["name"] == "say/say"] == ["RUNNING"]
        for process in processes:
            assert secret not in " ".join(process.cmdline())
        gate.touch()
        rest, _ = driver.communicate(timeout=PATIENCE)
        assert driver.returncode == 0, said + rest
        assert secret not in said + rest
        for path in project.store.rglob("*"):
            assert not path.is_file() or secret.encode() not in path.read_bytes(), path
        assert not token.exists()
        assert list((tmp_path / "home").rglob("*token*")) == []
        assert not (tmp_path / "owned").exists()
    finally:
        gate.touch()
        if driver.poll() is None:
            end([psutil.Process(driver.pid)])
        driver.communicate()


def is_loopback(host: str) -> bool:
    address = ipaddress.ip_address(host)
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


def test_a_run_goes_to_the_cluster_of_ray_address_and_its_steps_are_listed_there(
    cluster: RayCluster, tmp_path: Path
) -> None:
    project = Project(tmp_path / "project")
    driver = started(project, {**cluster.environment, "RAY_ADDRESS": cluster.address})
    said, _ = driver.communicate(timeout=PATIENCE)
    assert driver.returncode == 0, said
    assert f"Ray cluster at {cluster.address} (RAY_ADDRESS)" in said
    assert f"Ray dashboard: {cluster.dashboard}" in said
    assert cluster.environment["RAY_AUTH_TOKEN"] not in said
    names = [task["name"] for task in tasks(cluster.environment, cluster.dashboard)]
    assert {"say/say", "repeat/repeat"} <= set(names)


def test_the_address_of_the_command_line_goes_before_ray_address(cluster: RayCluster, tmp_path: Path) -> None:
    project = Project(tmp_path / "project")
    environment = {**cluster.environment, "RAY_ADDRESS": "127.0.0.1:1"}
    driver = started(project, environment, "--address", cluster.address, "--dry-run")
    said, _ = driver.communicate(timeout=PATIENCE)
    assert f"Ray cluster at {cluster.address} (--address)" in said


def test_a_submitted_job_runs_on_the_cluster_that_it_was_submitted_to(cluster: RayCluster, tmp_path: Path) -> None:
    """The job has its own PYTHONPATH, which marin's must not replace."""
    project = Project(tmp_path / "project")
    runtime = json.dumps({"env_vars": {"PYTHONPATH": str(ROOT)}})
    job = f"{sys.executable} {project.file} --prefix {project.store}"
    done = ray(
        cluster.environment,
        *("job", "submit", "--address", cluster.dashboard, "--runtime-env-json", runtime, "--", *job.split()),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"Ray cluster at \S+ \(RAY_ADDRESS\)", done.stdout), done.stdout
    assert project.ran() == ["say/say", "repeat/repeat"]


@pytest.mark.parametrize("wrong", ["nonsense", "nobody", "silent", "token"])
def test_an_address_that_is_no_cluster_of_ours_is_refused_within_seconds(
    cluster: RayCluster, tmp_path: Path, wrong: str
) -> None:
    project = Project(tmp_path / "project")
    environment = dict(cluster.environment)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = {
            "nonsense": "nonsense",
            "nobody": f"127.0.0.1:{free_ports(1)[0]}",
            "silent": f"127.0.0.1:{silent.getsockname()[1]}",
            "token": cluster.address,
        }[wrong]
        if wrong == "token":
            environment["RAY_AUTH_TOKEN"] = "0" * 64
        began = time.monotonic()
        driver = started(project, environment, "--address", address)
        said, _ = driver.communicate(timeout=PATIENCE)
    assert driver.returncode == 1, said
    assert time.monotonic() - began < 60  # mostly for Ray's import on a machine under load
    expected = {
        "nonsense": "wanted HOST:PORT",
        "nobody": "Connection refused",
        "silent": "the server is no Ray",
        "token": "does not accept the token that Ray has here",
    }[wrong]
    assert ("TokenRefused: " if wrong == "token" else "NoCluster: ") in said
    assert address in said
    assert expected in said
    assert "Give another --address" in said
    assert "Traceback" not in said
    assert "gcs_client.cc" not in said
