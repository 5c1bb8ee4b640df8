"""Write the section on trainings side by side: each reading of their metrics, against the baseline."""

from __future__ import annotations

import json
from typing import Any

from marin.report.section import Cell, Column, Interval, Page, Section, Table, Tag
from marin.report.words import fixed
from marin.store.files.directory import Directory
from operators.compare_trainings import CompareTrainings

DIGITS = 4


def section(step: CompareTrainings, output: Directory, page: Page) -> Section:
    report = json.loads(output.read_text("report.json"))
    first, *more = report["verdict"].split(". ")
    baseline, every = report["baseline"], report["arms"]
    arms = [arm for arm in every if arm != baseline]
    return Section(
        title="Metrics during training",
        answer=first,
        more=more,
        doubts=["Each arm is one run, so these intervals do not include the spread between seeds."],
        blocks=[
            Table(
                title=f"Readings by arm, and their difference to {baseline} with a 95 % interval over steps",
                columns=[
                    Column("reading"),
                    *(Column(arm, arm=arm) for arm in every),
                    *(each for arm in arms for each in (Column(f"{arm} − {baseline}", digits=DIGITS), Column(""))),
                ],
                rows=[
                    [
                        row["name"],
                        *(fixed(row["values"][arm]["value"], DIGITS) if arm in row["values"] else "—" for arm in every),
                        *(cell for arm in arms for cell in _difference(row, arm)),
                    ]
                    for row in report["rows"]
                ],
            )
        ],
    )


def _difference(row: dict[str, Any], arm: str) -> list[Cell]:
    found = row["differences"].get(arm)
    if found is None:
        return ["—", ""]
    value, low, high = (found[name] for name in ("value", "low", "high"))
    return [Interval(value=value, low=low, high=high, arm=arm, scale=row["name"]), Tag(found["verdict"])]
