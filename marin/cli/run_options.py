"""The options of commands that run an experiment."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import click

from marin.cli.completions import complete_result, complete_step
from marin.cli.options import PlanOptions
from marin.cli.parameters import Parsed, choice, flag, option, reason
from marin.errors import BadField
from marin.plan.cost.egress import parse_size
from marin.plan.decision import OnDrift
from marin.report.typed import same_command
from marin.steps.experiment import Experiment
from marin.steps.experiment_file import Build
from marin.store.files.verify import EVERY_BYTE

IN_MEMORY = "memory://"


class BackendName(StrEnum):
    RAY = "ray"
    INLINE = "inline"


def parse_steps(text: str) -> tuple[int, int]:
    """Parse a range of optimizer steps, ``10-12`` or ``10``. Raises BadField."""
    found = re.fullmatch(r"(\d+)(?:-(\d+))?", text.strip())
    if found is None or int(found[1]) > int(found[2] or found[1]):
        raise BadField(f"{text!r} is no range of optimizer steps; wanted the first and the last, such as 10-12")
    return int(found[1]), int(found[2] or found[1])


def parse_bound(text: str) -> int:
    """Return the bytes to read of each input from ``all``, ``sizes`` or a size. Raises BadField."""
    named = {"all": EVERY_BYTE, "sizes": 0}.get(text.strip().lower())
    return parse_size(text) if named is None else named


@dataclass(frozen=True, kw_only=True)
class RunOptions(PlanOptions):
    """Options of commands that run an experiment."""

    dry_run: bool = flag("--dry-run", "Plan only; start and change nothing.")
    only: tuple[str, ...] = option(
        "--only",
        "Run only this result and its inputs (repeatable).",
        multiple=True,
        metavar="RESULT",
        complete=complete_result,
    )
    rebuild: tuple[str, ...] = option(
        "--rebuild",
        "Rebuild the step: op/label, op or identity (repeatable).",
        multiple=True,
        metavar="STEP",
        complete=complete_step,
    )
    on_drift: OnDrift | None = choice(
        "--on-drift",
        OnDrift,
        "What to do about drifted outputs.  [default: on_drift in pyproject.toml, else stop]",
    )
    because: str = reason("--because", "Why drifted outputs are accepted or rebuilt; recorded.")
    check_inputs: int = option(
        "--check-inputs",
        "How much of each input to compare with its manifest before a step reads it.",
        type=Parsed("all|sizes|SIZE", parse_bound),
        default=EVERY_BYTE,
        metavar="all|sizes|SIZE",
        show_default="all",
    )
    track: str | None = option(
        "--track",
        "Show trainings in W&B or trackio as well; they read their own variables (WANDB_…, TRACKIO_…).",
        type=click.Choice(["wandb", "trackio"], case_sensitive=False),
    )
    profile: tuple[int, int] | None = option(
        "--profile",
        "Trace these optimizer steps of trainings (10-12) for Perfetto; the page links the traces.",
        type=Parsed("FIRST-LAST", parse_steps),
        metavar="STEPS",
    )
    backend: BackendName = choice(
        "--backend", BackendName, "Run steps on Ray, or one by one in a process beside this one.", BackendName.RAY
    )
    address: str = option(
        "--address",
        "A running Ray cluster; else the one of RAY_ADDRESS, else a private one that the run starts.",
        default="",
    )
    keep_going: bool = flag("--keep-going", "After a failure, also start steps that lead only to broken ones.")
    logs: bool = flag("--logs", "Print the log lines of running steps, each behind its step's name.")
    command: str = field(default_factory=same_command)

    @property
    def runs_here(self) -> bool:
        return self.backend is BackendName.INLINE or self.prefix.startswith(IN_MEMORY)

    def built(self, build: Build, source: Path) -> Experiment:
        experiment = super().built(build, source)
        return experiment.only(self.only) if self.only else experiment
