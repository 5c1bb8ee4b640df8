"""Test ``marin cluster`` with a cluster on this machine, and the commands that describe it."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
from pathlib import Path

import pytest

from marin.cli.exits import Exit
from tests.support.clusters import free_ports
from tests.support.project import MARIN, Project

pytestmark = pytest.mark.slow


def test_a_cluster_is_kept_asked_and_ended(tmp_path: Path) -> None:
    """A second start leaves a starting cluster alone, and nothing of Ray answers after the end.

    The printed address takes drivers and steps without another variable.
    """
    unset = {"RAY_ADDRESS", "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH", "XDG_STATE_HOME"}
    environment = {name: value for name, value in os.environ.items() if name not in unset} | {"HOME": str(tmp_path)}
    (port,) = free_ports(1)

    def marin(*arguments: str, expect: Exit = Exit.OK) -> str:
        done = subprocess.run(
            [MARIN, "cluster", *arguments], env=environment, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == expect, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done.stdout + done.stderr

    assert "no cluster is named" in marin("status", expect=Exit.FAILED)
    try:
        up = [[MARIN, "cluster", "up", "--cpus", "2", *more] for more in ([], ["--dashboard-port", str(port)])]
        both = [subprocess.Popen(each, env=environment, stdout=subprocess.PIPE, text=True) for each in reversed(up)]
        addresses = {re.findall(r"Ray cluster at (\S+)", each.communicate(timeout=300)[0])[0] for each in both}
        assert len(addresses) == 1  # two starts at once give one cluster
        [address] = addresses
        said = marin("down")
        assert f"ended the Ray cluster at {address}" in said
        said = marin("up", "--cpus", "2", "--dashboard-port", str(port))
        assert f"Ray dashboard: http://127.0.0.1:{port}" in said
        token = tmp_path / ".ray/auth_token"
        assert oct(token.stat().st_mode)[-3:] == "600"
        assert token.read_text().strip() not in said
        assert "the cluster of an earlier `marin cluster up` still runs" in marin("up")
        held = json.loads(marin("status", "--json"))
        assert held["dashboard"] == f"http://127.0.0.1:{port}"
        assert [node["resources"]["CPU"] for node in held["nodes"]] == [2]
        assert (held["tasks"], held["jobs"]) == ([], [])
        assert "127.0.0.1 (head)  alive  0/2 CPU" in marin("status")
        assert "nothing was submitted" in marin("jobs")
        assert marin("dashboard").startswith(f"http://127.0.0.1:{port}")
        [address] = re.findall(r"Ray cluster at (\S+)", said)
        assert "127.0.0.1 (head)  alive" in marin("status", "--address", address)
        kept = json.loads((tmp_path / ".local/state/marin/cluster.json").read_text())
        assert oct(os.stat(kept["folder"]).st_mode)[-3:] == "700"  # Ray opens its own folder inside
        project = Project(tmp_path / "project")
        command = project.command("--address", address, backend="ray")
        found = {"PYTHONPATH": project.environment()["PYTHONPATH"], "COLUMNS": "200"}
        done = subprocess.run(command, env=environment | found, capture_output=True, text=True, check=False)
        assert "2 ran" in done.stdout, done.stdout + done.stderr
    finally:
        said = marin("down")
    assert "ended the Ray cluster" in said
    with socket.socket() as tried:
        assert tried.connect_ex(("127.0.0.1", port)) != 0
    assert "no cluster of `marin cluster up` runs" in marin("down")
