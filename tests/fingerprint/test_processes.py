"""Test the engine as a user meets it: fresh processes, edited code, kill -9, two drivers at once."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from marin.store.store import Store
from tests.support.project import EXPERIMENT, Project, gated, wait_for
from tests.support.visible import visible


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "project")


def test_a_changed_helper_in_another_module_stops_the_run_and_names_it(tmp_path: Path) -> None:
    project = Project(tmp_path / "project", new_interpreters=True)
    project.run()
    assert project.ran() == ["say/say", "repeat/repeat"]
    project.edit("MARK * times", "MARK * times * 2")
    said = project.run(expect=3)
    assert "lib.words.ending changed" in said
    assert "--on-drift rebuild" in said
    assert "Nothing was started" in said
    project.run("--on-drift", "rebuild")
    assert project.ran() == ["say/say", "repeat/repeat"]
    project.run()


def test_an_edit_that_python_overlooks_is_said_and_nothing_is_made_by_the_old_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python uses old bytecode for a file with the same size and the same whole second of its time."""
    project = Project(tmp_path / "project", new_interpreters=True)
    keeps = {**project.environment(), "PYTHONPYCACHEPREFIX": str(project.folder / "compiled")}
    monkeypatch.setattr(project, "environment", lambda: keeps)
    second = project.words.stat().st_mtime_ns // 10**9 * 10**9
    os.utime(project.words, ns=(second, second))
    project.run()
    (bytecode,) = (project.folder / "compiled").rglob("lib/words.*.pyc")
    os.utime(bytecode, ns=(second + 1, second + 1))
    os.utime(project.words, ns=(second + 2, second + 2))  # touched, and otherwise the same
    assert "2 cached" in project.run()
    project.edit("MARK * times", "times * MARK")
    os.utime(project.words, ns=(second + 3, second + 3))
    said = project.run("--on-drift", "rebuild", expect=4)
    assert f"{project.words} was edited within the second in which Python compiled it" in said
    assert "so this process runs it as it was; start a new process" in said
    project.run("--on-drift", "rebuild")
    assert project.ran() == ["say/say"]


def test_a_run_refuses_a_patched_function_before_it_starts_and_a_dry_run_uses_the_files(project: Project) -> None:
    patched = EXPERIMENT.replace("from lib.words", "import lib.words\nfrom lib.words")
    begin = "def build(scale: Scale) -> Experiment:\n"
    project.file.write_text(patched.replace(begin, f"{begin}    lib.words.ending = lambda: '?'\n"))
    assert "2 run" in project.run("--dry-run")
    assert "lib.words.ending was replaced by" in project.run(expect=4)
    assert not project.store.exists()


def test_a_refactoring_with_the_same_bytes_reruns_only_its_own_step(project: Project) -> None:
    project.run()
    project.edit("MARK * times", "''.join([MARK] * times)")
    project.run("--on-drift", "rebuild")
    assert project.ran() == ["say/say"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"""Loud."""', '"""Louder."""'),
        ("def shout", "# a comment\n\n\ndef shout"),
        ("text: str) -> str", "text) -> object"),
        ("return 1", "return 2"),
    ],
)
def test_cosmetic_and_unrelated_changes_run_nothing(project: Project, old: str, new: str) -> None:
    project.run()
    project.edit(old, new)
    assert "2 cached" in project.run()


@pytest.mark.parametrize(("old", "new"), [('MARK = "!"', 'MARK = "?"'), ("times: int = 2", "times: int = 3")])
def test_constants_and_default_arguments_count(project: Project, old: str, new: str) -> None:
    project.run()
    project.edit(old, new)
    assert "lib.words" in project.run(expect=3)


def test_accepting_drift_needs_and_records_a_reason(project: Project) -> None:
    project.run()
    project.edit("MARK * times", "''.join([MARK] * times)")
    assert "--because" in project.run("--on-drift", "accept", expect=4)
    project.run("--on-drift", "accept", "--because", "a refactoring: same bytes")
    said = project.run()
    assert "a refactoring: same bytes" in said
    project.edit("MARK] * times", "MARK] * times * 2")
    project.run(expect=3)


def test_raising_the_version_makes_a_new_output_beside_the_old(project: Project) -> None:
    project.run()
    project.file.write_text(EXPERIMENT.replace('op="say"', 'op="say", version=2'))
    said = project.run()
    assert "version 1 → 2" in said
    assert len(list((project.store / "say").iterdir())) == 2


def test_dry_run_changes_nothing_and_starts_no_ray(project: Project) -> None:
    said = project.run("--dry-run", backend="ray")
    assert "nothing was started" in said
    assert not project.store.exists()


