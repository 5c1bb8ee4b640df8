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

from marin.numbers import write_count, write_duration
from marin.report.page.drawing import graph, tables, units
from marin.report.page.drawing.model import ExperimentPage, Plot, Status


def render(page: ExperimentPage, head: str = "") -> str:
    """The whole page as HTML. Equal pages give equal texts; no label can inject markup. head: HTML for its head."""
    arms = tables.arms_of(page.arms, page.mixtures, page.runs)
    counts = Counter(step.status for step in page.steps)
    shares = tables.share_columns(page.mixtures)
    training, thinned = _training(page, arms)
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
            question=_paragraphs(page.question),
            tally=[(status.value, counts[status]) for status in graph.ORDER if counts[status]],
            contents=_contents(page, bool(training), bool(shares)),
            failed=[step for step in page.steps if step.status is Status.FAILED],
            skipped=counts[Status.SKIPPED],
            trust_kinds=list(Counter(note.kind for note in page.trust).items()),
            training=training,
            thinned=thinned,
            best_of=tables.best_of,
            difference_of=tables.difference_of,
            run_cells=tables.run_cells,
            kinds=tables.kinds,
            arrows={"higher": "↑", "lower": "↓", "neither": ""},
            minus=units.MINUS,
            fixed=units.fixed,
            draw=partial(_draw, arms=arms),
            shares=shares,
            sources=tables.largest_first(shares),
            largest=max((share for each in shares for share in each.shares.values()), default=1.0) or 1.0,
            picture=graph.draw(page.steps),
            below=partial(_below, prefix=page.prefix),
            provenance=_provenance(page),
            longest=max((timing.seconds for timing in page.timings), default=0.0) or 1.0,
        )
    )


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=PackageLoader("marin.report.page.drawing"),
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
        file_link=_file_link,
    )
    return environment


def _paragraphs(text: str) -> list[str]:
    """Of a docstring: what empty lines part, and what begins with "Arms:" or the like on a line of its own."""
    parts = re.split(r"\n\s*\n|\n(?=[A-Z]\w+:\s)", inspect.cleandoc(text))
    return [" ".join(part.split()) for part in parts if part.strip()]


def _training(page: ExperimentPage, arms: Sequence[str]) -> tuple[Markup, bool]:
    """The plot of the training curves, and whether a curve had to be thinned."""
    if not any(len(run.step) for run in page.runs):
        return Markup(""), False
    from marin.report.page.drawing import plots, svg  # matplotlib: a second, and only pages with plots pay it

    thinned = any(len(run.step) > svg.MOST_POINTS for run in page.runs)
    return Markup(plots.training_plot(page.runs, page.phases, arms)), thinned


def _draw(plot: Plot, arms: Sequence[str]) -> Markup:
    from marin.report.page.drawing import plots

    return Markup(plots.evidence_plot(plot, arms))


def _file_link(path: str) -> str:
    """A link to a file on this machine; "" to one in a remote store."""
    return f"file://{quote(path, errors='surrogateescape')}" if path.startswith("/") else ""


def _below(path: str, prefix: str) -> str:
    """The path relative to the store prefix, if it lies below it."""
    return path.removeprefix(prefix.rstrip("/") + "/") if prefix else path


def _breakable(name: str) -> Markup:
    """A step's name, escaped, that may wrap after each slash."""
    return Markup("/<wbr>").join(name.split("/"))


def _contents(page: ExperimentPage, training: bool, mixtures: bool) -> list[tuple[str, str]]:
    entries = [
        ("failures", "Failures", any(step.status is Status.FAILED for step in page.steps)),
        ("answer", "Answer", True),
        ("evaluation", "Evaluation", bool(page.evaluations)),
        ("training", "Training", training),
        *((f"evidence-{index}", one.title.partition(":")[0], True) for index, one in enumerate(page.evidence, 1)),
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
        ("revision", page.git_revision and page.git_revision + dirty),
        ("made", page.created),
        ("scale", page.scale),
        ("tokens trained on", "" if page.tokens is None else write_count(page.tokens)),
        ("training FLOPs", "" if page.flops is None else f"{page.flops:.2e}"),
        ("chip-hours", "" if page.chip_hours is None else f"{hours:,.{0 if hours >= 100 else 2}f}"),
        ("wall time", "" if page.wall_seconds is None else write_duration(page.wall_seconds)),
    ]
    return [(name, value) for name, value in entries if value]
