"""The command line's options about regions: where steps run, where the store is, how many bytes may cross."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from marin.errors import BadField
from marin.plan.cost.amount import parse_size
from marin.plan.cost.egress import BUDGET
from marin.store.region import Region, parse_region


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


def region_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Of every command that plans: ``region``, ``store_region``, ``egress_budget``, ``allow_egress``."""
    decorators = [
        click.option(
            "--region",
            type=REGION,
            metavar="REGION",
            help="Where steps run, e.g. gcp/us-central2 or local: counts egress.",
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
        click.option(
            "--allow-egress", default="", metavar="REASON", help="Go on above that budget, this once; recorded."
        ),
    ]
    for decorate in reversed(decorators):
        command = decorate(command)
    return command
