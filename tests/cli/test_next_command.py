"""A user can type every ``next:`` line of a command as printed, in the same folder."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from marin.report.typed import marin as command
from marin.store.store import Store
from tests.support.project import EXPERIMENT, Project
from tests.support.visible import visible

FAILING = (
    EXPERIMENT.replace(
        '        ctx.out.write_text("text.txt", shout(self.text))',
        '        if not __import__("os").path.exists("mended"):\n            raise ValueError("not yet")\n'
        '        ctx.out.write_text("text.txt", shout(self.text))',
    )
    .replace('label="say"', 'label="say it\'s; $HOME"')
    .replace('results={"end": ', 'results={"other": Say(text="others", label="other"), "it\'s the end": ')
)
MARIN = str(Path(sys.executable).with_name("marin"))


def typed(line: str, project: Project, folder: Path) -> str:
    """Run a line in a shell without this environment, and return its output."""
    environment = {**project.environment(), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        ["bash", "-c", line], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, (line, done.stdout + done.stderr)
    return done.stdout + done.stderr


def nexts(said: str) -> list[str]:
    return re.findall(r"^next: (.*)$", said, re.MULTILINE)


@pytest.mark.parametrize("way", ["file", "module", "marin"])
@pytest.mark.parametrize("prefix", ["store", "another store"])
def test_after_a_failure_its_log_and_the_same_command(tmp_path: Path, way: str, prefix: str) -> None:
    project = Project(tmp_path / "pro ject", FAILING)
    folder = project.folder
    program = {
        "file": [sys.executable, "exp1_toy.py"],
        "module": [sys.executable, "-m", "marin", "run", "exp1_toy.py"],
        "marin": [MARIN, "run", "exp1_toy.py"],
    }[way]
    asked = [*program, "--backend", "inline", "--only", "it's the end", "--prefix", prefix]
    asked = asked if prefix != "store" else asked[:-2]
    done = subprocess.run(asked, cwd=folder, env=project.environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    log, again = nexts(done.stdout)
    assert "not yet" in typed(log, project, folder)
    (folder / "mended").touch()
    said = typed(again, project, folder)
    assert "2 ran" in said, "the step that failed and what reads it, and no other result"
    assert len(list((folder / prefix / "say").iterdir())) == 2
    [look] = nexts(said)
    assert "HELLO" in typed(look, project, folder)


def test_of_two_outputs_with_one_name_the_one_that_was_made(tmp_path: Path) -> None:
    project = Project(tmp_path / "project")
    project.run()
    project.file.write_text(project.file.read_text().replace('text="hello"', 'text="goodbye"'))
    [look] = nexts(project.run())
    assert "GOODBYE" in typed(look, project, Path.cwd())
    project.file.write_text(FAILING.replace("say it's; $HOME", "say").replace('text="hello"', 'text="third"'))
    failed = subprocess.run(project.command(), env=project.environment(), capture_output=True, text=True, check=False)
    assert "not yet" in typed(nexts(failed.stdout)[0], project, Path.cwd())


def test_what_uv_run_finds_by_name_its_caller_s_shell_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{Path(MARIN).parent}:/usr/bin:/bin")
    assert command("cat", "x") == "marin cat x"
    monkeypatch.setenv("UV_RUN_RECURSION_DEPTH", "1")  # uv sets it for its children
    assert Path(command("cat", "x").removesuffix(" cat x")).resolve() == Path(MARIN).resolve()


def test_a_store_in_memory_has_nothing_to_look_at_afterwards(tmp_path: Path) -> None:
    project = Project(tmp_path / "project")
    done = subprocess.run(
        [sys.executable, str(project.file), "--prefix", "memory://x"],
        env=project.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert nexts(done.stdout) == []


def test_what_gc_and_rm_say_does_it(tmp_path: Path) -> None:
    project = Project(tmp_path / "project")
    where = ["--prefix", str(project.store)]
    project.run()
    project.run("--rebuild", "say", "--rebuild", "repeat")
    for asked in ([MARIN, "gc", "--now", *where], [sys.executable, "-m", "marin", "gc", "repeat", *where]):
        done = subprocess.run(asked, env=project.environment(), capture_output=True, text=True, check=True)
        [line] = re.findall(r"to delete: (.*)$", done.stdout, re.MULTILINE)
        assert "deleted: " in typed(line, project, Path.cwd())
    assert len(visible(Store(str(project.store)))) == 1
