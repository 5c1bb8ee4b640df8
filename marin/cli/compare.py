"""``marin compare``."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.text import Text

from marin.cli.completions import complete_output
from marin.cli.exits import Exit
from marin.cli.options import JSON, LATEST, PREFIX, echo_json
from marin.cli.parameters import argument, command_line, flag, option
from marin.errors import MissingDependency, UnreadableCheckpoint
from marin.report.table import Column, open_console, print_table, say
from marin.store.inventory import read_inventory
from marin.store.layout import OWN
from marin.store.numbers import write_bytes, write_count
from marin.store.store import open_store

if TYPE_CHECKING:
    from marin.evaluation.difference import Row
    from marin.evaluation.samples import Sample
    from marin.report.side_by_side import Compared
    from marin.training.parameter_change import GroupChange

    type Samples = dict[tuple[str, str], dict[str, Sample]]

READ_UNASKED = 1 << 30  # bytes of weights; marin reads more only with --parameters
LETTERS = 400  # shown of a prompt's end, and of its continuation


@command_line()
def command(
    models: tuple[str, ...] = argument(nargs=-1, required=True, metavar="A B [C]...", complete=complete_output),
    count: int = option("--samples", "How many prompts to show.", type=click.IntRange(min=0), default=2),
    parameters: bool = flag("--parameters", "Read the weights even if they are above 1 GiB in all."),
    latest: bool = LATEST,
    prefix: str = PREFIX,
    as_json: bool = JSON,
) -> int:
    """Compare models side by side: tasks, bits per byte, answers to prompts, distance of the weights.

    Each model is a checkpoint or its scores (op/label, label, identity, path), or has published numbers, such as "OLMo
    2 32B". ARM=X,Y,Z or a pattern ('hq-*') is an arm of runs that differ in their seed: one column. Differences are to
    A. They have 95 % intervals if both models were scored on the same texts, over seeds too if an arm has several.

    A model may also be a published one, hf:OWNER/NAME@COMMIT or a folder. marin reads it into the store, once, and
    scores it, once. It takes the evaluation of the first other model that has scores in the store.
    """
    if len(models) < 2:
        raise click.UsageError("compare wants at least two models")
    from marin.cli.compare_given import with_scores
    from marin.evaluation.published_models import published_model
    from marin.evaluation.samples import common_samples
    from marin.evaluation.side_by_side import side_by_side
    from marin.report.side_by_side import named

    store = open_store(prefix)
    # For published models alone the store need not exist.
    is_asked = any(published_model(name) is None for name in models)
    inventory = read_inventory(store) if is_asked or store.objects.list(OWN) else None
    if inventory is not None and (scored := with_scores(inventory, models, latest=latest)) != models:
        models, inventory = scored, read_inventory(store)
    compared = named(inventory, models, latest=latest)
    rows = side_by_side([each.side for each in compared])
    samples = common_samples({each.side.name: each.samples for each in compared})
    changes, unread = _parameters(compared, parameters)
    if as_json:
        echo_json(_as_json(compared, rows, samples, changes))
        return Exit.OK
    console = open_console()
    for each in compared:
        say(console, f"{each.side.name}: {each.about}", "bold" if each is compared[0] else "")
    _print_rows(console, compared, rows)
    _print_samples(console, samples, count)
    _print_parameters(console, compared[0].side.name, changes)
    if unread:
        say(console, f"\n{unread}", "dim")
    return Exit.OK


def _parameters(compared: Sequence[Compared], asked: bool) -> tuple[dict[str, list[GroupChange]], str]:
    """Return the distance of each model's weights from the first model's, and why marin read no weights, if so."""
    first, others = compared[0].weights, [each for each in compared[1:] if each.weights]
    if not first or not others:
        return {}, ""
    try:
        from marin.training.parameter_change import mean_changes, parameter_changes, weights_bytes

        size = 0 if asked else sum(weights_bytes(weights) for each in compared for weights in each.weights)
        if size > READ_UNASKED:
            return {}, f"their weights were not read: {write_bytes(size)}; --parameters reads them"
        found = {
            each.side.name: mean_changes(
                [parameter_changes(before, after) for before, after in zip(cycle(first), each.weights, strict=False)]
            )
            for each in others
        }
    except (UnreadableCheckpoint, MissingDependency) as error:
        if asked:
            raise
        return {}, f"their weights were not read: {error}"
    return found, ""


def _print_rows(console: Console, compared: Sequence[Compared], rows: Sequence[Row]) -> None:
    from marin.evaluation.answer import signed, star, written
    from marin.evaluation.side_by_side import standing

    names = [each.side.name for each in compared]
    with_intervals = [name for name in names if any(name in row.differences for row in rows)]
    columns = [Column(""), *(Column(name, right=True) for name in names)]
    columns += [Column(f"{name} \N{MINUS SIGN} {names[0]}", right=True) for name in with_intervals]
    cells: list[list[Text | str]] = []
    for row in rows:
        if row.metric.startswith("bpb_stripped/"):  # only of interest if it differs; --json has it
            continue
        values = [
            written(row.values[name], row.unit) + ("*" if name in row.contaminated else "")
            if name in row.values
            else ""
            for name in names
        ]
        apart: list[Text | str] = []
        for name in with_intervals:
            one = row.differences.get(name)
            if one is None:
                apart.append("")
                continue
            scale, digits = (100, 1) if row.unit == "share" else (1, 3)
            low, value, high = (signed(scale * end, digits) for end in
                                (one.estimate.low, one.estimate.value, one.estimate.high))  # fmt: skip
            style = ("green" if one.is_better else "red") if one.shown and not one.contaminated else ""
            apart.append(Text(f"{value} [{low}, {high}]", style=style))
        cells.append([row.metric, *values, *apart])
    if not cells:
        say(console, "\nmarin knows no numbers of these models", "bold")
        return
    say(console, "")
    print_table(console, columns, cells)
    for name in names[1:]:
        if (sentence := standing(rows, names[0], name)) is not None:
            say(console, sentence)
    notes = [star({each.side.name: each.side.read for each in compared if each.side.read})]
    if with_intervals:
        seeds = [one.seeds for row in rows for one in row.differences.values()]
        over = ", and over seeds" if all(seeds) else ", and over seeds of arms that have several" if any(seeds) else ""
        notes.append(
            f"Intervals (95 %) are over items and documents that both were scored on{over or '; not over seeds'}."
        )
    if any(each.side.published for each in compared):
        notes.append("Published numbers use the harness's defaults; another prompt can move them by points.")
    for line in filter(None, notes):
        say(console, line, "dim")


def _print_samples(console: Console, samples: Samples, count: int) -> None:
    for (task, prompt), written in list(samples.items())[:count]:
        say(console, f"\n— {task}", "bold cyan")
        say(console, f"…{prompt[-LETTERS:]}" if len(prompt) > LETTERS else prompt, "dim")
        for name, sample in written.items():
            say(console, f"{name}:", "bold")
            say(console, f"{sample.text[:LETTERS]}…" if len(sample.text) > LETTERS else sample.text)
    if count and len(samples) > count:
        say(console, f"\n{len(samples) - count:,} more prompts; --samples N shows N of them", "dim")


def _print_parameters(console: Console, first: str, changes: dict[str, list[GroupChange]]) -> None:
    if not changes:
        return
    groups = {each.name: each for found in changes.values() for each in found}
    say(console, f"\ndistance of the weights: norm of the difference from {first}, over the norm of {first}", "bold")
    rows = [[group, write_count(each.parameters)] for group, each in groups.items()]
    for found in changes.values():
        apart = {each.name: f"{each.relative:.2%}" for each in found if each.relative is not None}
        for row in rows:
            row.append(apart.get(row[0], "other shape"))
    columns = [Column(), Column("parameters", right=True), *(Column(n, right=True) for n in changes)]
    print_table(console, columns, rows)


def _as_json(
    compared: Sequence[Compared], rows: Sequence[Row], samples: Samples, changes: dict[str, list[GroupChange]]
) -> dict[str, Any]:
    return {
        "models": [
            {
                "name": each.side.name,
                "about": each.about,
                "scores": [record.identity for record in each.scores],
                "checkpoints": [record.identity for record in each.checkpoints],
                "read": each.side.read,
            }
            for each in compared
        ],
        "rows": [row.as_json() for row in rows],
        "samples": [
            {"task": task, "prompt": prompt, "texts": {name: sample.text for name, sample in written.items()}}
            for (task, prompt), written in samples.items()
        ],
        "parameters": changes,
    }
