"""Test completion with Tab in real bash, and the requests of zsh and fish."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from marin.cli.commands import LINES
from tests.support.project import EXPERIMENT, Project

MARIN = Path(sys.executable).with_name("marin")
LABELS = EXPERIMENT.replace('label="say"', 'label="say it@3"')
# This script does the work of bash when somebody presses Tab at the end of each line.
DRIVER = """
source <(marin completion bash)
compopt() { asked="$1 $2"; }
while IFS= read -r line; do
    COMP_LINE=$line COMP_POINT=${#line} COMPREPLY=() asked=
    _marin_completion marin marin 2>&1
    printf '%s\\t' "${COMPREPLY[@]}"
    printf '%s\\n' "$asked"
done
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Return a project that ran once, with a label that bash would take apart."""
    made = Project(tmp_path_factory.mktemp("completion") / "project", LABELS)
    made.run()
    (made.folder / "broken.py").write_text("print('noise')\nraise SystemExit('broken')\n")
    return made


def environment(project: Project, **more: str) -> dict[str, str]:
    return {**project.environment(), "PATH": f"{MARIN.parent}:{os.environ['PATH']}", **more}


def in_bash(project: Project, *lines: str) -> list[list[str]]:
    """Return the completions of each line, and ``compopt …`` where bash must complete file names itself."""
    done = subprocess.run(
        ["bash", "--norc", "-c", DRIVER],
        input="".join(f"{line}\n" for line in lines),
        capture_output=True,
        text=True,
        cwd=project.folder,
        env=environment(project),
        timeout=120,
        check=True,
    )
    assert done.stderr == ""
    return [[each for each in line.split("\t") if each] for line in done.stdout.splitlines()]


def test_bash_completes_every_kind_of_name(project: Project) -> None:
    asked = {
        "marin ": [name for name in LINES if " " not in name],
        "marin st": ["status"],
        "marin ls --sor": ["--sort"],
        "marin ls --sort ": ["made", "name", "size"],
        "marin ls --kind ": ["toy-blob"],
        "marin ls rep": ["repeat/repeat"],
        "marin plan exp1_toy.py ": ["say/say\\ it@3", "repeat/repeat"],
        "marin plan exp1_toy.py say/say\\ it@": ["3"],
        "marin plan exp1_toy.py 'say/say it": ["say/say\\ it@3"],
        "marin accept exp1_toy.py rep": ["repeat/repeat"],
        "marin run exp1_toy.py --only ": ["end"],
        "marin run exp1_toy.py --rebuild rep": ["repeat/repeat"],
        "marin run exp1_toy.py --on-drift ": ["stop", "rebuild", "accept"],
        "marin status lat": ["latest", "-o default"],
        "marin audit contamination rep": ["repeat/repeat"],
        "marin cat repeat/repeat --file ": ["text.txt"],
        "marin completion z": ["zsh"],
        "marin run ": ["-o default"],
        "marin ls --prefix ": ["-o dirnames"],
    }
    assert dict(zip(asked, in_bash(project, *asked), strict=True)) == asked


def test_bash_says_nothing_where_nothing_fits(project: Project) -> None:
    lines = [
        "marin nonsense ",
        "marin plan missing.py ",
        "marin plan broken.py ",
        "marin run broken.py --only ",
        "marin ls --prefix /nowhere --kind ",
        "marin ls --prefix nonsense:// --kind ",
        "marin cat no/such --file ",
        "marin status 'unfinished ",
    ]
    assert in_bash(project, *lines) == [[]] * len(lines)


@pytest.mark.parametrize(
    ("shell", "line", "says"),
    [
        ("zsh", "marin plan exp1_toy.py rep", ["plain", "repeat/repeat"]),
        ("fish", "marin plan exp1_toy.py rep", ["plain,repeat/repeat"]),
        ("zsh", "marin plan broken.py rep", []),
        ("fish", "marin nonsense rep", []),
    ],
)
def test_zsh_and_fish_ask_by_the_environment(project: Project, shell: str, line: str, says: list[str]) -> None:
    words = shlex.split(line)
    asking = {"_MARIN_COMPLETE": f"{shell}_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    if shell == "fish":
        asking["COMP_CWORD"] = words[-1]
    done = subprocess.run(
        [MARIN], capture_output=True, text=True, cwd=project.folder, env=environment(project, **asking), timeout=60
    )
    assert done.stderr == ""
    assert done.stdout.split()[: len(says) or None] == says


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_the_shells_own(project: Project, shell: str) -> None:
    said = subprocess.run([MARIN, "completion", shell], capture_output=True, text=True, check=True).stdout
    guessed = subprocess.run(
        [MARIN, "completion"], capture_output=True, text=True, env=environment(project, SHELL=f"/bin/{shell}")
    )
    assert guessed.stdout == said
    assert f"_MARIN_COMPLETE={shell}_complete" in said
    if shell == "bash":
        subprocess.run(["bash", "-n"], input=said, text=True, check=True)


def test_an_unknown_shell_is_exit_code_2_and_names_the_known_ones(project: Project) -> None:
    for arguments, shell in (([], "/bin/tcsh"), ([], ""), (["tcsh"], "")):
        done = subprocess.run(
            [MARIN, "completion", *arguments],
            capture_output=True,
            text=True,
            env=environment(project, SHELL=shell),
            check=False,
        )
        assert done.returncode == 2
        assert all(name in done.stderr for name in ("bash", "zsh", "fish"))


def test_tab_is_quick(project: Project) -> None:
    """Completion imports only Python's own modules, click, and marin's modules that hold names."""
    asked = environment(project, _MARIN_COMPLETE="bash_complete", COMP_LINE="marin st")
    done = subprocess.run(
        [sys.executable, "-X", "importtime", MARIN], env=asked, capture_output=True, text=True, check=True
    )
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "click" in imported
    assert not imported & {"fsspec", "jinja2", "matplotlib", "msgspec", "numpy", "pydantic", "ray", "rich"}
    assert sum(name.startswith("marin.") for name in imported) < 60
