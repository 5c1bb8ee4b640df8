"""marin follows the habits of other tools: it runs as a module, reads their variables and logs like them."""

import logging
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from marin.cli.exits import Exit
from marin.store.files.checksums import cache_folder
from tests.operators.servers import HubServer, serving
from tests.support.project import ROOT, Project

MARIN = Path(sys.executable).with_name("marin")
LINE = re.compile(r"\d\d:\d\d:\d\d\.\d{3} (DEBUG|INFO) (marin\.[\w.]+): .")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "project")


def ended(project: Project, *command: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    told = {**project.environment(), **environment}
    return subprocess.run(command, cwd=project.folder, env=told, capture_output=True, text=True, check=False)


def test_the_module_is_the_command(project: Project) -> None:
    module = (sys.executable, "-m", "marin")
    assert ended(project, *module, "--version").stdout == ended(project, MARIN, "--version").stdout
    for asked in (("--help",), ("plan", "--help"), ("plan", "exp1_toy.py"), ("plan", "exp2.py"), ("paln",)):
        one, other = ended(project, *module, *asked), ended(project, MARIN, *asked)
        assert (one.returncode, one.stdout, one.stderr) == (other.returncode, other.stdout, other.stderr)


def run_inline(project: Project, **environment: str) -> tuple[str, list[str]]:
    """Return the text on stdout, and the lines on stderr."""
    done = ended(project, *project.command(), **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr.splitlines()


def test_nothing_is_logged_unless_asked_for_and_then_on_stderr(project: Project) -> None:
    assert run_inline(project)[1] == []
    shown, lines = run_inline(project, MARIN_LOG="debug")
    assert "2 steps: 2 cached" in shown
    assert all(map(LINE.match, lines))
    assert any("marin.plan.plan: planned 2 steps" in line for line in lines)


def test_a_level_leaves_out_what_is_below_it(project: Project) -> None:
    said = "\n".join(run_inline(project, MARIN_LOG="INFO")[1])
    assert "planned 2 steps" in said
    assert "DEBUG" not in said
    assert "marin.executor.attempt: say/say" in "\n".join(
        ended(project, *project.command("--rebuild", "say"), MARIN_LOG="debug").stderr.splitlines()
    )


def test_a_level_that_there_is_not_is_wrong_usage(project: Project) -> None:
    done = ended(project, *project.command(), MARIN_LOG="loud")
    assert done.returncode == Exit.USAGE
    assert "MARIN_LOG is 'loud'; wanted debug, info, warning, error" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_log_of_a_step_on_ray_holds_what_its_attempt_logs(project: Project) -> None:
    done = ended(project, *project.command(backend="ray"), MARIN_LOG="debug")
    assert done.returncode == 0, done.stderr
    assert re.search(r"marin\.executor\.backends\.private_ray: Ray answers at 127\.0\.0\.1", done.stderr)
    [log] = (project.store / "say").glob("*/.marin/log.txt")
    assert "DEBUG marin.executor.attempt: say/say: run() took" in log.read_text()


def test_a_secret_in_what_is_logged_is_hidden(project: Project) -> None:
    source = project.file.read_text()
    logs = 'import logging, os; logging.getLogger("marin.lab").info("with %s", os.environ["LAB_TOKEN"])'
    project.file.write_text(source.replace("    say = Say(", f"    {logs}\n    say = Say("))
    _, lines = run_inline(project, MARIN_LOG="info", LAB_TOKEN="as-nobody-guesses")
    assert "INFO marin.lab: with ***" in "\n".join(lines)


def test_as_a_library_it_logs_like_one(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    """marin as a library logs everything that the program asks for, and adds no handler."""
    from tests.support.toy import Write, planned

    with caplog.at_level(logging.INFO, logger="marin.plan"):
        planned(str(tmp_path / "store"), a=Write(text="hello"))
    assert [record.name for record in caplog.records] == ["marin.plan.plan"]
    assert logging.getLogger("marin").handlers == []


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"MARIN_CACHE": "/here", "XDG_CACHE_HOME": "/there"}, "/here"),
        ({"XDG_CACHE_HOME": "/there"}, "/there/marin"),
        ({"XDG_CACHE_HOME": "relative"}, None),  # the specification says to ignore it
        ({"XDG_CACHE_HOME": ""}, None),
        ({}, None),
    ],
)
def test_copies_lie_where_caches_lie(
    variables: dict[str, str], expected: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("MARIN_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert str(cache_folder()) == (expected or f"{tmp_path}/marin-cache-{os.getuid()}")


def test_a_dashboard_in_ray_address_is_told_from_a_cluster(project: Project) -> None:
    done = ended(project, *project.command(backend="ray"), RAY_ADDRESS="http://127.0.0.1:8265")
    assert done.returncode == Exit.FAILED
    assert "http://127.0.0.1:8265 (RAY_ADDRESS) is a dashboard" in done.stderr
    assert "wanted HOST:PORT" in done.stderr


@pytest.mark.parametrize("value", ["", "local"])
def test_an_empty_or_local_ray_address_is_a_ray_of_this_run(project: Project, value: str) -> None:
    done = ended(project, *project.command("--dry-run", backend="ray"), RAY_ADDRESS=value)
    assert done.returncode == 0
    assert "RAY_ADDRESS" not in done.stdout


COMMIT = "0123456789abcdef0123456789abcdef01234567"
PRIVATE = f"""
'Does a private dataset come?'
from marin import Experiment, executor_main
from operators.download import HuggingFace


def build(scale):
    files = HuggingFace(repo="lab/private", revision="{COMMIT}", label="private")
    return Experiment(issue=1, question=__doc__, results={{"files": files}})


if __name__ == "__main__":
    executor_main(build)
"""


def test_hf_token_opens_a_private_dataset_and_stays_out_of_the_store(tmp_path: Path) -> None:
    project = Project(tmp_path / "project", PRIVATE)
    token = "as-nobody-guesses"  # of no known shape
    served = {"large": frozenset(), "lies": frozenset(), "gated": frozenset(), "files": {"a.txt": b"private"}}
    with serving(HubServer, repo="lab/private", revision=COMMIT, token=token, **served) as base:
        asked = {"HF_ENDPOINT": base, "HF_HUB_DISABLE_TELEMETRY": "1", "HF_HOME": str(tmp_path / "home")}
        without = ended(project, *project.command(), **asked)
        assert without.returncode == Exit.FAILED
        assert "lab/private does not exist on the hub, or this account cannot see it" in without.stdout, without.stdout
        done = ended(project, *project.command("--logs"), **asked, HF_TOKEN=token, MARIN_LOG="debug")
    assert done.returncode == 0, done.stdout
    [file] = (project.store / "download-hf").glob("*/a.txt")
    assert file.read_bytes() == b"private"
    assert token not in done.stdout + done.stderr
    kept = [path for path in project.store.rglob("*") if path.is_file()]
    assert [path for path in kept if token.encode() in path.read_bytes()] == []


def test_the_page_of_variables_names_each_of_ours_and_no_other() -> None:
    sources = [ROOT / "py", *(ROOT / "marin").rglob("*.py")]
    page = (ROOT / "docs/reference/environment.md").read_text()
    ours = {name for path in sources for name in re.findall(r"\b(MARIN_[A-Z_]+)\b", path.read_text())}
    assert ours == set(re.findall(r"\b(MARIN_[A-Z_]+)\b", page))
