"""The two sides of a diff, each described in a process of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from marin.errors import ExperimentError
from marin.fingerprint.fingerprint import CodeFingerprint
from marin.report.diff.revisions import FOLDER, files_at, top_of
from marin.steps.experiment_file import near_files
from marin.steps.resources import Accelerator, Work, training_cost
from marin.steps.scale import Scale

SCRIPT = Path(__file__).with_name("describe.py")


class Step(BaseModel):
    """One step as data. fields: as marin.plan.missing describes them, steps as ``op/label#identity``."""

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

    @property
    def short(self) -> str:
        """As it stands in fields that name the step."""
        return self.identity[:12]

    @property
    def chip_hours(self) -> float | None:
        if self.work is None or self.accelerator is None:
            return None
        return training_cost(self.work.flops, self.accelerator)


class DescribedExperiment(BaseModel):
    """An experiment as data; an empty one where the file does not exist on this side.

    codes: the digests of the units of each. texts: of units, by digest.
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
    """Where one side comes from. commit: "" for the working tree. named: what people call it. settings: of --set."""

    file: Path
    commit: str
    named: str
    settings: tuple[str, ...] = ()


def read_sides(old: Source, new: Source, scale: Scale) -> tuple[DescribedExperiment, DescribedExperiment]:
    """Both at once. Raises ExperimentError naming the side that cannot be built."""
    with ExitStack() as stack:
        started = [_start(place, scale, stack) for place in (old, new)]
        before, after = (_finish(process, place) for process, place in zip(started, (old, new), strict=True))
    if not before.steps and not after.steps:
        raise ExperimentError(f"{old.file} exists on neither side{near_files(new.file.absolute())}")
    return before, after


def _start(place: Source, scale: Scale, stack: ExitStack) -> subprocess.Popen[str] | None:
    """None if the file is not there on this side."""
    file, paths, forget = place.file.resolve(), _search_paths(), list[str]()
    if place.commit:
        top = top_of(file)
        tree = stack.enter_context(files_at(top, place.commit))
        forget = [path for path in paths if Path(path).is_relative_to(top)]
        paths = [str(tree / Path(path).relative_to(top)) if path in forget else path for path in paths]
        file = tree / file.relative_to(top)
    if not file.is_file():
        return None
    paths = [str(_above_packages(file)), *paths]
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
        # Without the temporary folder that a revision's files were in.
        why = re.sub(rf"\S*{FOLDER}\w+/tree/", "", described["error"])
        raise ExperimentError(f"{place.file.name} ({place.named}) cannot be built\n{why}")
    try:
        return DescribedExperiment.model_validate(described)
    except ValidationError as error:
        raise ExperimentError(f"{place.file} ({place.named}): its engine describes it otherwise: {error}") from error


def _search_paths() -> list[str]:
    """Where this process finds what is not installed: projects in development, PYTHONPATH."""
    installed = tuple(sysconfig.get_paths().values())
    entries = [os.path.abspath(entry) for entry in sys.path if entry]
    return [entry for entry in entries if os.path.isdir(entry) and not entry.startswith(installed)]


def _above_packages(file: Path) -> Path:
    folder = file.parent
    while (folder / "__init__.py").exists():
        folder = folder.parent
    return folder
