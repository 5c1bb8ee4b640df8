"""``marin inspect``."""

from __future__ import annotations

from typing import Any

import click
from rich.console import Console

from marin.cli.exits import Exit
from marin.cli.options import EXPERIMENT, JSON, ExperimentOptions, echo_json
from marin.cli.parameters import all_of, argument, command_line, option
from marin.report.inspection import Looked, look_at, trainings
from marin.report.table import columns_of, open_console, print_table, say
from marin.store.inventory import read_inventory
from marin.store.store import open_store

SOURCES = columns_of(
    "source | >drawn | >meant | >token ids | >documents | >their tokens: 10 % | >50 % | >90 % | >ends | >encode alike"
)


@command_line()
def command(
    experiment: str = EXPERIMENT,
    training: str = argument(required=False, default=""),
    options: ExperimentOptions = all_of(ExperimentOptions),
    batches: int = option("-n", "How many batches.", type=click.IntRange(min=1), default=16),
    seed: int = option("--seed", "Other batches.", type=int, default=0),
    bos: str = option("--bos", "Special token that every document begins with.", metavar="TOKEN", default=""),
    as_json: bool = JSON,
) -> int:
    """What TRAINING of EXPERIMENT reads, or each of its trainings: some batches, checked, with samples of their text.

    The tokens must be in the store. Exit code 7 if something is wrong.
    """
    read = options.experiment(experiment)
    inventory = read_inventory(open_store(options.prefix))
    found = [look_at(step, read, inventory, batches=batches, seed=seed, bos=bos) for step in trainings(read, training)]
    if as_json:
        echo_json([{"training": each.name, "headline": each.found.headline, **each.found.report} for each in found])
    else:
        for each in found:
            _print(open_console(), each)
    return Exit.ILL if any(each.found.findings for each in found) else Exit.OK


def _print(console: Console, looked: Looked) -> None:
    report, wrong = looked.found.report, len(looked.found.findings)
    first, *others = looked.found.headline
    say(console, f"{looked.name}, {first}", "bold")
    for number, line in enumerate(others):
        say(console, line, "red" if number < wrong else "")
    if looked.missing:
        say(console, f"not compared, because the store does not hold them: {', '.join(looked.missing)}", "dim")
    print_table(console, SOURCES, [_source(each) for each in report["sources"]])
    gaps = [
        [name, gap["measure"], f"{gap['training']:.3g}", f"{gap['other']:.3g}", f"{gap['size']:+.2f}"]
        for name, of in report["gaps"].items()
        for gap in of
    ]
    if gaps:
        say(console, "")
        print_table(console, columns_of("held out | in | >training | >held out | >apart"), gaps)
    for sample in report["samples"]:
        say(console, f"\n— {sample['source']}, step {sample['step']}", "bold cyan")
        click.echo(sample["text"])


def _source(each: dict[str, Any]) -> list[str]:
    lengths = each["lengths"]
    return [
        each["name"],
        f"{each['drawn']:,}",
        f"{each['meant']:,.1f}",
        f"{each['least_token']} … {each['most_token']}",
        f"{each['documents']:,}",
        *(f"{lengths[share]:,}" for share in ("10%", "50%", "90%")),
        f"{each['ends']:.2%}",
        f"{each['encoded_alike']:.1%}",
    ]
