"""Test the variables and file names that count in no output, and the ones that a project adds."""

from pathlib import Path

import pytest

from tests.fingerprint.test_kept import HEAD
from tests.fingerprint.test_observed import TAIL, run, stopped
from tests.support.project import Project

STEPS = """
class Read(ExecutorStep[Blob], op="read"):
    def run(self, ctx: Context) -> Blob:
        asked = [os.environ.get("SLURM_JOB_ID"), os.environ["HF_HOME"] if "HF_HOME" in os.environ else ""]
        asked += [os.environ.get("LAB_USER"), os.environ.get("SLURM_ARRAY_TASK_ID")]
        ctx.out.write_text("text.txt", str(asked))
        return Blob(bytes=1)


class Look(ExecutorStep[Blob], op="look"):
    pattern: str

    def run(self, ctx: Context) -> Blob:
        found = os.listdir("data") if self.pattern == "" else glob.glob("data/" + self.pattern)
        ctx.out.write_text("text.txt", str(len(found)))
        return Blob(bytes=1)


"""
RESULTS = {
    "task": 'Read(label="task")',
    "all": 'Look(pattern="", label="all")',
    "logs": 'Look(pattern="*.log", label="logs")',
}
CONFIG = '[tool.marin]\nignored-variables = ["LAB_*"]\nignored-names = ["*.bak"]\n'


@pytest.fixture
def project(tmp_path: Path) -> Project:
    results = ", ".join(f'"{name}": {made}' for name, made in RESULTS.items())
    made = Project(tmp_path / "project", HEAD.format(imports="import glob, os") + STEPS + TAIL.format(results=results))
    (made.folder / "data").mkdir()
    (made.folder / "data/a.txt").write_text("")
    (made.folder / "data/a.bak").write_text("")
    run(made, expect=0)
    return made


def test_where_it_runs_and_what_comes_and_goes_is_no_drift(project: Project) -> None:
    (project.folder / "data/train.log").write_text("")
    (project.folder / "data/a.txt.swp").write_text("")
    where = {"SLURM_JOB_ID": "7", "HF_HOME": "/models", "WANDB_MODE": "offline"}
    assert stopped(run(project, "--dry-run", expect=3, **where)) == ["look/logs"]  # which asks for logs
    (project.folder / "data/train.log").unlink()
    assert stopped(run(project, "--dry-run", expect=3, SLURM_ARRAY_TASK_ID="1")) == ["read/task"]


def test_what_a_project_ignores(project: Project) -> None:
    assert stopped(run(project, "--dry-run", expect=3, LAB_USER="ada")) == ["read/task"]
    config = project.folder / "pyproject.toml"
    config.write_text(CONFIG)
    assert "3 cached" in run(project, "--dry-run", expect=0, LAB_USER="ada")  # also in earlier listings
    (project.folder / "data/b.bak").write_text("")
    run(project, "--rebuild", "look/all", expect=0)
    (project.folder / "data/c.bak").write_text("")
    assert "3 cached" in run(project, "--dry-run", expect=0)
    config.write_text(CONFIG.replace("ignored-names", "ignored-files"))
    assert "[tool.marin] has 'ignored-files'; known are" in run(project, "--dry-run", expect=4)


def test_a_young_project_may_have_drift_rebuilt_without_asking(project: Project) -> None:
    (project.folder / "data/b.txt").write_text("")
    run(project, "--dry-run", expect=3)
    config = project.folder / "pyproject.toml"
    config.write_text('[tool.marin]\non_drift = "rebuild"\n')
    planned = run(project, "--dry-run", expect=0)
    assert f'note: {config} says on_drift = "rebuild": drifted outputs are rebuilt' in planned
    assert "1 run" in planned
    assert "1 run" in project.marin("plan")
    run(project, "--dry-run", "--on-drift", "stop", expect=3)
    run(project, expect=0)
    assert "3 cached" in run(project, "--dry-run", expect=0)
    config.write_text('[tool.marin]\non_drift = "accept"\n')
    assert "[tool.marin] on_drift is 'accept'; wanted stop or rebuild" in run(project, "--dry-run", expect=4)
