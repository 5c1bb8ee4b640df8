"""Options that the commands share, the experiment and store that they name, and JSON output."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from marin.cli.completions import complete_path
from marin.cli.parameters import Parsed, argument, choice, flag, option, reason
from marin.errors import BadField
from marin.plan.cost.egress import BUDGET, Allowance, Regions, parse_size
from marin.steps.scale import Scale
from marin.store.region import Region, parse_region

if TYPE_CHECKING:
    from marin.cli.priced import PricedPlan
    from marin.plan.plan import Plan
    from marin.steps.experiment import Experiment
    from marin.steps.experiment_file import Build
    from marin.store.store import Store

EXPERIMENT = argument(complete=complete_path)
SCALE_HELP = "A laptop rehearsal, or the real thing."
PREFIX = option(
    "--prefix", "The place of the store: a path, gs://…, s3://… or memory://…", default="store", complete=complete_path
)
SET = option(
    "--set",
    "Give a field another value, such as mantis.optimizer.peak_lr=1e-4 (repeatable): other outputs, recorded.",
    multiple=True,
    metavar="STEP.FIELD=VALUE",
)
JSON = flag("--json", "Print JSON for scripts.")
EVERY_STEP = flag("--every-step", "--verbose", "List each step instead of folding similar ones, and notes in full.")
LATEST = flag("--latest", "Take the newest if several have the name.")
REGION = Parsed("region", parse_region)


@dataclass(frozen=True, kw_only=True)
class ExperimentOptions:
    """Options of commands that read an experiment file: its scale, its store and changed fields."""

    scale: Scale = choice("--scale", Scale, SCALE_HELP, Scale.REHEARSAL)
    prefix: str = PREFIX
    settings: tuple[str, ...] = SET

    def built(self, build: Build, source: Path) -> Experiment:
        from marin.steps.experiment_file import built_by
        from marin.steps.overrides import with_changes

        return with_changes(built_by(build, source, self.scale), self.settings)

    def experiment(self, file: str) -> Experiment:
        from marin.steps.experiment_file import load_build

        return self.built(*load_build(file))

    def plan(self, file: str, *, by_policy: bool = False) -> Plan:
        """Return the plan of an experiment. by_policy: treat drift as the project's pyproject.toml says, else stop."""
        from marin.plan.decision import OnDrift
        from marin.plan.plan import make_plan
        from marin.plan.policy import policy_of
        from marin.steps.experiment_file import load_build
        from marin.store.collector import paused
        from marin.store.store import open_store

        with paused():
            build, source = load_build(file)
            on_drift, policy = policy_of(source) if by_policy else (OnDrift.STOP, "")
            experiment, store = self.built(build, source), open_store(self.prefix)
            return make_plan(experiment, store, on_drift=on_drift, policy=policy, scale=self.scale)

    def must_be_of_an_experiment(self) -> None:
        """Raise BadField if the options change fields, but the command names no experiment."""
        if self.settings:
            raise BadField(f"--set {self.settings[0]} changes an experiment; name its file")


@dataclass(frozen=True, kw_only=True)
class PlanOptions(ExperimentOptions):
    """Options of commands that plan: bytes that may cross regions, and the form of the plan."""

    region: Region | None = option(
        "--region", "The region of the steps, e.g. gcp/us-central2 or local; counts egress.", type=REGION
    )
    store_region: Region | None = option(
        "--store-region", "The region of the store, instead of asking its bucket.", type=REGION
    )
    egress_budget: int | None = option(
        "--egress-budget",
        f"Bytes that may cross regions.  [default: {BUDGET >> 30}GiB, and nothing of unknown size]",
        type=Parsed("size", parse_size),
    )
    allow_egress: str = reason("--allow-egress", "Run above that budget this once; recorded.")
    every_step: bool = EVERY_STEP
    resources: str | None = option(
        "--resources",
        "All GPUs of this machine, for each step that can use them and asks for no accelerator.",
        type=click.Choice(["gpu"], case_sensitive=False),
    )

    def built(self, build: Build, source: Path) -> Experiment:
        experiment = super().built(build, source)
        if self.resources is None:
            return experiment
        from marin.executor.backends.local_gpus import on_local_gpus

        return on_local_gpus(experiment, os.environ)

    def priced(self, plan: Plan) -> PricedPlan:
        from marin.cli.priced import PricedPlan

        regions = Regions(plan.store.prefix, self.region, self.store_region)
        return PricedPlan(plan, regions, Allowance(stated=self.egress_budget, because=self.allow_egress))


def echo_json(value: object) -> None:
    """Print a value as JSON: dataclasses and structs by their fields, enums by their values, other types as text."""
    import msgspec

    click.echo(json.dumps(msgspec.to_builtins(value, str_keys=True, enc_hook=str), indent=1, ensure_ascii=False))


def existing_store(prefix: str) -> Store:
    """Return the store at a prefix. Raises BadPrefix if there is none."""
    from marin.store.inventory import must_exist
    from marin.store.store import open_store

    store = open_store(prefix)
    must_exist(store)
    return store
