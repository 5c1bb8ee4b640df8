"""Write the section on contamination: the counts of items read, and every sign, with the arms side by side."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from marin.report.section import (
    Bold,
    Column,
    Finding,
    Heading,
    Interval,
    Page,
    Row,
    Section,
    Table,
    Tag,
    Text,
    Tone,
)
from marin.report.words import minus, signed, tick
from marin.store.files.directory import Directory
from operators.contamination_evidence import ContaminationEvidence

SUMMARY = {
    "gold bits/byte": "gold_bits_per_byte",
    "final answer bits/byte": "final_bits_per_byte",
    "bits of “<<”": "opening_bits",
    "accuracy": "accuracy",
}
EXPLAINED = (
    "Members are the test items; reference items come from the same source and were never trained on. The member gap "
    "is the bits per byte of the reference items' solutions minus those of the members' solutions. “Beyond” another "
    "checkpoint: minus the number of that checkpoint, item by item."
)

type Sign = tuple[str, dict[str, Any]]  # of an arm


def section(step: ContaminationEvidence, output: Directory, page: Page) -> Section:
    report = json.loads(output.read_text("report.json"))
    signs = [(arm, sign) for arm, one in report["arms"].items() for sign in (*one["findings"], *one["contrast"])]
    measures = dict.fromkeys((sign["sign"], sign["unit"]) for _, sign in signs)
    return Section(
        title="Contamination: were the test items trained on?",
        finding=Finding(report["finding"]),
        verdict=report["verdict"],
        blocks=[
            *(Text(text) for text in (page.training_data, EXPLAINED) if text),
            *_exposure(report),
            *(_signs(signs, measure, unit, report["threshold"]) for measure, unit in measures),
            _summaries(report),
        ],
    )


def _signs(signs: Sequence[Sign], measure: str, unit: str, threshold: float) -> Table:
    shown = [(arm, sign) for arm, sign in signs if (sign["sign"], sign["unit"]) == (measure, unit)]
    forms = list(dict.fromkeys(_parts(sign)[1] for _, sign in shown))
    names = list(dict.fromkeys(_parts(sign)[0] for _, sign in shown))
    shown.sort(key=lambda pair: (forms.index(_parts(pair[1])[1]), names.index(_parts(pair[1])[0])))
    rows: list[Row] = []
    form = ""
    for arm, sign in shown:
        name, of_form = _parts(sign)
        if of_form != form and len(forms) > 1:
            rows.append(Heading(f"{of_form} format" if of_form else "across formats"))
        form = of_form
        z = "beyond measure" if sign["z"] is None else signed(sign["z"], 1)
        interval = Interval(value=sign["value"], low=sign["low"], high=sign["high"], arm=arm)
        flagged = Tag("flagged", Tone.BAD) if sign["flagged"] else ""
        rows.append([name, arm, interval, Bold(z) if sign["flagged"] else z, f"{sign['detectable']:.3f}", flagged])
    count = sum(sign["flagged"] for _, sign in shown)
    return Table(
        title=f"{measure[0].upper()}{measure[1:]}: {count} of {len(shown)} signs are flagged",
        columns=[
            Column("sign"),
            Column("arm"),
            Column(f"{unit}, 95 % over items; no effect is 0"),
            Column("z", hint="standard errors from zero"),
            Column("detectable", hint="a true effect of this size would be flagged 4 times in 5"),
            Column(""),
        ],
        rows=rows,
        note=f"Flagged: more than {tick(threshold)} standard errors from zero.",
        folded=not count,
    )


def _parts(sign: dict[str, Any]) -> tuple[str, str]:
    """Return a sign's name without its prompt format, and the format; "" if the sign covers several formats."""
    name, comma, form = str(sign["name"]).rpartition(", ")
    if not comma or not form.endswith(" format"):
        return minus(str(sign["name"])), ""
    return minus(name), form.removesuffix(" format")


def _summaries(report: dict[str, Any]) -> Table:
    tables = [("parent", report["parent"]), *((arm, one["table"]) for arm, one in report["arms"].items())]
    rows: list[list[str]] = []
    for name, table in tables:
        for items, row in table.items():
            values = (row.get(key) for key in SUMMARY.values())
            rows.append([name, *items.split("/", 1), *("" if value is None else f"{value:.3f}" for value in values)])
    return Table(
        title="Members (test items) and reference items, by checkpoint and prompt format",
        columns=[Column(name) for name in ("checkpoint", "items", "format", *SUMMARY)],
        rows=rows,
        note="Gold: the right solution. “<<” opens a calculator tag in the LM-Eval format.",
        folded=True,
    )


def _exposure(report: dict[str, Any]) -> Iterator[Table]:
    exposure: dict[str, Any] = report.get("exposure", {})
    if exposure:
        yield Table(
            title="Test items that each arm read, counted from the order of its data",
            columns=[Column(name) for name in ("arm", "items read", "test items", "reads in all", "sequences")],
            rows=[[arm, *(str(one[key]) for key in ("items", "of", "copies", "how"))] for arm, one in exposure.items()],
        )
