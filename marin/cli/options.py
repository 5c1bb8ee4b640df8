"""What the commands share: their common options, and how one ends."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from marin.cli.completions import complete_path
from marin.cli.exits import guarded
from marin.steps.scale import Scale

if TYPE_CHECKING:
    from marin.plan.plan import Plan

type Decorator = Callable[[Any], Any]

PREFIX: Decorator = click.option(
    "--prefix", default="store", show_default=True, help="Where the store lives.", shell_complete=complete_path
)
JSON: Decorator = click.option("--json", "as_json", is_flag=True, help="For scripts.")


def experiment_argument(name: str = "experiment", *, required: bool = True) -> Decorator:
    return click.argument(
        name, metavar=None if required else f"[{name.upper()}]", required=required, shell_complete=complete_path
    )


EXPERIMENT = experiment_argument()


def scale_option(default: Scale = Scale.REHEARSAL) -> Decorator:
    return click.option(
        "--scale",
        type=click.Choice(Scale, case_sensitive=False),
        default=default,
        show_default=default.name.lower(),
        help="A laptop rehearsal, or the real thing.",
    )


def ends[**P](work: Callable[P, int]) -> Callable[P, None]:
    """Ends the process with the code that ``work`` returns; see docs/exit-codes.md. Goes below the options."""

    @functools.wraps(work)
    def command(*arguments: P.args, **given: P.kwargs) -> None:
        sys.exit(guarded(lambda: work(*arguments, **given)))

    return command


def echo_json(held: object) -> None:
    click.echo(json.dumps(held, indent=1, ensure_ascii=False))


def plan_of(experiment: str, scale: Scale, prefix: str) -> Plan:
    """The plan of an experiment file; it knows the experiment and the store."""
    from marin.plan.plan import make_plan
    from marin.steps.experiment_file import built_by, load_build
    from marin.store.collector import paused
    from marin.store.store import open_store

    with paused():
        build, source = load_build(experiment)
        return make_plan(built_by(build, source, scale), open_store(prefix), scale=scale)
