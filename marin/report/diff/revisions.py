"""Files as they were at a git revision, without touching the checkout that a person works in."""

from __future__ import annotations

import difflib
import os
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from marin.errors import ExperimentError

FOLDER = "marin-diff-"
MAIN = ("origin/main", "origin/master", "main", "master")


def top_of(file: Path) -> Path:
    """The checkout that a file lies in. Raises ExperimentError outside one."""
    folder = next((parent for parent in file.absolute().parents if parent.is_dir()), Path.cwd())
    found = _try_git(folder, "rev-parse", "--show-toplevel")
    if not found:
        raise ExperimentError(f"{file} is not in a git checkout, so it has no revisions; name two files to compare")
    return Path(found)


def commit_of(top: Path, revision: str) -> str:
    """40 digits. Raises ExperimentError with near misses."""
    found = _try_git(top, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    if not found:
        names = _try_git(top, "for-each-ref", "--format=%(refname:short)", "refs/heads", "refs/remotes", "refs/tags")
        near = difflib.get_close_matches(revision, names.split(), n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(near)}?" if near else "in a shallow clone, fetch it first"
        raise ExperimentError(f"git knows no revision {revision!r} in {top}; {hint}")
    return found


def base_of(top: Path) -> tuple[str, str]:
    """(commit, what it is) that the working tree is compared with unless somebody says otherwise.

    Where the branch left main; on main itself, the last commit.
    """
    head = _try_git(top, "rev-parse", "--verify", "--quiet", "HEAD")
    if not head:
        raise ExperimentError(f"{top} has no commit yet, so there is nothing to compare with; name two files")
    for main in MAIN:
        base = _try_git(top, "merge-base", "HEAD", main)
        if base and base != head:
            return base, f"where it left {main}"
    return head, "the last commit"


@contextmanager
def files_at(top: Path, commit: str) -> Generator[Path]:
    """A folder with every file of the commit; gone afterwards. The checkout and its index stay as they are."""
    with tempfile.TemporaryDirectory(prefix=FOLDER) as temporary:
        tree = Path(temporary).resolve() / "tree"
        tree.mkdir()
        index = {"GIT_INDEX_FILE": f"{temporary}/index"}
        for arguments in (("read-tree", commit), ("checkout-index", "--all", "--quiet", f"--prefix={tree}/")):
            done = _git(top, *arguments, environment=index)
            if done.returncode:
                raise ExperimentError(f"git {arguments[0]} of {commit[:12]} in {top}: {done.stderr.strip()}")
        yield tree


def _try_git(folder: Path, *arguments: str) -> str:
    done = _git(folder, *arguments)
    return done.stdout.strip() if done.returncode == 0 else ""


def _git(folder: Path, *arguments: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    # In a hook, git's own variables would point it elsewhere; files of LFS are no code.
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        return subprocess.run(
            ["git", "-C", str(folder), *arguments],
            capture_output=True,
            text=True,
            check=False,
            env={**kept, "GIT_LFS_SKIP_SMUDGE": "1", **(environment or {})},
        )
    except FileNotFoundError as error:
        raise ExperimentError("git is not installed; name two experiment files to compare") from error
