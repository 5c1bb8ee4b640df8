"""``marin lineage``."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import click
from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from marin.cli.completions import complete_held, complete_output, complete_path
from marin.cli.exits import Exit
from marin.cli.options import PREFIX, echo_json, ends, scale_option
from marin.errors import BadField
from marin.report.lineage_tree import Direction, LineageTree, Node
from marin.report.marks import BAD, Annotation, MarkKind, Marks
from marin.report.table import Column, open_console, print_table
from marin.report.terminal import describe_facts
from marin.steps.scale import Scale
from marin.store.inventory import must_exist
from marin.store.lineage import Lineage, Output, read_lineage
from marin.store.lookup import hint, origin, outputs_named, outputs_of
from marin.store.record import Record
from marin.store.revocation import revoked
from marin.store.store import open_store

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
    shell_complete=complete_held("kind"),
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
    store = open_store(prefix)
    must_exist(store)
    lineage = read_lineage(store)
    _check_kinds(kinds, lineage)
    starts = outputs_named(lineage, store, step) if experiment is None else _in(experiment, scale, step, lineage)
    family = LineageTree(direction, starts, lineage, Marks(store, lineage, revoked(store)))
    if as_json:
        told = family.to_json()
        told["outputs"] = [node for node in told["outputs"] if not kinds or node.get("kind") in kinds]
        echo_json(told)
        return Exit.OK
    if markdown:
        click.echo("\n".join(_markdown(family, kinds, depth, every=every)))
    else:
        _print(open_console(), family, kinds, depth, every=every)
    for text in lineage.unreadable:
        click.echo(f"incomplete: {text}", err=True)
    return Exit.OK


def _in(experiment: str, scale: Scale, step: str, lineage: Lineage) -> list[Output]:
    from marin.plan.plan import resolve_names
    from marin.steps.experiment_file import built_by, load_build

    steps = built_by(*load_build(experiment), scale).steps()
    named = sorted(resolve_names([step], steps), key=lambda held: held.name)
    return outputs_of(lineage, {held.identity: held.name for held in named})


def _check_kinds(kinds: tuple[str, ...], lineage: Lineage) -> None:
    known = {record.kind for record in lineage.records.values()}
    for kind in kinds:
        if kind not in known:
            raise BadField(f"--kind {kind}: this store has no such artifact; {hint(kind, known)}")


def _print(console: Console, family: LineageTree, kinds: tuple[str, ...], depth: int, *, every: bool) -> None:
    if kinds:
        _print_list(console, family, kinds)
        return
    roots, further = family.tree(depth=depth, every=every)
    for root in roots:
        console.print(_tree(family, root))
    _say_tally(console, family)
    if further:
        console.print(f"{further} more are further away: --depth {depth * 4}, or --json", style="dim")


def _say_tally(console: Console, family: LineageTree) -> None:
    verb = "was made from" if family.direction is Direction.UP else "made from it"
    empty = "nothing of the store: it is where its lineage begins" if family.direction is Direction.UP else "nothing"
    console.print(Text(f"{verb}: {family.tally() if family.found else empty}"), soft_wrap=True)


def _print_list(console: Console, family: LineageTree, kinds: tuple[str, ...]) -> None:
    records = family.of_kind(kinds)
    rows: list[list[Text | str]] = []
    for record in records:
        marks = family.marks[Output(record.identity, record.root)]
        told = "; ".join(f"{mark.kind}: {mark.text}" for mark in marks)
        output = Output(record.identity, record.root)
        told = "; ".join(filter(None, [told, _also(family, [output], family.aliases.get(output, []))]))
        style = _style(marks[0].kind) if marks else ""
        name = Text(record.name, style="bold")
        by = record.provenance
        facts = describe_facts(record.facts)
        rows.append(
            [name, record.identity[:12], by.started[:16], by.who, by.experiment, facts, Text(told, style=style)]
        )
    print_table(console, COLUMNS, rows)
    verb = "it was made from" if family.direction is Direction.UP else "made from it"
    console.print(Text(f"{verb}: {len(records)} {' or '.join(kinds)}, of {family.tally()}"), soft_wrap=True)


def _tree(family: LineageTree, root: Node) -> Tree:
    """Without recursion: chains are as deep as experiments are."""
    top = Tree(_label(family, root), guide_style="dim")
    pending = [(root, top)]
    while pending:
        branch, drawn = pending.pop()
        pending += [(child, drawn.add(_label(family, child))) for child in branch.children]
    return top


def _label(family: LineageTree, branch: Node) -> Text:
    lines = list(_lines(family, branch, lambda text: text))
    label = Text.assemble((lines[0][0], "bold"), "  ", (lines[0][1], "dim"))
    for text, style in lines[1:]:
        label.append(f"\n{text}", style=style)
    return label


def _markdown(family: LineageTree, kinds: tuple[str, ...], depth: int, *, every: bool) -> Iterator[str]:
    if kinds:
        for record in family.of_kind(kinds):
            yield from _bullets(family, Node([Output(record.identity, record.root)]), 0)
    else:
        roots, further = family.tree(depth=depth, every=every)
        pending = [(root, 0) for root in reversed(roots)]
        while pending:
            branch, level = pending.pop()
            yield from _bullets(family, branch, level)
            pending += [(child, level + 1) for child in reversed(branch.children)]
        if further:
            yield f"- {further} more are further away"
    yield ""
    yield f"{'Made from' if family.direction is Direction.UP else 'From it were made'}: {family.tally()}."


def _bullets(family: LineageTree, branch: Node, level: int) -> Iterator[str]:
    (name, about), *marks = _lines(family, branch, _escaped)
    yield f"{'  ' * level}- **{name}** {about}" + "".join(f"<br>*{text}*" for text, _ in marks)


def _escaped(text: str) -> str:
    return "".join(f"\\{letter}" if letter in r"\`*_{}[]<>#|~" else letter for letter in text)


def _lines(family: LineageTree, branch: Node, clean: Callable[[str], str]) -> Iterator[tuple[str, str]]:
    """(name, about), then (mark, style) of each mark."""
    output, lineage = branch.outputs[0], family.lineage
    record, name = lineage.records.get(output), lineage.name_of(output)
    marks = family.marks[output]
    aliases = [held for one in branch.outputs for held in family.aliases.get(one, ())]
    count = f" · {len(aliases)} alias{'es' if len(aliases) > 1 else ''}" if aliases else ""
    further = count + (f" · and {branch.elsewhere} shown nearer to the start" if branch.elsewhere else "")
    if len(branch.outputs) > 1:
        op = record.op if record is not None else name
        labels = list(dict.fromkeys(lineage.name_of(held).removeprefix(f"{op}/") for held in branch.outputs))
        names = ", ".join(labels[:NAMES]) + (" …" if len(labels) > NAMES else "")
        yield clean(f"{op}/… × {len(branch.outputs)}"), clean(f"{_kind(record)}{names}{further}")
        marks = [mark if _alike(family, branch, mark) else Annotation(mark.kind, "") for mark in marks]
    else:
        yield clean(name), clean(f"{output.identity[:12]}  {_kind(record)}{_made(family, output)}{further}")
    for mark in marks:
        yield clean(f"{mark.kind}: {mark.text}" if mark.text else f"all of them {mark.kind}"), _style(mark.kind)
    if also := _also(family, branch.outputs, aliases):
        yield clean(also), "dim"


def _made(family: LineageTree, output: Output) -> str:
    """When; by whom and for what only where it is not as at the start."""
    record, start = family.lineage.records.get(output), family.lineage.records.get(family.starts[0])
    if record is None:
        return ""
    if start is None or output in family.starts or _by(record) != _by(start):
        return origin(record)
    return record.provenance.started[:16]


def _by(record: Record) -> tuple[str, str]:
    return record.provenance.who, record.provenance.experiment


def _also(family: LineageTree, outputs: list[Output], aliases: list[Output]) -> str:
    """Other names of these bytes."""
    names = {family.lineage.name_of(output) for output in outputs}
    others = {family.lineage.name_of(held): held for held in aliases if family.lineage.name_of(held) not in names}
    named = [f"{name} {held.identity[:12]}" for name, held in others.items()]
    return f"the same bytes: {', '.join(named[:NAMES])}{' …' if len(named) > NAMES else ''}" if named else ""


def _kind(record: Record | None) -> str:
    return f"{record.kind}, " if record is not None else ""


def _alike(family: LineageTree, branch: Node, mark: Annotation) -> bool:
    return all(mark in family.marks[output] for output in branch.outputs)


def _style(kind: MarkKind) -> str:
    if kind in BAD:
        return "red bold" if kind is MarkKind.REVOKED else "red"
    return "dim" if kind in (MarkKind.SUPERSEDED, MarkKind.ALIAS) else "yellow"
