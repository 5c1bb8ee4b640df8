"""``marin run``."""

from __future__ import annotations

from typing import Any

import click

from marin.cli.options import EXPERIMENT, ends
from marin.cli.run_experiment import Options, run_experiment, run_options
from marin.steps.experiment_file import load_build


@click.command()
@EXPERIMENT
@run_options
@ends
def command(experiment: str, **given: Any) -> int:
    """Plan and run EXPERIMENT (a file), like running the file itself."""
    build, source = load_build(experiment)
    return run_experiment(build, source, Options(**given))
