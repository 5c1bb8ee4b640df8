"""Read the two sides of a diff, each in a process of its own. A side may be the files of a git revision.

The user's checkout stays untouched.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from marin.errors import ExperimentError
from marin.fingerprint.fingerprint import CodeFingerprint
from marin.steps.experiment_file import near_files
from marin.steps.resources import Accelerator, Work, training_cost
from marin.steps.scale import Scale

SCRIPT = Path(__file__).with_name("describe.py")
FOLDER = "marin-diff-"  # begins the name of the folder with a revision's files
MAIN = ("origin/main", "origin/master", "main", "master")


class Step(BaseModel):
    """One step as data. fields: as marin.plan.missing describes them, with steps as ``op/label#identity``."""

    model_config = ConfigDict(frozen=True)
    op: str
    label: str
    name: str
    version: int
    identity: str
    fields: dict[str, Any]
    execution: dict[str, Any]
    inputs: list[str]
    code: str
    work: Work | None
    accelerator: Accelerator | None

    def __str__(self) -> str:
        """Return the step's name in ``--json``."""
        return f"{self.name}#{self.identity}"

    @property
    def short(self) -> str:
        """The identity in fields that name the step."""
        return self.identity[:12]

    @property
    def chip_hours(self) -> float | None:
        if self.work is None or self.accelerator is None:
            return None
        return training_cost(self.work.flops, self.accelerator)


class DescribedExperiment(BaseModel):
    """An experiment as data, empty if the file does not exist on this side.

    codes: by digest of a code, the digests of its units. texts: of units, by digest.
    """

    model_config = ConfigDict(frozen=True)
    experiment: str
    issue: int = 0
    question: str = ""
    results: dict[str, str] = {}
    steps: list[Step] = []
    codes: dict[str, dict[str, str]] = {}
    texts: dict[str, str] = {}

    def fingerprint(self, code: str) -> CodeFingerprint:
        units = self.codes[code]
        sources = {name: self.texts[digest] for name, digest in units.items() if digest in self.texts}
        return CodeFingerprint(units, {}, sources=sources)


@dataclass(frozen=True, kw_only=True)
class Source:
    """Origin of one side. commit: "" for the working tree. named: its name for people. settings: of --set."""

    file: Path
    commit: str
    named: str
    settings: tuple[str, ...] = ()


def read_sides(old: Source, new: Source, scale: Scale) -> tuple[DescribedExperiment, DescribedExperiment]:
    """Read both sides at once. Raises ExperimentError naming the side that cannot be built."""
    with ExitStack() as stack:
        started = [_start(place, scale, stack) for place in (old, new)]
        before, after = (_finish(process, place) for process, place in zip(started, (old, new), strict=True))
    if not before.steps and not after.steps:
        raise ExperimentError(f"{old.file} exists on neither side{near_files(new.file.absolute())}")
    return before, after


def _start(place: Source, scale: Scale, stack: ExitStack) -> subprocess.Popen[str] | None:
    """Start the process that describes a side. None if the file does not exist on this side."""
    # Folders where this process finds modules that are not installed: projects in development, PYTHONPATH.
    installed, every = tuple(sysconfig.get_paths().values()), [os.path.abspath(entry) for entry in sys.path if entry]
    paths = [entry for entry in every if os.path.isdir(entry) and not entry.startswith(installed)]
    file, forget = place.file.resolve(), list[str]()
    if place.commit:
        top = top_of(file)
        tree = stack.enter_context(files_at(top, place.commit))
        forget = [path for path in paths if Path(path).is_relative_to(top)]
        paths = [str(tree / Path(path).relative_to(top)) if path in forget else path for path in paths]
        file = tree / file.relative_to(top)
    if not file.is_file():
        return None
    top = next(folder for folder in file.parents if not (folder / "__init__.py").exists())  # above its packages
    paths = [str(top), *paths]
    process = subprocess.Popen(
        [sys.executable, "-P", str(SCRIPT), str(file), scale.value, json.dumps(place.settings), *forget],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)), "PYTHONDONTWRITEBYTECODE": "1"},
    )
    return stack.enter_context(process)


def _finish(process: subprocess.Popen[str] | None, place: Source) -> DescribedExperiment:
    if process is None:
        return DescribedExperiment(experiment=place.file.stem)
    output, errors = process.communicate()
    try:
        described = json.loads(output)
    except ValueError as error:
        last = errors.strip().splitlines()[-1:] or [f"exit code {process.returncode}"]
        raise ExperimentError(f"{place.file} ({place.named}) cannot be described: {last[0]}") from error
    if "error" in described:
        # Hide the temporary folder with the revision's files.
        why = re.sub(rf"\S*{FOLDER}\w+/tree/", "", described["error"])
        raise ExperimentError(f"{place.file.name} ({place.named}) cannot be built\n{why}")
    try:
        return DescribedExperiment.model_validate(described)
    except ValidationError as error:
        raise ExperimentError(
            f"{place.file} ({place.named}): the marin of that revision describes experiments in another form than the "
            f"marin that runs now; compare with a later revision: {error}"
        ) from error


def top_of(file: Path) -> Path:
    """Return the checkout that holds a file. Raises ExperimentError outside a checkout."""
    folder = next((parent for parent in file.absolute().parents if parent.is_dir()), Path.cwd())
    found = _try_git(folder, "rev-parse", "--show-toplevel")
    if not found:
        raise ExperimentError(f"{file} is not in a git checkout, so it has no revisions; name two files to compare")
    return Path(found)


def commit_of(top: Path, revision: str) -> str:
    """Return the 40 digits of a revision's commit. Raises ExperimentError with near misses."""
    found = _try_git(top, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    if not found:
        names = _try_git(top, "for-each-ref", "--format=%(refname:short)", "refs/heads", "refs/remotes", "refs/tags")
        near = difflib.get_close_matches(revision, names.split(), n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(near)}?" if near else "in a shallow clone, fetch it first"
        raise ExperimentError(f"git knows no revision {revision!r} in {top}; {hint}")
    return found


def base_of(top: Path) -> tuple[str, str]:
    """Return (commit, description) that the working tree is compared with by default.

    On a branch, it is the commit where the branch left main. On main itself, it is the last commit.
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
    """Yield a folder with every file of the commit, and delete it afterwards. The checkout and its index stay."""
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
    # In a hook, git's own variables would point to another repository. LFS files hold no code.
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
