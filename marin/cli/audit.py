"""``marin audit``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.text import Text

from marin.cli.completions import complete_path
from marin.cli.exits import Exit
from marin.cli.options import (
    JSON,
    PREFIX,
    SET,
    echo_json,
    ends,
    existing_store,
    must_be_of_an_experiment,
    plan_of,
    scale_option,
)
from marin.report.table import Column, open_console, print_table, say
from marin.steps.scale import Scale
from marin.store.numbers import counted, listed

if TYPE_CHECKING:
    from marin.report.audit import Audit, Claim, Result

NAMED = 4  # outputs of a claim, and subjects of a result's line; --json has all
CLAIMS = 12  # of one grade
COLUMNS = (Column(heading="result"), Column(heading="made by"), Column(heading="verdict"))
STYLES = ("red", "yellow", "cyan")  # of grades, worst first


@click.command()
@click.argument("experiments", nargs=-1, metavar="[EXPERIMENT]...", shell_complete=complete_path)
@click.option("--days", type=click.IntRange(min=1), default=30, show_default=True, help="Verified within so many.")
@scale_option()
@PREFIX
@SET
@JSON
@ends
def command(
    experiments: tuple[str, ...], days: int, scale: Scale, prefix: str, settings: tuple[str, ...], as_json: bool
) -> int:
    """One page for whoever is to rely on results: what is wrong, what is doubtful, what somebody decided.

    Of the results of EXPERIMENT and of all that they were made from, or of everything in the store. Reads only.
    Exit code 3 if something is not to be trusted.
    """
    from marin.report.audit import Grade, audit_plans, audit_store

    store = existing_store(prefix)
    if experiments:
        audit = audit_plans(store, [plan_of(each, scale, prefix, settings) for each in experiments], days)
    else:
        must_be_of_an_experiment(settings)
        audit = audit_store(store, days)
    if as_json:
        echo_json(_as_json(audit))
    else:
        _print(open_console(), audit, f"{', '.join(experiments)} · {scale.value}" if experiments else "", store.prefix)
    return Exit.DRIFT if audit.of(Grade.UNTRUSTED) else Exit.OK


def _as_json(audit: Audit) -> dict[str, Any]:
    def described(claim: Claim) -> dict[str, Any]:
        return {"grade": claim.grade.value, "subject": claim.subject, "text": claim.text}

    return {
        "outputs": len(audit.scope),
        "results": [
            {
                "result": result.name,
                "step": result.step,
                "identity": result.identity,
                "rests_on": len(result.rests_on),
                "claims": [described(claim) for claim in audit.about(result)],
            }
            for result in audit.results
        ],
        "claims": [
            {
                **described(claim),
                "steps": audit.names(claim),
                "outputs": [output._asdict() for output in outputs],
            }
            for claim, outputs in audit.claims.items()
        ],
    }


def _print(console: Console, audit: Audit, experiments: str, prefix: str) -> None:
    from marin.report.audit import Grade, span

    outputs = counted(len(audit.scope), "output")
    about = f"{experiments}: {counted(len(audit.results), 'result')}, resting on {outputs}" if experiments else outputs
    say(console, f"{about}, {span(audit)} — store {prefix}", "bold")
    if audit.results:
        console.print()
        print_table(console, COLUMNS, [[each.name, each.step, _verdict(audit, each)] for each in audit.results])
    for grade, style in zip(Grade, STYLES, strict=True):
        claims = audit.of(grade)
        if not claims:
            continue
        say(console, f"\n{grade.value}", f"bold {style}")
        rows: list[list[Text | str]] = []
        for claim in claims[:CLAIMS]:
            names = audit.names(claim)
            text = Text.assemble(claim.text, (f"  {listed(names, NAMED)}" if names else "", "dim"))
            rows.append([Text(claim.subject, style=style), str(len(names) or ""), text])
        print_table(console, (Column(), Column(right=True), Column()), rows)
        if len(claims) > CLAIMS:
            say(console, f"and {len(claims) - CLAIMS} more: --json", "dim")
    if not audit.claims:
        say(console, "nothing is wrong, nothing was accepted, nothing came from outside", "green")


def _verdict(audit: Audit, result: Result) -> Text:
    from marin.report.audit import Grade

    claims = audit.about(result)
    if not claims or claims[0].grade is Grade.KNOWN:
        return Text("nothing against it", style="green")
    worst = claims[0].grade
    subjects = list(dict.fromkeys(claim.subject for claim in claims if claim.grade is worst))
    return Text(f"{worst.value}: {listed(subjects, NAMED)}", style=STYLES[list(Grade).index(worst)])
