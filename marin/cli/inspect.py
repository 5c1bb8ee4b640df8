"""``marin inspect``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast, runtime_checkable

import click
from rich.console import Console

from marin.cli.exits import Exit
from marin.cli.options import EXPERIMENT, JSON, ExperimentOptions, echo_json
from marin.cli.parameters import all_of, argument, command_line, option
from marin.data.order_spec import Training, order_of
from marin.errors import UnknownStep, did_you_mean
from marin.report.contents import tokenizer_of
from marin.report.phases import trainings_of
from marin.report.table import columns_of, open_console, print_table, say
from marin.steps.experiment import Experiment
from marin.steps.step import ExecutorStep
from marin.store.inventory import Inventory, read_inventory
from marin.store.store import open_store

if TYPE_CHECKING:
    from marin.data.inspection import Inspection

SOURCES = columns_of(
    "source | >drawn | >meant | >token ids | >documents | >their tokens: 10 % | >50 % | >90 % | >ends | >encode alike"
)


@command_line()
def command(
    experiment: str = EXPERIMENT,
    training: str = argument(required=False, default=""),
    options: ExperimentOptions = all_of(ExperimentOptions),
    batches: int = option("-n", "The number of batches.", type=click.IntRange(min=1), default=16),
    seed: int = option("--seed", "Draw other batches.", type=int, default=0),
    bos: str = option("--bos", "The special token that begins every document.", metavar="TOKEN", default=""),
    as_json: bool = JSON,
) -> int:
    """Check some batches of TRAINING, or of each training of EXPERIMENT, and show samples of their text.

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


def _print(console: Console, looked: InspectedBatches) -> None:
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


HELD_OUT_BYTES = 2_000_000  # read of each set

type Step = ExecutorStep[Any]


@runtime_checkable
class Scoring(Protocol):
    """An evaluation or a training's watch: it names the held-out documents that it scores."""

    domains: Mapping[str, Step]


class InspectedBatches(NamedTuple):
    """The inspection of one training. missing: held-out sets that the store does not hold."""

    name: str
    found: Inspection
    missing: list[str]


def trainings(experiment: Experiment, name: str = "") -> list[Step]:
    """Return the trainings of the experiment, or the one with this name.

    Raises ExperimentError if the experiment trains nothing, UnknownStep for an unknown name.
    """
    found = trainings_of(experiment)
    chosen = [step for step in found if name in ("", step.name, step.label)]
    if not chosen:
        raise UnknownStep(f"no training is called {name!r}; {did_you_mean(name, [step.name for step in found])}")
    return chosen


def look_at(
    step: Step, experiment: Experiment, inventory: Inventory, *, batches: int, seed: int = 0, bos: str = ""
) -> InspectedBatches:
    """Inspect batches of a training. Raises UnknownStep if its tokens are not in the store.

    Also raises the errors that the training itself would raise for its tokens.
    """
    from marin.data.inspection import inspect_order
    from marin.data.token_store import TokenStore
    from marin.data.tokenizer import load_tokenizer

    spec = order_of(cast(Training[Step], step))
    records = {source: inventory.find(source.identity) for source in spec.stages.sources}
    if gone := [source.name for source, record in records.items() if record is None]:
        raise UnknownStep(
            f"{step.name} reads {gone[0]}, which the store {inventory.store.prefix} does not hold. Build it first: "
            "`marin run FILE --only RESULT`, with a result that reads it, such as an Inspect"
        )
    there = {source: record for source, record in records.items() if record is not None}
    stores = {source: TokenStore.open(inventory.store.output(record)) for source, record in there.items()}
    made = tokenizer_of(inventory, next(iter(there.values())))
    if made is None:
        raise UnknownStep(
            f"the store holds no tokenizer of the tokens that {step.name} reads; build the tokenizer first"
        )
    texts, missing = _held_out(experiment, inventory)
    found = inspect_order(spec, stores, load_tokenizer(made), texts, batches=batches, seed=seed, bos=bos)
    return InspectedBatches(step.name, found, missing)


def _held_out(experiment: Experiment, inventory: Inventory) -> tuple[dict[str, list[str]], list[str]]:
    """Return the held-out texts that the experiment scores, by name, and the names that the store does not hold."""
    from marin.evaluation.held_out_texts import texts_of_documents, texts_of_items

    documents, items = dict[str, Step](), dict[str, Step]()
    for step in experiment.steps():
        for scoring in (step, getattr(step, "watch", None)):
            if isinstance(scoring, Scoring):
                documents |= scoring.domains
                items |= cast(Mapping[str, Step], getattr(scoring, "tasks", {}))
    texts, missing = dict[str, list[str]](), list[str]()
    for sets, read in ((documents, texts_of_documents), (items, texts_of_items)):
        for name, step in sorted(sets.items()):
            if (record := inventory.find(step.identity)) is None:
                missing.append(name)
            else:
                texts[name] = read(inventory.store.output(record), HELD_OUT_BYTES)
    return texts, missing
