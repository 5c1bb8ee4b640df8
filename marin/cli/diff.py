"""``marin diff``."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import click

from marin.cli.completions import complete_path
from marin.cli.exits import Exit
from marin.cli.options import EXPERIMENT, JSON, SCALE_HELP, SET, echo_json, existing_store
from marin.cli.parameters import argument, choice, command_line, flag, option
from marin.errors import ExperimentError
from marin.report.diff.difference import (
    compare_sides,
    compare_steps,
    to_run,
    trained_anew,
    training_sum,
)
from marin.report.diff.markdown import apart, document, line, report
from marin.report.diff.sides import Source, base_of, commit_of, read_sides, top_of
from marin.report.table import open_console
from marin.steps.experiment_file import near_files
from marin.steps.scale import Scale
from marin.store.inventory import Inventory


@command_line()
def command(
    experiment: str = EXPERIMENT,
    other: str | None = argument(required=False, complete=complete_path),
    old_revision: str | None = option("--from", "EXPERIMENT at this git revision is the old side.", metavar="REV"),
    new_revision: str | None = option("--to", "This revision is the new side; else the working tree.", metavar="REV"),
    scale: Scale = choice("--scale", Scale, SCALE_HELP, Scale.FULL),
    settings: tuple[str, ...] = SET,
    between: tuple[str, str] | None = option(
        "--between", "Compare two trainings of EXPERIMENT, by label.", nargs=2, metavar="OLD NEW"
    ),
    prefix: str | None = option(
        "--prefix", "A store in which to look for the outputs of both sides.", complete=complete_path
    ),
    every: bool = flag("--all", "Shorten nothing."),
    as_markdown: bool = flag("--markdown", "Print plain Markdown on a terminal too, for a pull request."),
    as_json: bool = JSON,
) -> int:
    """Compare two experiment files, or two git revisions of one file.

    Without OTHER and --from, marin compares the working tree with the point where its branch left main; on main, with
    the last commit. --set changes the new side. Without OTHER and a revision, the old side is then the file itself.
    marin builds each side from its own code in a separate process. It does not touch the checkout.
    """
    if between is not None:
        return _print_between(_source(Path(experiment), new_revision, "", settings), scale, between, every, as_markdown)
    old, new = _sources(Path(experiment), Path(other) if other else None, old_revision, new_revision, settings)
    difference = compare_sides(*read_sides(old, new, scale))
    opened = existing_store(prefix) if prefix is not None else None
    both = [step.identity for side in (difference.old, difference.new) for step in side.steps]
    store, committed = (opened.prefix, set(Inventory(opened, both).records)) if opened is not None else ("", set[str]())
    if as_json:
        sides = {"old": difference.old, "new": difference.new}
        echo_json(
            {
                "from": old.named,
                "to": new.named,
                "scale": scale,
                "same": difference.is_empty,
                "counts": Counter(step.fate for step in difference.steps),
                "results": {name: side.results for name, side in sides.items()},
                "steps": difference.steps,
                "code": difference.code,
                "training": {name: training_sum(side.steps) for name, side in sides.items()},
                "trained_anew": training_sum(trained_anew(difference)),
                "store": {"prefix": store, **{name: to_run(side, committed) for name, side in sides.items()}}
                if store
                else None,
            }
        )
        return Exit.OK
    title = f"{difference.new.experiment}, {scale.value} scale: {old.named} → {new.named}"
    # Steps that kept their identity, with a committed output that the new side's code did not build.
    code = {step.identity: step.code for change in difference.code for step in change.drifts}
    records = Inventory(opened, code).records if opened is not None else {}
    drifted = {identity for identity, record in records.items() if record.code != code[identity]}
    return _print(report(title, difference, store, committed, drifted, every=every), as_markdown)


def _print_between(place: Source, scale: Scale, labels: tuple[str, str], every: bool, as_markdown: bool) -> int:
    """Print the difference of two trainings. Raises ExperimentError for a label that no training has."""
    side, _ = read_sides(place, place, scale)
    trainings = {step.label: step for step in side.steps if step.work is not None}
    for label in labels:
        if label not in trainings:
            raise ExperimentError(f"--between {label}: the trainings of {side.experiment} are {', '.join(trainings)}")
    old, new = (trainings[label] for label in labels)
    title = f"{side.experiment}, {scale.value} scale: {old.name} → {new.name}"
    lines = list(apart(compare_steps(old, new, {}), every)) or [line("no difference except their starting points")]
    return _print(document(title, lines), as_markdown)


def _print(text: str, as_markdown: bool) -> int:
    console = open_console()
    if as_markdown or not console.is_terminal:
        click.echo(text, nl=False)
    else:
        from rich.markdown import Markdown

        console.print(Markdown(text))
    return Exit.OK


def _sources(
    file: Path, other: Path | None, old: str | None, new: str | None, settings: tuple[str, ...]
) -> tuple[Source, Source]:
    """Return the old and the new side. Raises ExperimentError for a file or revision that does not exist."""
    if other is None and old is None and new is None and settings:
        return _source(file, None, "as it is"), _source(file, None, " ".join(settings), settings)
    if other is not None:
        for path, revision in ((file, old), (other, new)):
            if revision is None and not path.is_file():
                raise ExperimentError(f"{path}: no such experiment file{near_files(path.absolute())}")
        return _source(file, old, str(file)), _source(other, new, str(other), settings)
    if old is None:
        commit, what = base_of(top_of(file))
        before = Source(file=file, commit=commit, named=f"{commit[:8]} ({what})")
    else:
        before = _source(file, old, "")
    return before, _source(file, new, "" if new else "working tree", settings)


def _source(file: Path, revision: str | None, named: str, settings: tuple[str, ...] = ()) -> Source:
    if revision is None:
        return Source(file=file, commit="", named=named, settings=settings)
    commit = commit_of(top_of(file), revision)
    shown = revision if commit.startswith(revision) else f"{revision} ({commit[:8]})"
    shown = f"{named} at {shown}" if named else shown
    return Source(file=file, commit=commit, named=shown, settings=settings)
