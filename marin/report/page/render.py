"""The page of an experiment: one static HTML file that needs nothing but itself."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Sequence
from functools import cache, partial
from urllib.parse import quote, urlsplit

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from marin.evaluation import metric_names
from marin.report.page import alike, figures, graph, steps, tables, units
from marin.report.page.model import ExperimentPage, Plot, SeriesPlot, Status
from marin.report.section import Curves, Series
from marin.store.numbers import write_count, write_duration


def render(page: ExperimentPage, head: str = "") -> str:
    """The whole page as HTML. Equal pages give equal texts; no label can inject markup. head: HTML for its head."""
    arms = tables.arms_of(page.arms, page.mixtures, page.runs)
    counts = Counter(step.status for step in page.steps)
    shares = tables.share_columns(page.mixtures)
    training = figures.training(page.runs, page.phases, arms)
    differing, common = tables.settings(page.settings, [run.name for run in page.runs])
    paragraphs = _paragraphs(page.question)
    asked = next((each for each in paragraphs if each.startswith("Question:")), "".join(paragraphs[:1]))
    return (
        _templates()
        .get_template("experiment.html")
        .render(
            page=page,
            head=Markup(head),
            arms=arms,
            arm_class=partial(tables.arm_class, arms=arms),
            anchor=graph.anchors(page.steps),
            issue_link=page.issue_url if urlsplit(page.issue_url).scheme in ("http", "https") else "",
            asked=asked,
            question=[each for each in paragraphs if each != asked],
            cost=_cost(page),
            tally=[(status.value, counts[status]) for status in graph.ORDER if counts[status]],
            contents=_contents(page, bool(training) or bool(page.accounts), bool(shares)),
            failed=counts[Status.FAILED],
            errors=alike.same_errors(page.steps),
            skipped=counts[Status.SKIPPED],
            trust=alike.shared(page.trust, page.steps),
            named=partial(alike.named, steps=page.steps),
            trusted_less=len({note.step for note in page.trust}),
            trust_kinds=list(Counter(kind for kind, _ in {(note.kind, note.step): 0 for note in page.trust}).items()),
            room=alike.ROOM,
            cut=alike.cut,
            training=training,
            thinned=any("mean" in run for run in training.get("runs", ())),
            most_points=figures.MOST_POINTS,
            lines=partial(figures.lines, arms=arms),
            packed=figures.packed,
            script=Markup(figures.script()),
            figure_style=Markup(figures.style()),
            differing=differing,
            common=common,
            best_of=tables.best_of,
            interval_of=tables.interval_of,
            explained=metric_names.explained,
            legend=metric_names.legend,
            account_columns=tables.account_columns(page.accounts),
            went_otherwise=tables.went_otherwise,
            happened=tables.happened,
            long_cells=tables.LONG_CELLS,
            kinds=tables.kinds,
            arrows={"higher": "↑", "lower": "↓", "neither": ""},
            minus=units.MINUS,
            fixed=units.fixed,
            draw=partial(_draw, arms=arms),
            shares=shares,
            sources=tables.largest_first(shares),
            largest=max((share for each in shares for share in each.shares.values()), default=1.0) or 1.0,
            picture=graph.draw(page.steps),
            columns=steps.columns(page.steps, page.trust, page.prefix),
            below=partial(_below, prefix=page.prefix),
            provenance=_provenance(page),
        )
    )


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=PackageLoader("marin.report.page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(
        duration=write_duration,
        count=write_count,
        fact=units.fact,
        breakable=_breakable,
        tail=_tail,
        file_link=_file_link,
    )
    return environment


def _paragraphs(text: str) -> list[str]:
    """Of a docstring: what empty lines part, and what begins with "Arms:" or the like on a line of its own."""
    parts = re.split(r"\n\s*\n|\n(?=[A-Z]\w+:\s)", inspect.cleandoc(text))
    return [" ".join(part.split()) for part in parts if part.strip()]


def _cost(page: ExperimentPage) -> list[str]:
    """What the answer took, in a few words."""
    hours = page.chip_hours or 0.0
    return [
        *([f"{write_count(page.tokens)} tokens trained on"] if page.tokens else []),
        *([f"{page.flops:.1e} training FLOPs"] if page.flops else []),
        *([f"{hours:,.{0 if hours >= 100 else 2}f} chip-hours"] if page.chip_hours is not None else []),
        *([f"{write_duration(page.wall_seconds)} of this run"] if page.wall_seconds is not None else []),
    ]


def _draw(plot: Plot, arms: Sequence[str]) -> Markup:
    if isinstance(plot, SeriesPlot):
        series = [
            Series(name=one.name, x=one.x, y=one.y, arm=one.arm, low=one.low, high=one.high) for one in plot.series
        ]
        block = Curves(
            title=plot.title, x=plot.x_label, y=plot.y_label, ticks=plot.ticks, line=plot.line, series=series
        )
        found = figures.lines(block, arms)
        data = Markup('<div class="curves"><script type="application/json">{}</script></div>')
        return data.format(figures.packed(found)) if found["runs"] else Markup("")
    row = Markup('<tr><td>{}</td><th>{}</th><td class="number">{} [{}, {}]</td></tr>')
    shown = Markup("").join(
        row.format(one.group, one.label, *(_signed(value, plot.digits) for value in (one.value, one.low, one.high)))
        for one in plot.rows
    )
    return Markup("<table>{}</table>").format(shown) if shown else shown


def _signed(value: float | None, digits: int) -> str:
    return "" if value is None else units.signed(value, digits)


def _file_link(path: str) -> str:
    """A link to a file on this machine; "" to one in a remote store."""
    return f"file://{quote(path, errors='surrogateescape')}" if path.startswith("/") else ""


def _below(path: str, prefix: str) -> str:
    """The path relative to the store prefix, if it lies below it."""
    return path.removeprefix(prefix.rstrip("/") + "/") if prefix else path


def _breakable(name: str) -> Markup:
    """A step's name, escaped, that may wrap after each slash."""
    return Markup("/<wbr>").join(name.split("/"))


