"""``marin diff``."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import click
from rich.text import Text

from marin.cli.completions import complete_path, complete_revision
from marin.cli.exits import Exit
from marin.cli.options import JSON, echo_json, ends, experiment_argument, scale_option
from marin.errors import ExperimentError
from marin.report.diff.cost import to_run, trained_anew, training_sum
from marin.report.diff.difference import Difference, StepDifference, compare_sides
from marin.report.diff.experiments import Source, read_sides
from marin.report.diff.revisions import base_of, commit_of, top_of
from marin.report.table import open_console
from marin.steps.experiment_file import near_files
from marin.steps.scale import Scale

WORKING_TREE = "working tree"


@click.command()
@experiment_argument()
@experiment_argument("other", required=False)
@click.option(
    "--from",
    "old_revision",
    metavar="REV",
    help="EXPERIMENT as it was at this git revision.",
    shell_complete=complete_revision,
)
@click.option(
    "--to",
    "new_revision",
    metavar="REV",
    help="The other side at this revision; else the working tree.",
    shell_complete=complete_revision,
)
@scale_option(Scale.FULL)
@click.option("--prefix", help="A store: what of each side it holds already.", shell_complete=complete_path)
@click.option("--all", "every", is_flag=True, help="Shorten nothing.")
@click.option("--markdown", "as_markdown", is_flag=True, help="For a pull request.")
@JSON
@ends
def command(
    experiment: str,
    other: str | None,
    old_revision: str | None,
    new_revision: str | None,
    scale: Scale,
    prefix: str | None,
    every: bool,
    as_markdown: bool,
    as_json: bool,
) -> int:
    """What differs between two experiment files, or between two git revisions of one.

    Without OTHER and --from, the working tree is compared with where its branch left main; on main, with the last
    commit. Each side is built in a process of its own from its own code; the checkout stays as it is.
    """
    old, new = _places(Path(experiment), Path(other) if other else None, old_revision, new_revision)
    difference = compare_sides(*read_sides(old, new, scale))
    committed: set[str] = set()
    store = ""
    if prefix is not None:
        from marin.store.inventory import must_exist
        from marin.store.store import open_store

        opened = open_store(prefix)
        must_exist(opened)
        store, committed = opened.prefix, opened.identities()
    title = f"{difference.new.experiment}, {scale.value} scale: {old.named} → {new.named}"
    if as_json:
        about = {"from": old.named, "to": new.named, "scale": scale.value}
        echo_json({**about, **_as_json(difference, store, committed)})
        return Exit.OK
    from marin.report.diff.report import report
    from marin.report.diff.text import markdown, print_blocks

    blocks = report(difference, store, committed, every=every)
    if as_markdown:
        click.echo(markdown(title, blocks), nl=False)
    else:
        console = open_console()
        console.print(Text(title, style="bold"), soft_wrap=True)
        print_blocks(console, blocks)
    return Exit.OK


def _places(file: Path, other: Path | None, old: str | None, new: str | None) -> tuple[Source, Source]:
    """Raises ExperimentError for a file or revision that is not there."""
    if other is not None:
        for path, revision in ((file, old), (other, new)):
            if revision is None and not path.is_file():
                raise ExperimentError(f"{path}: no such experiment file{near_files(path.absolute())}")
        return _place(file, old, str(file)), _place(other, new, str(other))
    top = top_of(file)
    if old is None:
        commit, what = base_of(top)
        before = Source(file=file, commit=commit, named=f"{commit[:8]} ({what})")
    else:
        before = _place(file, old, "")
    return before, _place(file, new, "") if new else Source(file=file, commit="", named=WORKING_TREE)


def _place(file: Path, revision: str | None, named: str) -> Source:
    if revision is None:
        return Source(file=file, commit="", named=named)
    commit = commit_of(top_of(file), revision)
    shown = revision if commit.startswith(revision) else f"{revision} ({commit[:8]})"
    return Source(file=file, commit=commit, named=f"{named} at {shown}" if named else shown)


def _as_json(difference: Difference, store: str, committed: set[str]) -> dict[str, Any]:
    counts = {str(fate): len(list(held)) for fate, held in itertools.groupby(sorted(s.fate for s in difference.steps))}
    return {
        "same": difference.is_empty,
        "counts": counts,
        "results": {"before": difference.old.results, "after": difference.new.results},
        "steps": [_step_json(step) for step in difference.steps],
        "code": [
            {
                "unit": change.unit,
                "how": change.how,
                "builds": [step.identity for step in change.builds],
                "drifts": [step.identity for step in change.drifts],
            }
            for change in difference.code
        ],
        "training": {
            "before": training_sum(difference.old.steps).to_json(),
            "after": training_sum(difference.new.steps).to_json(),
            "anew": training_sum(trained_anew(difference)).to_json(),
        },
        "store": _store_json(difference, store, committed) if store else None,
    }


def _step_json(step: StepDifference) -> dict[str, Any]:
    return {
        "step": step.name,
        "fate": step.fate,
        "was": step.renamed,
        "before": step.old.identity if step.old else None,
        "after": step.new.identity if step.new else None,
        "changes": [vars(change) for change in step.changes],
        "mixtures": [vars(change) for change in step.mixtures],
        "execution": [vars(change) for change in step.elsewhere],
    }


def _store_json(difference: Difference, store: str, committed: set[str]) -> dict[str, Any]:
    told: dict[str, Any] = {"prefix": store}
    for name, side in (("before", difference.old), ("after", difference.new)):
        left = to_run(side, committed)
        told[name] = {
            "committed": len(left.committed),
            "to_run": [step.identity for step in left.missing],
            "training": left.training.to_json(),
        }
    return told
