"""``marin audit contamination``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.text import Text

from marin.cli.completions import complete_output, complete_path
from marin.cli.exits import Exit
from marin.cli.options import JSON, ExperimentOptions, echo_json
from marin.cli.parameters import all_of, argument, command_line, option
from marin.errors import BadField
from marin.report.contamination import (
    Contamination,
    ContaminationSearch,
    Suite,
    audit_contamination,
    read_suites,
    texts,
)
from marin.report.lineage_tree import described
from marin.report.table import byte_bar, columns_of, open_console, print_block, print_rest, print_table, say
from marin.report.words import grouped
from marin.store.inventory import read_inventory
from marin.store.lineage import Lineage, Output, lineage_of
from marin.store.lookup import outputs_named, outputs_of
from marin.store.numbers import counted, listed, write_bytes
from marin.store.record import Record
from marin.store.store import Store, open_store

if TYPE_CHECKING:
    pass

SHOWN = 12  # outputs, checkpoints and reasons, each; --json has all
PASSAGES = 2  # shown of each output
NAMED = 4  # names in a sentence
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")  # control characters, which a terminal might obey


@command_line()
def command(
    steps: tuple[str, ...] = argument(nargs=-1, metavar="[STEP]...", complete=complete_output),
    suites: tuple[str, ...] = option(
        "--against",
        "The items: an output of ReadSuite or ReadItems, or a published file of a suite. Repeatable.",
        multiple=True,
        required=True,
        metavar="SUITE",
        complete=complete_path,
    ),
    experiment: str | None = option(
        "--experiment",
        "Only the text of the current version of this experiment.",
        metavar="FILE",
        complete=complete_path,
    ),
    every: int = option("--every", "Only one shard in N.", type=click.IntRange(min=1), default=1),
    options: ExperimentOptions = all_of(ExperimentOptions),
    as_json: bool = JSON,
) -> int:
    """Search cached text for evaluation items, and name the checkpoints that read them.

    Without STEP it searches all documents and token stores, including outputs that a rebuild replaced. STEP is
    op/label, label, operator, identity or path. Runs nothing and writes nothing. Exit code 3 if text holds items that
    no later step removes, 5 if some text could not be searched.
    """
    inventory = read_inventory(open_store(options.prefix))
    lineage = lineage_of(inventory)
    not_made: list[str] = []
    if experiment is None:
        options.must_be_of_an_experiment()
        records = _named(lineage, inventory.store, steps) if steps else texts(lineage)
    elif steps:
        raise click.UsageError("--experiment searches all text of the experiment; give --experiment or STEP, not both")
    else:
        made = options.experiment(experiment).steps()
        not_made = [step.name for step in made if step.identity not in lineage.current]
        records = texts(lineage, outputs_of(lineage, {step.identity: step.name for step in made}))
    ready = read_suites(inventory, suites)
    if not records:
        raise BadField(f"nothing to search: {experiment or inventory.store.prefix} holds no documents and no tokens")
    with byte_bar(open_console(stderr=True), sum(record.bytes for record in records)) as advance:
        found = audit_contamination(inventory, lineage, ready, records, every, advance)
    if as_json:
        echo_json(_as_json(found, ready, every, not_made))
    else:
        _print(open_console(), found, ready, every, not_made, inventory.store.prefix)
    if found.contaminated:
        return Exit.DRIFT
    return Exit.STORE if found.untold or not_made else Exit.OK


def _named(lineage: Lineage, store: Store, steps: tuple[str, ...]) -> list[Record]:
    """Return the text outputs that the names name. Raises BadField for a name without text."""

    outputs: list[Output] = []
    for step in steps:
        named = outputs_named(lineage, store, step)
        if not texts(lineage, named):
            kinds = {lineage.records[each].kind for each in named if each in lineage.records}
            raise BadField(
                f"{step} holds {listed(sorted(kinds), NAMED) or 'nobody knows what'}, wanted documents or tokens"
            )
        outputs += named
    return texts(lineage, outputs)


def _print(
    console: Console, found: Contamination, suites: Mapping[str, Suite], every: int, not_made: list[str], prefix: str
) -> None:
    rows: list[list[str]] = []
    for name, suite in suites.items():
        items, short = len(suite.index.items), len(suite.index.unindexed)
        found_again = f"{suite.control.found} of {suite.control.planted}"
        rows.append([name, f"{items:,}", found_again, f"{short:,}" if short else ""])
    print_table(console, columns_of("suite | >items | >planted and found | >too short to be found"), rows)
    read = f"{counted(found.texts, 'document')}, {write_bytes(found.bytes)} of text"
    outputs = counted(sum(not each.is_gone for each in found.looked.values()), "output")
    sample = f"one shard in {every} of " if every > 1 else ""
    say(console, f"\nlooked through {sample}{outputs}: {read} — store {prefix}")
    if found.contaminated:
        say(console, "\ncontaminated", "bold red")
        shown = set[str]()
        for each in found.contaminated[:SHOWN]:
            _print_output(console, each, suites, shown)
        print_rest(console, found.contaminated, SHOWN)
    _print_readings(console, found)
    if found.removed_later:
        names = listed([each.record.name for each in found.removed_later], NAMED)
        say(console, f"\ncontaminated, but everything built from it is clean: {names}", "dim")
    _print_untold(console, found, not_made)
    say(console, *_conclusion(found, every, not_made))


def _print_output(console: Console, each: ContaminationSearch, suites: Mapping[str, Suite], shown: set[str]) -> None:
    """Print the findings of one output.

    shown: passages already printed; an output mostly holds the passages of its inputs.
    """
    record, searched = each.record, each.searched
    share = f"{searched.holding:,} of {counted(searched.texts, 'document')}"
    console.print(
        Text.assemble((record.name, "bold"), f"  {record.identity[:12]}  {record.kind}  {share}"), soft_wrap=True
    )
    for suite, items in searched.suites.items():
        ways, forms = (
            ", ".join(f"{name} {count:,}" for name, count in counts.most_common())
            for counts in (items.ways, items.forms)
        )
        of = f"{len(items.items):,} of {len(suites[suite].index.items):,} items of {suite}"
        say(console, f"    {of}: {ways}; in the form of {forms}")
    for passage in [each for each in searched.passages if each.text not in shown][:PASSAGES]:
        shown.add(passage.text)
        how = f"{passage.part} {passage.coverage:.0%}, {passage.way}, {passage.form}"
        say(console, f"    {passage.place}: {passage.item}, {how}", "dim")
        parts = (passage.before, passage.text, passage.after)
        before, inside, after = (CONTROL.sub(" ", part.replace("\n", "⏎")) for part in parts)
        # Brackets mark the item in a pipe too, where styles are lost.
        marked = Text.assemble(f"        {before}", ("⟦", "red"), (inside, "bold"), ("⟧", "red"), after)
        console.print(marked, soft_wrap=True)


def _print_readings(console: Console, found: Contamination) -> None:
    """Print each checkpoint with the paths by which items reached it."""
    lineage = found.lineage
    read = [each for each in found.readings if each.ways]
    may = [each for each in found.readings if not each.ways and (each.doubtful or each.unknown)]
    for title, style, readings in (("read by", "red", read), ("may have been read by", "yellow", may)):
        rows: list[list[str]] = []
        for each in readings:
            ways = [" → ".join(map(lineage.name_of, way)) for way in (each.ways or each.doubtful)]
            unknown = [f"{lineage.name_of(output)}, which was not looked through" for output in each.unknown]
            output = each.checkpoint
            rows.append([lineage.name_of(output), output.identity[:12], listed([*ways, *unknown], NAMED)])
        print_block(console, title, f"bold {style}", "checkpoint | identity | from", rows, SHOWN)


def _print_untold(console: Console, found: Contamination, not_made: list[str]) -> None:
    reasons = grouped((each.problem, each.record.name) for each in found.not_looked)
    reasons |= {text: [] for text in found.lineage.unreadable if text not in reasons}
    if not_made:
        reasons["not in the store as the experiment has it now; `marin plan` says why"] = not_made
    rows = [[listed(names, NAMED) or "a record", reason] for reason, names in reasons.items()]
    print_block(console, "not looked through", "bold yellow", "|", rows, SHOWN)


def _conclusion(found: Contamination, every: int, not_made: list[str]) -> tuple[str, str]:
    if found.contaminated:
        way_on = "`marin revoke STEP --because REASON`"
        return f"\ndeclare contaminated text bad, with everything built from it: {way_on}", "red"
    if found.untold or not_made:
        return "\nno item was found, but not everything could be looked through", "yellow"
    rest = f"; {every - 1} shards in {every} were not looked at" if every > 1 else ""
    return f"\nclean: no item in any text that is used{rest}", "green"


def _as_json(found: Contamination, suites: Mapping[str, Suite], every: int, not_made: list[str]) -> dict[str, Any]:
    lineage = found.lineage

    def named(outputs: Output | list[Any]) -> Any:
        if isinstance(outputs, list):
            return list(map(named, outputs))
        return {"step": lineage.name_of(outputs), **outputs._asdict()}

    def told(each: ContaminationSearch) -> dict[str, Any]:
        of = {name: {**vars(items), "items": sorted(items.items)} for name, items in each.searched.suites.items()}
        return {**described(each.record), "searched": {**vars(each.searched), "suites": of}, "problem": each.problem}

    return {
        "suites": {
            name: {"items": len(suite.index.items), "unindexed": suite.index.unindexed, **suite.control._asdict()}
            for name, suite in suites.items()
        },
        "every": every,
        "outputs": len(found.looked),
        "texts": found.texts,
        "bytes": found.bytes,
        **{name: list(map(told, getattr(found, name))) for name in ("contaminated", "removed_later", "not_looked")},
        "readings": [{field: named(of) for field, of in each._asdict().items()} for each in found.readings],
        "unreadable": lineage.unreadable,
        "not_made": not_made,
    }
