"""What the commands share: options, the experiment and the store that they name, and how one ends."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any

import click

from marin.cli.completions import complete_path
from marin.cli.exits import guarded
from marin.errors import BadField
from marin.plan.cost.amount import parse_size
from marin.plan.cost.egress import BUDGET
from marin.steps.scale import Scale
from marin.store.region import Region, parse_region

if TYPE_CHECKING:
    from marin.plan.plan import Plan
    from marin.steps.experiment import Experiment
    from marin.store.store import Store

type Decorator = Callable[[Any], Any]

PREFIX: Decorator = click.option(
    "--prefix",
    default="store",
    show_default=True,
    help="Where the store lives: a path, gs://…, s3://… or memory://…",
    shell_complete=complete_path,
)
JSON: Decorator = click.option("--json", "as_json", is_flag=True, help="For scripts.")
LATEST: Decorator = click.option("--latest", is_flag=True, help="The newest where several have the name.")
EVERY_STEP: Decorator = click.option("--every-step", is_flag=True, help="Do not fold like steps into one line.")


def experiment_argument(name: str = "experiment", *, required: bool = True) -> Decorator:
    return click.argument(
        name, metavar=None if required else f"[{name.upper()}]", required=required, shell_complete=complete_path
    )


EXPERIMENT = experiment_argument()


def choice[E: Enum](name: str, choices: type[E], default: E, text: str) -> Decorator:
    kind = click.Choice(choices, case_sensitive=False)
    return click.option(name, type=kind, default=default, show_default=default.name.lower(), help=text)


def scale_option(default: Scale = Scale.REHEARSAL) -> Decorator:
    return choice("--scale", Scale, default, "A laptop rehearsal, or the real thing.")


class Parsed[T](click.ParamType[T]):
    """parse: raises BadField, which is a wrong command line here."""

    def __init__(self, name: str, parse: Callable[[str], T]) -> None:
        self.name, self.parse = name, parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> T:
        if not isinstance(value, str):
            return value
        try:
            return self.parse(value)
        except BadField as error:
            self.fail(str(error), param, ctx)


REGION: Parsed[Region] = Parsed("region", parse_region)
SIZE: Parsed[int] = Parsed("size", parse_size)


def together(*decorators: Decorator) -> Decorator:
    """As if each were written on a line of its own."""

    def decorate(command: Any) -> Any:
        return functools.reduce(lambda made, decorator: decorator(made), reversed(decorators), command)

    return decorate


# Of every command that plans: region, store_region, egress_budget, allow_egress.
region_options = together(
    click.option(
        "--region", type=REGION, metavar="REGION", help="Where steps run, e.g. gcp/us-central2 or local: counts egress."
    ),
    click.option(
        "--store-region", type=REGION, metavar="REGION", help="Where the store is, instead of asking its bucket."
    ),
    click.option(
        "--egress-budget",
        type=SIZE,
        metavar="SIZE",
        help=f"Bytes that may cross regions.  [default: {BUDGET >> 30}GiB, and nothing of unknown size]",
    ),
    click.option("--allow-egress", default="", metavar="REASON", help="Go on above that budget, this once; recorded."),
)


SET: Decorator = click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="STEP.FIELD=VALUE",
    help="Another value for a field, such as mantis.optimizer.peak_lr=1e-4: other outputs, with a record of it.",
)


def ends[**P](work: Callable[P, int]) -> Callable[P, None]:
    """Ends the process with the code that ``work`` returns; see docs/exit-codes.md. Goes below the options."""

    @functools.wraps(work)
    def command(*arguments: P.args, **given: P.kwargs) -> None:
        sys.exit(guarded(lambda: work(*arguments, **given)))

    return command


def echo_json(value: object) -> None:
    """Dataclasses and documents by their fields, enums by their values, what JSON has no word for as text."""
    import msgspec

    click.echo(json.dumps(msgspec.to_builtins(value, str_keys=True, enc_hook=str), indent=1, ensure_ascii=False))


def existing_store(prefix: str) -> Store:
    """Raises BadPrefix where there is none."""
    from marin.store.inventory import must_exist
    from marin.store.store import open_store

    store = open_store(prefix)
    must_exist(store)
    return store


def must_be_of_an_experiment(settings: Sequence[str]) -> None:
    """Raises BadField for fields to change where no experiment is named that has them."""
    if settings:
        raise BadField(f"--set {settings[0]} changes an experiment; name its file")


def experiment_in(file: str, scale: Scale, settings: Sequence[str] = ()) -> Experiment:
    """settings: of --set."""
    from marin.steps.experiment_file import built_by, load_build
    from marin.steps.overrides import with_changes

    return with_changes(built_by(*load_build(file), scale), settings)


def plan_of(experiment: str, scale: Scale, prefix: str, settings: Sequence[str] = ()) -> Plan:
    """The plan of an experiment file; it knows the experiment and the store."""
    from marin.plan.plan import make_plan
    from marin.store.collector import paused
    from marin.store.store import open_store

    with paused():
        return make_plan(experiment_in(experiment, scale, settings), open_store(prefix), scale=scale)
