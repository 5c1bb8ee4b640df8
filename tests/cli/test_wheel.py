"""A project needs only the wheel, installed in its own environment beside this environment's packages."""

import json
import os
import re
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from marin.cli.commands import LINES
from marin.cli.new import FILES, project_files
from tests.cli.test_extras import BLOCKER, OPTIONAL
from tests.support.new_project import told
from tests.support.project import ROOT

DECOYS = ("experiments", "datasets")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    [built] = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the scripts of an environment with the wheel. It sees this one's packages, but not this one's marin."""
    folder = tmp_path_factory.mktemp("installed") / "env"
    venv.create(folder, symlinks=True)
    purelib = sysconfig.get_path("purelib", "venv", {"base": str(folder), "platbase": str(folder)})
    scripts = folder / "bin"
    install = [sys.executable, "-m", "uv", "pip", "install", "-q", "--no-deps", "--offline", "--python", str(folder)]
    done = subprocess.run([*install, str(wheel)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    # A line of a .pth file adds a folder without its .pth files. One of those files is our editable install.
    Path(purelib, "beside.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return scripts


def test_every_name_that_it_installs_is_a_folder_of_the_tree(wheel: Path) -> None:
    names = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {name for name in names if not name.endswith(".dist-info")} == {"marin", "operators", "infra"}


def test_it_holds_every_file_that_is_no_module(wheel: Path) -> None:
    inside = set(zipfile.ZipFile(wheel).namelist())
    data = [
        path
        for path in (ROOT / "marin").rglob("*")
        if path.suffix in (".css", ".js", ".html", ".svg", ".j2", ".LICENSE")
    ]
    assert any(path.suffix == ".css" for path in data)
    wanted = {str(path.relative_to(ROOT)) for path in data}
    wanted |= {str((FILES / name).relative_to(ROOT)) for name in project_files()}
    assert wanted - inside == set()
    assert not [name for name in inside if "__pycache__" in name or ".ruff_cache" in name]


@pytest.mark.timeout(1800)
def test_plain_pip_finds_versions_that_fit(wheel: Path, tmp_path: Path) -> None:
    """A new environment's pip cannot go back from one package's newest version to fit another's older version."""
    venv.create(tmp_path / "env", symlinks=True, with_pip=True)
    report = tmp_path / "report.json"
    install = [str(tmp_path / "env/bin/python"), "-m", "pip", "install", "--dry-run", "-q", "--report", str(report)]
    done = subprocess.run([*install, f"marin[run] @ file://{wheel}"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    names = {each["metadata"]["name"] for each in json.loads(report.read_text())["install"]}
    assert {"marin", "ray", "marin-levanter", "lm_eval", "gcsfs"} <= names


def test_a_project_is_made_and_planned_from_it_among_packages_of_those_names(installed: Path, tmp_path: Path) -> None:
    for decoy in DECOYS:
        (tmp_path / decoy).mkdir()
        (tmp_path / decoy / "__init__.py").write_text("raise RuntimeError('somebody else s')\n")
    python = str(installed / "python")
    where = told(tmp_path, python, "-c", "import marin, operators; print(marin.__path__, operators.__path__)")
    assert str(ROOT) not in where
    assert where.count(str(installed.parent)) == 2
    for way in ([str(installed / "marin")], [python, "-m", "marin"]):
        name = f"study{len(way)}"
        said = told(tmp_path, *way, "new", name)
        [_, run] = re.findall(r"^next: (.*)$", said, re.MULTILINE)
        project = tmp_path / name
        for decoy in DECOYS:
            (project / decoy).symlink_to(tmp_path / decoy)
        shell = ["bash", "-c", f"{run} --dry-run"]
        assert "13 steps: 13 run" in told(project, *shell, PATH=os.defpath)
        assert "exp2_more.py" in told(project, *way, "new", "experiment", "more")
        assert "run  sweep/more" in " ".join(told(project, *way, "plan", "exp2_more.py").split(" "))


def test_a_project_is_planned_with_the_light_install(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(BLOCKER)
    told(tmp_path, str(installed / "marin"), "new", "study")
    light = {"PYTHONPATH": str(tmp_path), "BLOCKED": ",".join(OPTIONAL)}
    for command in ("run", "plan", "diff"):
        more = {"run": ("--dry-run",), "plan": ("text-files/own",), "diff": ("exp1_filter.py",)}[command]
        told(tmp_path / "study", str(installed / "marin"), command, "exp1_filter.py", *more, **light)


def test_its_command_has_every_command(installed: Path, tmp_path: Path) -> None:
    shown = told(tmp_path, str(installed / "marin"), "--help")
    assert [name for name in LINES if f"  {name} " not in shown] == []
