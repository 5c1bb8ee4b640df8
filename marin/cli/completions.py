"""Complete names of steps, results and outputs for Tab. Never prints and never fails: at worst it offers nothing."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from marin.steps.experiment import Experiment
    from marin.store.inventory import Inventory
    from marin.store.store import Store

type Completer = Callable[[click.Context, click.Parameter, str], "list[CompletionItem]"]
type Named = tuple[str, str]  # a completion, and a few words about it


def quietly(offer: Callable[[click.Context], Iterable[Named]]) -> Completer:
    """Return a completer of the offered names that start with the word so far.

    The completer hides output of an experiment file, and offers nothing if the file raises.
    """

    def complete(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            try:
                offered = dict(offer(ctx))
            except (Exception, SystemExit):
                offered = {}
        return [CompletionItem(name, help=about) for name, about in offered.items() if name.startswith(incomplete)]

    return complete


def _experiment(ctx: click.Context) -> Experiment:
    from marin.steps.experiment_file import built_by, load_build
    from marin.steps.scale import Scale

    # click stops parsing at the option whose value Tab completes, and leaves the arguments in ctx.args.
    named = [ctx.params.get("experiment") or "", *(ctx.params.get("names") or ()), *ctx.args]
    file = next(name for name in named if name.endswith(".py"))
    return built_by(*load_build(file), ctx.params.get("scale") or Scale.REHEARSAL)


def _store(ctx: click.Context) -> Store:
    from marin.store.store import open_store

    return open_store(ctx.params.get("prefix") or "store")


def _inventory(ctx: click.Context) -> Inventory:
    from marin.store.inventory import read_inventory

    return read_inventory(_store(ctx))


@quietly
def complete_step(ctx: click.Context) -> Iterable[Named]:
    """Complete steps of the experiment file that the command line names already."""
    return ((step.name, step.identity[:12]) for step in _experiment(ctx).steps())


@quietly
def complete_result(ctx: click.Context) -> Iterable[Named]:
    return ((name, step.name) for name, step in _experiment(ctx).results.items())


def complete_experiment_and_steps(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[Any]:
    """Complete the experiment file first, then its steps."""
    return (complete_step if ctx.params.get("names") else complete_path)(ctx, parameter, incomplete)


@quietly
def complete_output(ctx: click.Context) -> Iterable[Named]:
    return ((record.name, record.identity[:12]) for record in _inventory(ctx).newest_first())


@quietly
def complete_attempt(ctx: click.Context) -> Iterable[Named]:
    """Complete steps that have an attempt in the store."""
    from marin.store.attempts import parse_attempt

    objects = _store(ctx).objects
    names = (f"{op}/{directory}" for op in objects.list("") for directory in objects.list(op))
    return ((attempt.name, attempt.short) for name in names if (attempt := parse_attempt(name)) is not None)


@quietly
def complete_file(ctx: click.Context) -> Iterable[Named]:
    """Complete files of the output that the command line names already."""
    from marin.store.lookup import output_called
    from marin.store.numbers import write_bytes

    inventory = _inventory(ctx)
    record = output_called(inventory, ctx.params.get("output") or ctx.args[0], latest=True)
    return [(entry.path, write_bytes(entry.size)) for entry in inventory.store.manifest(record)]


@quietly
def complete_run(ctx: click.Context) -> Iterable[Named]:
    from marin.report.history import run_names

    return [("latest", "the last run"), *((name, "") for name in reversed(run_names(_store(ctx))))]


def complete_field(field: str) -> Completer:
    """Return a completer of one field of the store's outputs: operator, label, kind or experiment."""

    def offer(ctx: click.Context) -> Iterable[Named]:
        from marin.store.lookup import field_of

        return ((field_of(record, field), "") for record in _inventory(ctx).newest_first())

    return quietly(offer)


def complete_path(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[Any]:
    """Let the shell complete files and folders."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="dir" if parameter.name == "prefix" else "file")]


def path_or(names: Completer) -> Completer:
    def complete(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [*complete_path(ctx, parameter, incomplete), *names(ctx, parameter, incomplete)]

    return complete
