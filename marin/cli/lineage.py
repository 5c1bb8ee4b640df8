"""``marin lineage``."""

from __future__ import annotations

from collections.abc import Iterator

import click
from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from marin.cli.completions import complete_field, complete_output, complete_path
from marin.cli.exits import Exit
from marin.cli.options import PREFIX, echo_json, ends, existing_store, experiment_in, scale_option
from marin.errors import BadField
from marin.numbers import counted
from marin.report.annotations import BAD, AnnotationKind, Annotations
from marin.report.lineage_tree import Direction, LineageTree, Node, walk
from marin.report.table import Column, open_console, print_table, say
from marin.report.terminal import describe_facts
from marin.steps.scale import Scale
from marin.store.lineage import Output, output_of, read_lineage
from marin.store.lookup import hint, origin, outputs_named, outputs_of
from marin.store.record import Record
from marin.store.revocation import revoked

DEPTH = 12  # levels; what is deeper is counted, and --json has it all
NAMES = 3  # of a folded line
COLUMNS = (
    Column(heading="output"),
    Column(heading="identity"),
    Column(heading="made"),
    Column(heading="by"),
    Column(heading="experiment", spare=2),
    Column(heading="holds", spare=1),
    Column(heading="trust"),
)


@click.command()
@click.argument("direction", type=click.Choice(Direction, case_sensitive=False))
@click.argument("step", shell_complete=complete_output)
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    metavar="KIND",
    help="List only these: checkpoint, tokens …",
    shell_complete=complete_field("kind"),
)
@click.option("--experiment", metavar="FILE", help="STEP as this experiment has it now.", shell_complete=complete_path)
@scale_option()
@click.option("--depth", type=click.IntRange(min=1), default=DEPTH, show_default=True, help="Levels of the tree.")
@click.option("--every", is_flag=True, help="Do not fold like outputs into one line.")
@PREFIX
@click.option("--json", "as_json", is_flag=True, help="For scripts: every output, whatever --depth.")
@click.option("--markdown", is_flag=True, help="As a nested list, for an issue or a pull request.")
@ends
def command(
    direction: Direction,
    step: str,
    kinds: tuple[str, ...],
    experiment: str | None,
    scale: Scale,
    depth: int,
    every: bool,
    prefix: str,
    as_json: bool,
    markdown: bool,
) -> int:
    """What STEP was made from (up), or what was made from it (down).

    STEP is op/label, op, label, identity, the path of an output, or the digest of its bytes. Outputs that a rebuild
    replaced are there too, and what was made from the same bytes under another name.

    What was trained on this?  marin lineage down STEP --kind checkpoint
    """
    store = existing_store(prefix)
    lineage = read_lineage(store)
    known = {record.kind for record in lineage.records.values()}
    for kind in kinds:
        if kind not in known:
            raise BadField(f"--kind {kind}: this store has no such artifact; {hint(kind, known)}")
    if experiment is None:
        starts = outputs_named(lineage, store, step)
    else:
        from marin.plan.plan import resolve_names

        named = sorted(resolve_names([step], experiment_in(experiment, scale).steps()), key=lambda each: each.name)
        starts = outputs_of(lineage, {each.identity: each.name for each in named})
    tree = LineageTree(direction, starts, lineage, Annotations(store, lineage, revoked(store)))
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
        marks = tree.marks[output]
        trust = [f"{mark.kind}: {mark.text}" for mark in marks] + _same_bytes(tree, [output])
        style = _style(marks[0].kind) if marks else ""
        made = record.provenance
        rows.append(
            [
                Text(record.name, style="bold"),
                record.identity[:12],
                made.started[:16],
                made.who,
                made.experiment,
                describe_facts(record.facts),
                Text("; ".join(trust), style=style),
            ]
        )
    print_table(console, COLUMNS, rows)
    verb = "it was made from" if tree.direction is Direction.UP else "made from it"
    say(console, f"{verb}: {len(records)} {' or '.join(kinds)}, of {tree.tally()}")


