"""``marin audit``."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from marin.cli.completions import complete_output, path_or
from marin.cli.exits import Exit
from marin.cli.options import JSON, ExperimentOptions, echo_json, existing_store
from marin.cli.parameters import all_of, argument, command_line, flag, option
from marin.errors import BadPrefix, StoreFull
from marin.plan.plan import Plan
from marin.report.audit import Audit, Result, audit_outputs, audit_plans, audit_store, span
from marin.report.claims import Claim, Grade
from marin.report.table import byte_bar, columns_of, open_console, print_block, print_table, say
from marin.report.words import STYLES, styled
from marin.store.files.verify import Check
from marin.store.inventory import read_inventory
from marin.store.lineage import output_of
from marin.store.lookup import outputs_called, unknown
from marin.store.numbers import counted, listed, write_bytes
from marin.store.record import Record
from marin.store.store import Store
from marin.store.verifications import note_verified

NAMED = 4  # outputs of a claim, and subjects in a result's line; --json has all
CLAIMS = 12  # of each grade
COLUMNS = columns_of("result | made by | verdict")


@command_line()
def command(
    names: tuple[str, ...] = argument(nargs=-1, metavar="[EXPERIMENT|STEP]...", complete=path_or(complete_output)),
    checksums: bool = flag("--bytes", "Compare the files with their manifests first."),
    sizes_only: bool = flag("--sizes-only", "Compare names and sizes only, without reading a byte."),
    every_byte: bool = flag("--every-byte", "Compare every byte, also where the store keeps checksums."),
    days: int = option(
        "--days", "Count a check of an output's bytes for N days.", type=click.IntRange(min=1), default=30
    ),
    options: ExperimentOptions = all_of(ExperimentOptions),
    as_json: bool = JSON,
) -> int:
    """Show whether results can be trusted: errors, doubts, and decisions that somebody took.

    The audit covers the results of EXPERIMENT, or STEP (op/label, label, operator, identity, path), with all their
    inputs. Without either it covers the whole store.

    With --bytes marin first compares these outputs with their manifests, for missing, changed, truncated and extra
    files. On a disk it reads every byte; on gs:// and s3:// it compares the store's own checksums. It names the outputs
    that were built from a damaged output.

    Exit code 5 if a compared output is damaged, else 3 if something is not to be trusted.
    """
    store = existing_store(options.prefix)
    files = [name for name in names if name.endswith(".py") or Path(name).is_file()]
    steps = [name for name in names if name not in files]
    if files and steps:
        raise click.UsageError(f"{files[0]} is an experiment and {steps[0]} an output; audit one kind at a time")
    if not files:
        options.must_be_of_an_experiment()
    plans = [options.plan(each) for each in files]
    check = Check.BYTES if every_byte else Check.SIZES if sizes_only else Check.CHECKSUMS if checksums else None
    compared = None if check is None else _compare(store, plans, steps, check)
    if plans:
        audit = audit_plans(store, plans, days)
    else:
        audit = audit_outputs(store, steps, days) if steps else audit_store(store, days)
    if compared is not None:
        compared.tell(audit)
    if as_json:
        echo_json(_as_json(audit, compared))
    else:
        console = open_console()
        if compared is not None:
            _print_compared(console, compared, store)
        _print(console, audit, f"{', '.join(names)}{f' · {options.scale.value}' if files else ''}", store.prefix)
    if compared is not None and compared.wrong:
        return Exit.STORE
    return Exit.DRIFT if audit.of(Grade.UNTRUSTED) else Exit.OK


def _as_json(audit: Audit, compared: Compared | None) -> dict[str, Any]:
    return {
        "outputs": len(audit.scope),
        "results": [
            {**vars(result), "rests_on": len(result.rests_on), "claims": audit.about(result)}
            for result in audit.results
        ],
        "claims": [
            {**vars(claim), "steps": audit.names(claim), "outputs": [output._asdict() for output in outputs]}
            for claim, outputs in audit.claims.items()
        ],
        "bytes": compared and {"check": compared.check, "outputs": len(compared.records), "wrong": compared.wrong},
    }


def _print(console: Console, audit: Audit, asked: str, prefix: str) -> None:
    outputs = counted(len(audit.scope), "output")
    about = f"{asked}: {counted(len(audit.results), 'result')}, resting on {outputs}" if asked else outputs
    say(console, f"{about}, {span(audit)} — store {prefix}", "bold")
    if audit.results:
        console.print()
        print_table(console, COLUMNS, [[each.name, each.step, _verdict(audit, each)] for each in audit.results])
    for grade in Grade:
        rows: list[list[Text | str]] = []
        for claim in audit.of(grade):
            names = audit.names(claim)
            text = Text.assemble(claim.text, (f"  {listed(names, NAMED)}" if names else "", "dim"))
            rows.append([styled(grade, claim.subject), str(len(names) or ""), text])
        print_block(console, grade.value, f"bold {STYLES[grade]}", "| > |", rows, CLAIMS)
    if not audit.claims:
        say(console, "nothing is wrong, nothing was accepted, nothing came from outside", "green")


def _verdict(audit: Audit, result: Result) -> Text:
    claims = audit.about(result)
    if not claims or claims[0].grade is Grade.KNOWN:
        return Text("nothing against it", style="green")
    worst = claims[0].grade
    subjects = list(dict.fromkeys(claim.subject for claim in claims if claim.grade is worst))
    return styled(worst, f"{worst.value}: {listed(subjects, NAMED)}")


@dataclass
class Damage:
    """The damage of one output.

    differs: the differences, or why the record cannot be read. made_from_it: the outputs that were built from this
    output, nearest first.
    """

    differs: list[str]
    made_from_it: list[str] = field(default_factory=list[str])


@dataclass(frozen=True)
class Compared:
    """The result of comparing outputs with their manifests.

    wrong: damage by name and identity; by identity alone if the record cannot be read.
    """

    check: Check
    records: Sequence[Record]
    wrong: dict[str, Damage]
    damaged: list[Record]  # whose files differ

    def tell(self, audit: Audit) -> None:
        """Add a claim for each damaged output, and find the outputs that were built from it."""
        lineage = audit.lineage
        known = {output for claim in audit.of(Grade.UNTRUSTED) for output in audit.claims[claim]}
        for record in self.damaged:
            damage = self.wrong[_named(record)]
            shared = [output for output, each in lineage.records.items() if each.attempt == record.attempt]
            damage.made_from_it = [_named(lineage.records[output]) for output in lineage.down(shared)]
            if output_of(record) not in known:
                audit.add(Claim(Grade.UNTRUSTED, "damaged", listed(damage.differs, 1)), [output_of(record)])


def _compare(store: Store, plans: list[Plan], steps: list[str], check: Check) -> Compared:
    """Compare the outputs of the plans' own steps, of these steps, or of the whole store. Raises UnknownStep.

    Notes the undamaged outputs: `marin audit` counts them as verified, and a plan need not read files again that were
    only touched.
    """
    inventory = read_inventory(store)
    every, wanted = inventory.newest_first(), {step.identity for plan in plans for step in plan.experiment.steps()}
    records = [record for record in every if not plans or record.identity in wanted]
    unreadable = {one: text for one, text in inventory.damage.items() if not steps and (not plans or one in wanted)}
    if steps:
        found = [(step, outputs_called(step, every, store.prefix)) for step in steps]
        if missing := [step for step, called in found if not called]:
            raise unknown(missing[0], every, store.prefix, inventory.damage.values())
        records = list({record.identity: record for _, called in found for record in called}.values())
    wrong, damaged = {identity: Damage([error]) for identity, error in unreadable.items()}, list[Record]()
    edited = store.disagreements(records)
    with byte_bar(open_console(stderr=True), sum(record.bytes for record in records)) as advance:
        for record in records:
            differs = store.verify(record, check)
            if differs:
                damaged.append(record)
            if record.identity in edited:
                differs.insert(0, edited[record.identity])
            if differs:
                wrong[_named(record)] = Damage(differs)
            advance(record.bytes)
    right = [record for record in records if _named(record) not in wrong]
    if check is not Check.SIZES:
        with suppress(BadPrefix, StoreFull):  # a store that may only be read takes no notes
            note_verified(store, check, [record.attempt for record in right])
            for record in right:
                if record.stamp and store.output(record).is_local and store.output(record).stamp() != record.stamp:
                    store.note_stamp(record)
    return Compared(check, records, wrong, damaged)


def _named(record: Record) -> str:
    return f"{record.name} {record.identity[:12]}"


def _print_compared(console: Console, compared: Compared, store: Store) -> None:
    for name, damage in compared.wrong.items():
        say(console, name, "red")
        for line in damage.differs:
            say(console, f"    {line}")
        if damage.made_from_it:
            say(console, f"    made from it: {', '.join(damage.made_from_it)}")
    size = write_bytes(sum({record.attempt: record.bytes for record in compared.records}.values()))
    how = {
        Check.SIZES: "names and sizes of",
        Check.CHECKSUMS: "checksums of" if store.objects.is_remote else "every byte of",
        Check.BYTES: "every byte of",
    }[compared.check]
    outputs = counted(len(compared.records), "output")
    say(console, f"{how} {outputs} ({size}) compared with the manifests, {len(compared.wrong)} damaged")
    if compared.wrong:
        say(console, "rebuild a damaged output: run its experiment with --rebuild STEP")
    if any(damage.made_from_it for damage in compared.wrong.values()):
        say(
            console,
            "you can trust an output that was built from a damaged one if its step ran before the damage, or compared "
            "every byte of its inputs (the default). Rebuild the other outputs too; if their bytes change, marin also "
            "rebuilds their readers. If an output cannot be rebuilt: `marin revoke STEP --because REASON`",
        )
