"""Write the section on a comparison: deciding metrics, guarded metrics and the rest, each against the baseline."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

from marin.evaluation.metric_names import in_words, legend
from marin.report.section import (
    Block,
    Bold,
    Cell,
    Column,
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
from marin.report.typed import marin
from marin.report.words import fixed, signed
from marin.store.files.directory import Directory
from operators.compare import Compare

DECIDES, GUARDED, OTHERS = "Primary metrics", "Guards: must not get worse", "Other metrics"
NAMED = 3  # metrics in the answer
PICTURED = 16  # most rows of the picture beside the answer
DIGITS = 4

type Found = dict[str, Any]


def section(step: Compare, output: Directory, page: Page) -> Section:
    report = json.loads(output.read_text("report.json"))
    one_seed = _one_seed(report)
    same: list[str] = [report["same"]] if "same" in report else []
    told = report["answer"][len(same) :][0 if any(row["contaminated"] for row in _judged(report)) else 1 :]
    answers = [] if report["answer"] == same else [_answer(report, one_seed)]
    return Section(
        title="Evaluation",
        answer=" ".join([*same, *answers]),
        more=told[-1:],
        picture=_picture(report),
        doubts=[each for each in (report["star"], report["note"] if one_seed else "") if each],
        next=list(_next(report, page, one_seed)),
        blocks=[*(Text(line) for line in told[:-1]), _table(report), *_published(report)],
    )


def _one_seed(report: dict[str, Any]) -> bool:
    """Return whether every arm has one run; then no difference is conclusive."""
    return set(report["runs"].values()) == {1}


def _judged(report: dict[str, Any]) -> list[Found]:
    return [row for row, role in _in_order(report) if role == DECIDES] or report["rows"]


def _answer(report: dict[str, Any], one_seed: bool) -> str:
    """Return in words each arm's distance from the baseline on deciding metrics, and whether it is conclusive."""
    rows = _judged(report)
    arms = _arms(report)
    named = [(row, arm) for row in rows[:NAMED] for arm in arms]
    parts = [
        "; on ".join(_told(row, arm, report["baseline"]) for row, arm in alike)
        + f", where {'more' if more_wanted else 'less'} is better"
        for more_wanted, alike in groupby(named, lambda pair: bool(pair[0]["higher_is_better"]))
    ]
    more = f"; and {len(rows) - NAMED} more" if len(rows) > NAMED else ""
    verdict = "Not conclusive with one seed an arm: on " if one_seed else "On "
    return f"{verdict}{'; on '.join(parts)}{more}."


def _told(row: Found, arm: str, baseline: str) -> str:
    """ "math text mantis is 0.534 bits/byte below bison [−0.569, −0.499]" """
    found, unit = row["differences"][arm], row["unit"]
    scale, digits = (100.0, 1) if unit == "share" else (1.0, 3)
    value, low, high = (scale * found[name] for name in ("value", "low", "high"))
    far = f"{fixed(abs(value), digits)} {'points' if unit == 'share' else unit} {'above' if value > 0 else 'below'}"
    return (
        f"{in_words(row['metric'])}{'*' if found['contaminated'] else ''} {arm} is {far} {baseline} "
        f"[{signed(low, digits)}, {signed(high, digits)}]"
    )


def _next(report: dict[str, Any], page: Page, one_seed: bool) -> Iterator[str]:
    if one_seed:
        yield "Train a second and a third seed of each arm: with one seed, no difference is conclusive."
    arms = [report["baseline"], *_arms(report)]  # marin compare takes differences to the first arm
    yield f"{marin('compare', *arms, prefix=page.store)}: also compares the arms' weights and their logged answers"


def _arms(report: dict[str, Any]) -> list[str]:
    """Return the arms other than the baseline."""
    return [arm for arm in report["arms"] if arm != report["baseline"]]


def _in_order(report: dict[str, Any]) -> list[tuple[Found, str]]:
    """Return rows with the role of their metric, deciding metrics first."""
    roles = dict.fromkeys(report["guard"], GUARDED) | dict.fromkeys(report["primary"], DECIDES)
    order = (DECIDES, GUARDED, OTHERS)
    found = [(row, roles.get(row["metric"], OTHERS)) for row in report["rows"]]
    return sorted(found, key=lambda each: order.index(each[1]))


