"""``marin lineage``."""

from __future__ import annotations

from collections.abc import Iterator

import click
from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from marin.cli.completions import complete_field, complete_output, complete_path
from marin.cli.exits import Exit
from marin.cli.options import ExperimentOptions, echo_json, existing_store
from marin.cli.parameters import all_of, argument, command_line, flag, option
from marin.errors import BadField, did_you_mean
from marin.report.claims import StoreClaims, Subject
from marin.report.lineage_tree import Direction, LineageTree, Node, walk
from marin.report.table import columns_of, open_console, print_table, say
from marin.report.words import describe_facts, escaped
from marin.store.lineage import output_of, read_lineage
from marin.store.lookup import outputs_named, outputs_of
from marin.store.revocation import revoked

DEPTH = 12  # levels; deeper outputs are only counted, and --json has all
STYLES = {  # style of a subject; others are yellow
    "": "dim",
    Subject.REVOKED: "red bold",
    Subject.UNTRUSTED: "red",
    Subject.SUPERSEDED: "dim",
    Subject.ALIAS: "dim",
}


@command_line()
def command(
    step: str = argument(complete=complete_output),
    down: bool = flag("--down", "Show the outputs that were built from STEP."),
    kinds: tuple[str, ...] = option(
        "--kind",
        "Only this kind: checkpoint, tokens … (repeatable)",
        multiple=True,
        metavar="KIND",
        complete=complete_field("kind"),
    ),
    experiment: str | None = option(
        "--experiment",
        "Look up STEP in the current version of this experiment.",
        metavar="FILE",
        complete=complete_path,
    ),
    options: ExperimentOptions = all_of(ExperimentOptions),
    depth: int = option("--depth", "Levels of the tree.", type=click.IntRange(min=1), default=DEPTH),
    every: bool = flag("--every", "List each output instead of folding similar ones."),
    as_json: bool = flag("--json", "Print JSON for scripts: every output, at any depth."),
    markdown: bool = flag("--markdown", "Print a nested list, for an issue or a pull request."),
) -> int:
    """Show the inputs of STEP, or with --down everything built from it.

    STEP is op/label, op, label, identity, the path of an output, or the digest of its bytes. The tree includes outputs
    that a rebuild replaced, and outputs that were built from the same bytes under another name.

    List the checkpoints that were trained on STEP:  marin lineage STEP --down --kind checkpoint
    """
    store = existing_store(options.prefix)
    lineage = read_lineage(store)
    known = {record.kind for record in lineage.records.values()}
    for kind in kinds:
        if kind not in known:
            raise BadField(f"--kind {kind}: this store has no artifact of that kind; {did_you_mean(kind, known)}")
    if experiment is None:
        options.must_be_of_an_experiment()
        starts = outputs_named(lineage, store, step)
    else:
        from marin.plan.plan import resolve_names

        steps = options.experiment(experiment).steps()
        named = sorted(resolve_names([step], steps), key=lambda each: each.name)
        starts = outputs_of(lineage, {each.identity: each.name for each in named})
    tree = LineageTree(
        Direction.DOWN if down else Direction.UP, starts, lineage, StoreClaims(store, lineage, revoked(store))
    )
    if as_json:
        described = tree.to_json()
        described["outputs"] = [node for node in described["outputs"] if not kinds or node.get("kind") in kinds]
        echo_json(described)
        return Exit.OK
    if markdown:
        click.echo("\n".join(_markdown(tree, kinds, depth, every=every)))
    elif kinds:
        _print_list(open_console(), tree, kinds)
    else:
        _print_tree(open_console(), tree, depth, every=every)
    for text in lineage.unreadable:
        click.echo(f"incomplete: {text}", err=True)
    return Exit.OK


def _print_list(console: Console, tree: LineageTree, kinds: tuple[str, ...]) -> None:
    records = tree.of_kind(kinds)
    rows: list[list[Text | str]] = []
    for record in records:
        output = output_of(record)
        claims = tree.claims[output]
        trust = [f"{claim.subject}: {claim.text}" for claim in claims] + tree.same_bytes([output])
        style = STYLES.get(claims[0].subject, "yellow") if claims else ""
        made = record.provenance
        who = [made.ended[:16], made.who, made.experiment, describe_facts(record.facts)]
        rows.append([Text(record.name, "bold"), record.identity[:12], *who, Text("; ".join(trust), style)])
    print_table(console, columns_of("output | identity | made | by | experiment ?2 | holds ?1 | trust"), rows)
    verb = "it was made from" if tree.direction is Direction.UP else "made from it"
    say(console, f"{verb}: {len(records)} {' or '.join(kinds)}, of {tree.tally()}")


def _print_tree(console: Console, tree: LineageTree, depth: int, *, every: bool) -> None:
    roots, further = tree.tree(depth=depth, every=every)
    for root in roots:
        drawn: list[Tree] = []  # the last branch of each level
        for level, node in walk([root]):
            about = tree.about(node)
            label = Text.assemble((about.name, "bold"), "  ", (about.text, "dim"))
            for text, subject in about.claims:
                label.append(f"\n{text}", style=STYLES.get(subject, "yellow"))
            branch = drawn[level - 1].add(label) if level else Tree(label, guide_style="dim")
            drawn[level:] = [branch]
        console.print(drawn[0])
    up = tree.direction is Direction.UP
    empty = "nothing in the store: its lineage begins here" if up else "nothing"
    say(console, f"{'was made from' if up else 'made from it'}: {tree.tally() if tree.found else empty}")
    if further:
        console.print(f"{further} more are deeper: --depth {depth * 4}, or --json", style="dim")


def _markdown(tree: LineageTree, kinds: tuple[str, ...], depth: int, *, every: bool) -> Iterator[str]:
    """Yield the lines of a nested list."""
    further = 0
    if kinds:
        roots = [Node([output_of(record)]) for record in tree.of_kind(kinds)]
    else:
        roots, further = tree.tree(depth=depth, every=every)
    for level, node in walk(roots):
        about = tree.about(node)
        marks = "".join(f"<br>*{escaped(text)}*" for text, _ in about.claims)
        yield f"{'  ' * level}- **{escaped(about.name)}** {escaped(about.text)}{marks}"
    if further:
        yield f"- {further} more are deeper"
    yield ""
    yield f"{'Made from' if tree.direction is Direction.UP else 'From it were made'}: {tree.tally()}."