def _tail(path: str) -> str:
    """Of an output's path, what its operator and label do not say: identity, and the attempt if not the first."""
    return path.rpartition("-")[2].rpartition("/")[2].removesuffix(".0001")


def _contents(page: ExperimentPage, training: bool, mixtures: bool) -> list[tuple[str, str]]:
    entries = [
        ("failures", "Failures", any(step.status is Status.FAILED for step in page.steps)),
        ("answer", "Answer", True),
        ("evaluation", "Evaluation", bool(page.evaluations)),
        ("training", "Training", training),
        *((f"evidence-{index}", one.title.partition(":")[0], True) for index, one in enumerate(page.evidence, 1)),
        ("decontamination", "Decontamination", page.decontamination is not None),
        ("mixtures", "Mixtures", mixtures),
        ("graph", "Graph", bool(page.steps)),
        ("steps", "Steps", bool(page.steps)),
        ("provenance", "Provenance", True),
    ]
    return [(anchor, name) for anchor, name, there in entries if there]


def _provenance(page: ExperimentPage) -> list[tuple[str, str]]:
    dirty = " with uncommitted changes" if page.git_dirty else ""
    hours = page.chip_hours or 0.0
    entries = [
        ("command", page.command),
        ("store", page.prefix),
        ("Ray dashboard", page.dashboard),
        ("revision", page.git_revision and page.git_revision + dirty),
        ("made", page.created),
        ("scale", page.scale),
        ("tokens trained on", "" if page.tokens is None else write_count(page.tokens)),
        ("training FLOPs", "" if page.flops is None else f"{page.flops:.2e}"),
        ("chip-hours", "" if page.chip_hours is None else f"{hours:,.{0 if hours >= 100 else 2}f}"),
        ("wall time", "" if page.wall_seconds is None else write_duration(page.wall_seconds)),
    ]
    return [(name, value) for name, value in entries if value]
