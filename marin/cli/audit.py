"""``marin audit``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.text import Text

from marin.cli.completions import complete_path
from marin.cli.exits import Exit
from marin.cli.options import JSON, PREFIX, echo_json, ends, plan_of, scale_option
from marin.report.table import Column, open_console, print_table
from marin.steps.scale import Scale
from marin.store.inventory import must_exist
from marin.store.store import open_store

if TYPE_CHECKING:
    from marin.report.audit import Audit, Claim, Grade

NAMED = 4  # outputs of a claim, and subjects of a result's line; --json has all
CLAIMS = 12  # of one grade
COLUMNS = (Column(heading="result"), Column(heading="made by"), Column(heading="verdict"))


@click.command()
@click.argument("experiments", nargs=-1, metavar="[EXPERIMENT]...", shell_complete=complete_path)
@click.option("--days", type=click.IntRange(min=1), default=30, show_default=True, help="Verified within so many.")
@scale_option()
@PREFIX
@JSON
@ends
def command(experiments: tuple[str, ...], days: int, scale: Scale, prefix: str, as_json: bool) -> int:
    """One page for whoever is to rely on results: what is wrong, what is doubtful, what somebody decided.

    Of the results of EXPERIMENT and of all that they were made from, or of everything in the store. Reads only.
    Exit code 3 if something is not to be trusted.
    """
    from marin.report.audit import Grade, audit_plans, audit_store

    store = open_store(prefix)
    must_exist(store)
    if experiments:
        made = audit_plans(store, [plan_of(each, scale, prefix) for each in experiments], days)
    else:
        made = audit_store(store, days)
    if as_json:
        echo_json(_as_json(made))
    else:
        _print(open_console(), made, f"{', '.join(experiments)} · {scale.value}" if experiments else "", store.prefix)
    return Exit.DRIFT if made.of(Grade.UNTRUSTED) else Exit.OK


def _as_json(made: Audit) -> dict[str, Any]:
    def told(claim: Claim) -> dict[str, Any]:
        return {"grade": claim.grade.value, "subject": claim.subject, "text": claim.text}

    return {
        "outputs": len(made.scope),
        "results": [
            {
                "result": result.name,
                "step": result.step,
                "identity": result.identity,
                "rests_on": len(result.rests_on),
                "claims": [told(claim) for claim in made.about(result)],
            }
            for result in made.results
        ],
        "claims": [
            {
                **told(claim),
                "steps": made.names(claim),
                "outputs": [{"identity": output.identity, "root": output.root} for output in outputs],
            }
            for claim, outputs in made.claims.items()
        ],
    }


def _print(console: Console, made: Audit, experiments: str, prefix: str) -> None:
    from marin.report.audit import Grade, span

    outputs = f"{len(made.scope)} output{'' if len(made.scope) == 1 else 's'}"
    results = f"{len(made.results)} result{'' if len(made.results) == 1 else 's'}"
    about = f"{experiments}: {results}, resting on {outputs}" if experiments else outputs
    console.print(Text(f"{about}, {span(made)} — store {prefix}", style="bold"), soft_wrap=True)
    if made.results:
        console.print()
        print_table(console, COLUMNS, [[each.name, each.step, _verdict(made, each)] for each in made.results])
    styles = {Grade.UNTRUSTED: "red", Grade.DOUBTFUL: "yellow", Grade.KNOWN: "cyan"}
    for grade, style in styles.items():
        _print_grade(console, made, grade, style)
    if not made.claims:
        console.print(Text("nothing is wrong, nothing was accepted, nothing came from outside", style="green"))


def _verdict(made: Audit, result: Any) -> Text:
    from marin.report.audit import Grade

    claims = made.about(result)
    worst = [claim for claim in claims if claim.grade is claims[0].grade and claim.grade is not Grade.KNOWN]
    if not worst:
        return Text("nothing against it", style="green")
    subjects = list(dict.fromkeys(claim.subject for claim in worst))
    more = f" and {len(subjects) - NAMED} more" if len(subjects) > NAMED else ""
    style = "red" if worst[0].grade is Grade.UNTRUSTED else "yellow"
    return Text(f"{worst[0].grade.value}: {', '.join(subjects[:NAMED])}{more}", style=style)


def _print_grade(console: Console, made: Audit, grade: Grade, style: str) -> None:
    claims = made.of(grade)
    if not claims:
        return
    console.print(Text(f"\n{grade.value}", style=f"bold {style}"))
    rows: list[list[Text | str]] = []
    for claim in claims[:CLAIMS]:
        names = made.names(claim)
        count = len(names)
        listed = ", ".join(names[:NAMED]) + (f" and {count - NAMED} more" if count > NAMED else "")
        rows.append([Text(claim.subject, style=style), str(count or ""), _told(claim, listed)])
    print_table(console, (Column(), Column(right=True), Column()), rows)
    if len(claims) > CLAIMS:
        console.print(Text(f"and {len(claims) - CLAIMS} more: --json", style="dim"))


def _told(claim: Claim, names: str) -> Text:
    return Text.assemble(claim.text, (f"  {names}" if names else "", "dim"))
