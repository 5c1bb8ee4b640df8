"""Test ``marin submit``, which runs an experiment's driver on a cluster."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from marin.cli.exits import Exit
from marin.store.inventory import Inventory
from marin.store.store import open_store
from tests.support.clusters import RayCluster
from tests.support.project import EXPERIMENT, MARIN, ROOT, SLOW_STEP, Project, wait_for
from tests.support.waiting import PATIENCE

OWN_BLOB = "from marin import Artifact\n\n\nclass Blob(Artifact, kind='sent-blob'):\n    bytes: int\n"


def alone(folder: Path, experiment: str = EXPERIMENT) -> Project:
    """Make a project in a checkout that needs nothing but marin."""
    project = Project(folder, experiment.replace("from tests.support.toy import Blob\n", OWN_BLOB))
    (folder / ".gitignore").write_text("store\n")
    for command in (["init", "-q"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "a"]):
        subprocess.run(["git", "-C", str(folder), *command], check=True)
    return project


def submit(project: Project, cluster: RayCluster, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [MARIN, "submit", project.file.name, "--address", cluster.dashboard, "--python", sys.executable, *arguments],
        env=outside(cluster.environment),
        cwd=project.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def outside(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name != "PYTHONPATH"}


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    said, _ = process.communicate(timeout=PATIENCE)
    return process.returncode, said


@pytest.mark.slow
def test_a_submitted_experiment_makes_what_it_makes_here_and_finds_it_there_again(
    cluster: RayCluster, tmp_path: Path
) -> None:
    project = alone(tmp_path / "project")
    code, said = ended(submit(project, cluster))
    assert code == 0, said
    name = re.search(r"submitted (exp1_toy-rehearsal-\S+) to", said)
    assert name is not None, said
    assert f"{cluster.dashboard}/#/jobs/{name[1]}" in said
    assert "next: " in said  # the driver's last line
    assert cluster.environment["RAY_AUTH_TOKEN"] not in said
    assert project.ran() == ["say/say", "repeat/repeat"]
    (page,) = (project.store / ".marin/pages").iterdir()
    assert f'<a href="{cluster.dashboard}">' in page.read_text()
    store = open_store(str(project.store))
    assert {record.provenance.git for record in Inventory(store).records.values()} == {head(project.folder)}
    assert "2 cached" in project.run("--dry-run")  # the same identities, and code fingerprints, as here
    other = project.run("--prefix", str(tmp_path / "here"))
    assert "2 ran" in other
    code, said = ended(submit(project, cluster, f"--prefix={tmp_path / 'here'}"))
    assert code == 0, said
    assert "2 cached" in said
    listed = subprocess.run(
        [MARIN, "cluster", "jobs", "--json", "--address", cluster.address],
        env=cluster.environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    job = next(job for job in json.loads(listed.stdout) if job["name"] == name[1])
    assert (job["status"], job["metadata"]["experiment"]) == ("SUCCEEDED", "exp1_toy")


def head(folder: Path) -> str:
    done = subprocess.run(["git", "-C", str(folder), "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.slow
def test_ctrl_c_leaves_the_job_a_second_one_makes_no_step_twice_and_a_killed_driver_is_started_again(
    cluster: RayCluster, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    project = alone(tmp_path / "project", SLOW_STEP.replace("class Say", f"GATE = {str(gate)!r}\n\n\nclass Say"))
    first = submit(project, cluster)
    wait_for(Path(f"{gate}.started"))
    first.send_signal(signal.SIGINT)
    code, said = ended(first)
    assert code == Exit.INTERRUPTED, said
    stop = re.search(r"marin cluster jobs --stop (\S+) --address (\S+)", said)
    assert stop is not None, said
    assert f"marin cluster logs -f {stop[1]}" in said
    held = project.started([MARIN, "status", "--prefix", str(project.store)])
    assert f"exp1_toy rehearsal: Ray dashboard: {cluster.dashboard}" in held.said

    second = submit(project, cluster)
    code, said = marin(cluster, "jobs", "--stop", stop[1], "--address", stop[2])
    assert code == 0, said
    gate.touch()
    code, said = ended(second)
    assert code == 0, said
    assert project.ran() == ["say/say", "repeat/repeat"]
    code, said = marin(cluster, "logs", stop[1], "--address", stop[2])
    assert "exp1_toy · rehearsal" in said
    code, said = marin(cluster, "logs", "exp1_tou", "--address", stop[2])
    assert code == Exit.EXPERIMENT
    assert "no job 'exp1_tou'" in said


def marin(cluster: RayCluster, *arguments: str) -> tuple[int, str]:
    done = subprocess.run(
        [MARIN, "cluster", *arguments],
        env=cluster.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout


@pytest.mark.slow
def test_a_cluster_that_does_not_let_us_in_says_what_is_missing(cluster: RayCluster, tmp_path: Path) -> None:
    project = alone(tmp_path / "project")
    nobody = {name: value for name, value in cluster.environment.items() if not name.startswith("RAY_AUTH")}
    without = RayCluster(
        address=cluster.address,
        dashboard=cluster.dashboard,
        environment={**nobody, "HOME": str(tmp_path)},
        process=cluster.process,
    )
    code, said = ended(submit(project, without))
    assert code == Exit.FAILED, said
    assert "wants a token, and Ray has none here. Set RAY_AUTH_MODE=token" in said
    assert "Traceback" not in said


@pytest.mark.parametrize("address", ["127.0.0.1:99999", "http://127.0.0.1:99999", "ftp://127.0.0.1:1", "banana"])
def test_what_is_no_address_is_refused(tmp_path: Path, address: str) -> None:
    project = alone(tmp_path / "project")
    done = project.started([MARIN, "submit", str(project.file), "--address", address], cwd=project.folder)
    assert done.code == Exit.FAILED
    assert f"NoCluster: {address} (--address) is no address" in done.said
    assert "Traceback" not in done.said


@pytest.mark.parametrize("address", ["127.0.0.1:1", "http://127.0.0.1:1"])
def test_an_address_that_does_not_answer_is_refused(tmp_path: Path, address: str) -> None:
    project = alone(tmp_path / "project")
    done = project.started([MARIN, "submit", str(project.file), "--address", address], cwd=project.folder)
    assert done.code == Exit.FAILED
    assert f"no Ray cluster at {address} (--address): nothing answers there (Connection refused)" in done.said


def test_what_cannot_be_submitted_is_refused_before_a_cluster_is_asked(tmp_path: Path) -> None:
    project = alone(tmp_path / "project")
    unnamed = {name: "" for name in os.environ if name == "RAY_ADDRESS"}

    def said(*arguments: str, expect: Exit) -> str:
        done = project.started([MARIN, "submit", *arguments], cwd=project.folder, environment=unnamed)
        assert done.code == expect, done.said
        return done.said

    assert "is a folder; wanted an experiment file" in said(".", expect=Exit.EXPERIMENT)
    assert "no cluster is named: give --address" in said("exp1_toy.py", expect=Exit.FAILED)
    assert "is not in" in said(str(project.file), "--folder", str(ROOT / "docs"), expect=Exit.EXPERIMENT)
    assert "use `marin run`" in said("exp1_toy.py", "--backend", "inline", expect=Exit.EXPERIMENT)
    assert "--only zzz: this experiment's results are end" in said(
        "exp1_toy.py", "--only", "zzz", expect=Exit.EXPERIMENT
    )
    assert "dry run: nothing was started" in said("exp1_toy.py", "--dry-run", expect=Exit.OK)