def _picture(report: dict[str, Any]) -> Table | None:
    """Return deciding and guarded metrics by arm; None if the experiment names no such metrics, or too many."""
    baseline, arms, one_seed = report["baseline"], _arms(report), _one_seed(report)
    rows: list[Row] = []
    for heading in (DECIDES, GUARDED):
        named = [row for row, role in _in_order(report) if role == heading and row["differences"]]
        rows += [Heading(heading)] if named else []
        for row in named:
            name = in_words(row["metric"]) + ("*" if row["contaminated"] else "")
            rows += [
                [name if len(arms) == 1 else f"{name}: {arm}", *_difference(row, arm, one_seed)]
                for arm in arms
                if arm in row["differences"]
            ]
    if not 1 < len(rows) <= PICTURED:
        return None
    against = arms[0] if len(arms) == 1 else "arm"
    return Table(
        title=f"{against} against {baseline}",
        columns=[Column(""), Column(f"{against} − {baseline}; better is to the right", digits=3), Column("")],
        rows=rows,
    )


def _table(report: dict[str, Any]) -> Table:
    baseline, arms, one_seed = report["baseline"], _arms(report), _one_seed(report)
    rows: list[Row] = []
    said = ""
    for row, role in _in_order(report):
        if role != said:
            rows.append(Heading(said := role))
        rows.append(_cells(row, report["arms"], arms, one_seed))
    terms = [f"{name}: {text}." for name, text in legend(row["metric"] for row in report["rows"]).items()]
    return Table(
        title=f"Every metric by arm, and its difference to {baseline} with a 95 % interval",
        columns=[
            Column("metric"),
            *(Column(name, arm=name) for name in report["arms"]),
            *(
                column
                for arm in arms
                for column in (
                    Column(f"{arm} − {baseline}; better is to the right", digits=DIGITS),
                    Column("", hint="tested at 5 %; primary metrics and guards are corrected for their number"),
                    Column("detectable", hint="a true difference of this size would be shown 4 times in 5"),
                )
            ),
        ],
        rows=rows,
        note=" ".join(filter(None, [report["star"], report["note"], *terms])),
    )


def _cells(row: Found, every: list[str], arms: Iterable[str], one_seed: bool) -> list[Cell]:
    values: list[float] = [row["values"][name] for name in every if name in row["values"]]
    best = (max if row["higher_is_better"] else min)(values) if not row["contaminated"] else None
    cells: list[Cell] = [f"{row['metric']} ({row['unit']})"]
    for name in every:
        text = fixed(row["values"][name], DIGITS) if name in row["values"] else "—"
        star = "*" if name in row["contaminated"] else ""
        stands_out = best is not None and row["values"].get(name) == best and len(set(values)) > 1
        cells.append(Bold(text) if stands_out else text + star)
    for arm in arms:
        found = row["differences"].get(arm)
        if found is None:
            cells += ["—", "", ""]
            continue
        cells += [*_difference(row, arm, one_seed), fixed(found["detectable"], 3)]
    return cells


def _difference(row: Found, arm: str, one_seed: bool) -> tuple[Interval, Tag]:
    found = row["differences"][arm]
    interval = Interval(
        value=found["value"],
        low=found["low"],
        high=found["high"],
        arm=arm,
        scale=row["unit"],
        mirrored=not row["higher_is_better"],
    )
    return interval, _tag(found, row["higher_is_better"], one_seed)


def _tag(found: dict[str, Any], higher_is_better: bool, one_seed: bool) -> Tag:
    better = (found["value"] > 0) is higher_is_better
    text, tone = ("▲ better", Tone.GOOD) if better else ("▼ worse", Tone.BAD)
    if not found["shown"]:
        text, tone = "no difference shown", Tone.PLAIN
    elif one_seed:
        text, tone = f"{text} in these runs", Tone.PLAIN
    return Tag(f"{text}*", Tone.OPEN) if found["contaminated"] else Tag(text, tone)


def _published(report: dict[str, Any]) -> Iterator[Block]:
    """Yield the published numbers of the models that the comparison names."""
    models: dict[str, dict[str, Any]] = report.get("published", {})
    if not models:
        return
    tasks = dict.fromkeys(task for model in models.values() for task in model["scores"])
    read = [f"* {name} was trained on {how}." for name, model in models.items() for how in model["read"].values()]
    sources = " and ".join(dict.fromkeys(model["source"] for model in models.values()))
    yield Table(
        title="Published numbers of other models",
        columns=[Column("task"), *(Column(name) for name in models)],
        rows=[[task, *(_score(model, task) for model in models.values())] for task in tasks],
        note=f"Percent, measured with the defaults of lm-evaluation-harness, published at {sources}. {' '.join(read)}",
    )


def _score(model: dict[str, Any], task: str) -> str:
    if task not in model["scores"]:
        return "—"
    return fixed(100 * model["scores"][task], 1) + ("*" if task in model["read"] else "")