def _print_tree(console: Console, tree: LineageTree, depth: int, *, every: bool) -> None:
    roots, further = tree.tree(depth=depth, every=every)
    for root in roots:
        drawn: list[Tree] = []  # the last one of each level
        for level, node in walk([root]):
            (name, about), *marks = _lines(tree, node)
            label = Text.assemble((name, "bold"), "  ", (about, "dim"))
            for text, style in marks:
                label.append(f"\n{text}", style=style)
            branch = drawn[level - 1].add(label) if level else Tree(label, guide_style="dim")
            drawn[level:] = [branch]
        console.print(drawn[0])
    up = tree.direction is Direction.UP
    empty = "nothing of the store: it is where its lineage begins" if up else "nothing"
    say(console, f"{'was made from' if up else 'made from it'}: {tree.tally() if tree.found else empty}")
    if further:
        console.print(f"{further} more are further away: --depth {depth * 4}, or --json", style="dim")


def _markdown(tree: LineageTree, kinds: tuple[str, ...], depth: int, *, every: bool) -> Iterator[str]:
    """A nested list."""
    further = 0
    if kinds:
        roots = [Node([output_of(record)]) for record in tree.of_kind(kinds)]
    else:
        roots, further = tree.tree(depth=depth, every=every)
    for level, node in walk(roots):
        (name, about), *marks = ((_escaped(text), _escaped(about)) for text, about in _lines(tree, node))
        yield f"{'  ' * level}- **{name}** {about}" + "".join(f"<br>*{text}*" for text, _ in marks)
    if further:
        yield f"- {further} more are further away"
    yield ""
    yield f"{'Made from' if tree.direction is Direction.UP else 'From it were made'}: {tree.tally()}."


def _escaped(text: str) -> str:
    return "".join(f"\\{letter}" if letter in r"\`*_{}[]<>#|~" else letter for letter in text)


def _lines(tree: LineageTree, node: Node) -> list[tuple[str, str]]:
    """(name, about), then (mark, style) of each mark."""
    output, lineage = node.outputs[0], tree.lineage
    record = lineage.records.get(output)
    marks = tree.marks[output]
    kind = f"{record.kind}, " if record is not None else ""
    aliases = sum(len(tree.aliases.get(each, ())) for each in node.outputs)
    further = f" · {counted(aliases, 'alias', 'aliases')}" if aliases else ""
    further += f" · and {node.nearer} shown nearer to the start" if node.nearer else ""
    if len(node.outputs) > 1:
        op = record.op if record is not None else lineage.name_of(output)
        labels = list(dict.fromkeys(lineage.name_of(each).removeprefix(f"{op}/") for each in node.outputs))
        lines = [(f"{op}/… × {len(node.outputs)}", f"{kind}{_few(labels)}{further}")]
        for mark in marks:
            shared = all(mark in tree.marks[each] for each in node.outputs)
            lines.append((f"{mark.kind}: {mark.text}" if shared else f"all of them {mark.kind}", _style(mark.kind)))
    else:
        lines = [(lineage.name_of(output), f"{output.identity[:12]}  {kind}{_made(tree, output)}{further}")]
        lines += [(f"{mark.kind}: {mark.text}", _style(mark.kind)) for mark in marks]
    return [*lines, *((text, "dim") for text in _same_bytes(tree, node.outputs))]


def _few(names: list[str]) -> str:
    return ", ".join(names[:NAMES]) + (" …" if len(names) > NAMES else "")


def _made(tree: LineageTree, output: Output) -> str:
    """When; by whom and for what only where it is not as at the start."""
    record, start = tree.lineage.records.get(output), tree.lineage.records.get(tree.starts[0])
    if record is None:
        return ""
    if start is None or output in tree.starts or _by(record) != _by(start):
        return origin(record)
    return record.provenance.started[:16]


def _by(record: Record) -> tuple[str, str]:
    return record.provenance.who, record.provenance.experiment


def _same_bytes(tree: LineageTree, outputs: list[Output]) -> list[str]:
    """Other names of these bytes, in a line."""
    names = {tree.lineage.name_of(output) for output in outputs}
    aliases = {tree.lineage.name_of(alias): alias for output in outputs for alias in tree.aliases.get(output, ())}
    others = [f"{name} {alias.identity[:12]}" for name, alias in aliases.items() if name not in names]
    return [f"the same bytes: {_few(others)}"] if others else []


def _style(kind: AnnotationKind) -> str:
    if kind in BAD:
        return "red bold" if kind is AnnotationKind.REVOKED else "red"
    return "dim" if kind in (AnnotationKind.SUPERSEDED, AnnotationKind.ALIAS) else "yellow"