def test_a_cached_run_imports_no_ray(project: Project) -> None:
    project.run()
    script = (
        f"import sys, runpy; sys.argv=['x', '--prefix', {str(project.store)!r}]\n"
        f"try: runpy.run_path({str(project.file)!r}, run_name='__main__')\n"
        "except SystemExit as end: assert end.code == 0, end.code\n"
        "assert 'ray' not in sys.modules and 'jax' not in sys.modules"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], env=project.environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_kill_9_in_the_middle_leaves_nothing_visible_and_is_taken_over_at_once(tmp_path: Path) -> None:
    project, gate = gated(tmp_path)
    first = subprocess.Popen(project.command(), env=project.environment(), stdout=subprocess.DEVNULL)
    wait_for(Path(f"{gate}.started"))
    first.send_signal(signal.SIGKILL)
    first.wait()
    assert visible(Store(str(project.store))) == {}
    gate.touch()
    # The claim of a dead process on this host needs no expiry: the end of this run proves that.
    patient = "import marin.store.ends\nmarin.store.ends.EXPIRY = 86_400.0\nif __name__"
    project.file.write_text(project.file.read_text().replace("if __name__", patient))
    project.run()
    assert project.ran() == ["say/say", "repeat/repeat"]
    committed = next((project.store / "repeat").iterdir())
    assert not (committed / "half.txt").exists()


def test_two_drivers_at_once_run_each_step_once(tmp_path: Path) -> None:
    project, gate = gated(tmp_path)
    first = subprocess.Popen(project.command(), env=project.environment(), stdout=subprocess.DEVNULL)
    wait_for(Path(f"{gate}.started"))
    second = subprocess.Popen(
        project.command(), env=project.environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert second.stdout is not None
    said = ""
    while "held by" not in said:
        line = second.stdout.readline()
        assert line, f"the second driver ended: {said}"
        said += line
    gate.touch()
    rest, _ = second.communicate(timeout=60)
    assert first.wait(timeout=60) == 0
    assert second.returncode == 0, said + rest
    assert len(list((project.store / "say").iterdir())) == 1
    assert len(list((project.store / "repeat").iterdir())) == 1


def test_bad_prefixes_are_refused_before_anything_runs(project: Project, tmp_path: Path) -> None:
    def refused(prefix: str) -> str:
        command = [sys.executable, str(project.file), "--backend", "inline", "--prefix", prefix]
        done = subprocess.run(command, capture_output=True, text=True, env=project.environment(), check=False)
        assert done.returncode == 5, done.stdout + done.stderr
        return done.stderr

    assert "empty" in refused("")
    assert "does not exist" in refused(str(tmp_path / "missing/store"))
    (tmp_path / "file").write_text("x")
    assert "is a file" in refused(str(tmp_path / "file"))
    assert "conditional" in refused("ftp://host/store")


def test_exit_code_1_and_the_log_when_a_step_fails(project: Project) -> None:
    project.edit("return text.upper() + ending()", "raise RuntimeError(text)")
    said = project.run(expect=1)
    assert "RuntimeError: hello" in said
    assert "log.txt" in said
    assert textwrap.dedent("not run") in said


def test_code_that_changes_under_a_running_plan_is_not_committed(tmp_path: Path) -> None:
    """A worker that starts after an edit would read other code than the plan."""
    project = Project(tmp_path / "project")
    script = textwrap.dedent(
        """
        import sys
        from lib import operators
        from marin.executor.attempt import attempt
        from marin.executor.job import Job
        from marin.executor.backends.inline import map_here
        from marin.fingerprint.of_step import code_fingerprint
        step = operators.Say(text="hello")
        planned = sys.argv[2] or code_fingerprint(step).digest
        print(planned)
        job = Job(prefix=sys.argv[1], step=step, code=planned, packages={}, outside={}, inputs={}, replaces="")
        print(attempt(job, map_here).error)
        """
    )
    (project.folder / "lib/operators.py").write_text(EXPERIMENT.split("class Repeat")[0])

    def worker(store: Path, planned: str) -> list[str]:
        command = [sys.executable, "-c", script, str(store), planned]
        done = subprocess.run(command, env=project.environment(), capture_output=True, text=True, check=True)
        return done.stdout.splitlines()

    planned, error = worker(project.store, "")
    assert error == ""
    project.edit("MARK * times", "MARK * times * 2")
    other = project.folder / "other-store"
    _, error = worker(other, planned)
    assert "changed between planning and running" in error
    assert visible(Store(str(other))) == {}


def test_brackets_in_a_label_and_in_the_prefix_are_printed_as_they_are(tmp_path: Path) -> None:
    project = Project(tmp_path / "[bold]project", EXPERIMENT.replace('label="say"', 'label="[red]say"'))
    project.edit("return text.upper() + ending()", "raise RuntimeError(text)")
    said = project.run(expect=1)
    assert "say/[red]say" in said
    assert "[bold]project/store" in said.replace("\n", "")
