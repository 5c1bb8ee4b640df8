"""The page of an experiment: one static HTML file that needs nothing but itself."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from urllib.parse import quote, urlsplit

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from marin.report.page.drawing import graph, tables, units
from marin.report.page.drawing.model import (
    Evidence,
    ExperimentPage,
    Plot,
    StageTiming,
    Status,
    StepRow,
    Table,
    TrustNote,
)


@dataclass(frozen=True)
class _Step:
    row: StepRow
    anchor: str
    inputs: list[tuple[str, str]]  # name, anchor or ""
    facts: list[tuple[str, str]]
    output: str
    log: str
    log_link: str


@dataclass(frozen=True)
class _Drawn:
    it: Plot
    svg: Markup
    wide: bool


@dataclass(frozen=True)
class _Small:
    it: Table
    kinds: list[str]


@dataclass(frozen=True)
class _Argued:
    it: Evidence
    plots: list[_Drawn]
    tables: list[_Small]


@dataclass(frozen=True)
class _Timed:
    it: StageTiming
    width: str


@dataclass(frozen=True)
class _Trusted:
    it: TrustNote
    anchor: str


def render(page: ExperimentPage, head: str = "") -> str:
    """The whole page as HTML. Equal pages give equal texts; no label can inject markup. head: HTML for its head."""
    arms = tables.arms_of(page.arms, page.mixtures, page.runs)
    anchor = graph.anchors(page.steps)
    steps = [_step(step, anchor, page.prefix) for step in page.steps]
    counts = Counter(step.status for step in page.steps)
    mixture = tables.share_table(page.mixtures, arms)
    training, thinned = _training(page, arms)
    longest = max((timing.seconds for timing in page.timings), default=0.0) or 1.0
    return (
        _templates()
        .get_template("experiment.html")
        .render(
            page=page,
            head=Markup(head),
            issue_link=page.issue_url if urlsplit(page.issue_url).scheme in ("http", "https") else "",
            question=_paragraphs(page.question),
            tally=[(status.value, counts[status]) for status in graph.ORDER if counts[status]],
            contents=_contents(page, bool(training), bool(mixture.columns)),
            failed=[step for step in steps if step.row.status is Status.FAILED],
            skipped=counts[Status.SKIPPED],
            trust_kinds=list(Counter(note.kind for note in page.trust).items()),
            evaluations=[tables.score_table(table, arms) for table in page.evaluations],
            training=training,
            thinned=thinned,
            runs=[tables.run_row(run, arms) for run in page.runs],
            evidence=[
                _Argued(one, _plots(one, arms), [_Small(table, tables.kinds(table)) for table in one.tables])
                for one in page.evidence
            ],
            mixture=mixture,
            legend=[status.value for status in Status if counts[status]],
            picture=graph.draw(page.steps),
            steps=steps,
            provenance=_provenance(page),
            timings=[_Timed(one, f"{100 * one.seconds / longest:.1f}") for one in page.timings],
            peaks=any(one.peak_bytes is not None for one in page.timings),
            trust=[_Trusted(note, anchor.get(note.step, "")) for note in page.trust],
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
    environment.filters["seconds"] = units.seconds
    environment.filters["storage"] = units.storage
    environment.filters["breakable"] = _breakable
    return environment


def _training(page: ExperimentPage, arms: Sequence[str]) -> tuple[Markup, bool]:
    """The plot of the training curves, and whether a curve had to be thinned."""
    if not any(len(run.step) for run in page.runs):
        return Markup(""), False
    from marin.report.page.drawing import plots, svg  # matplotlib: a second, and only pages with plots pay it

    thinned = any(len(run.step) > svg.MOST_POINTS for run in page.runs)
    return Markup(plots.training_plot(page.runs, page.phases, arms)), thinned


def _plots(evidence: Evidence, arms: Sequence[str]) -> list[_Drawn]:
    if not evidence.plots:
        return []
    from marin.report.page.drawing import plots

    drawn = [(plot, plots.evidence_plot(plot, arms)) for plot in evidence.plots]
    return [_Drawn(plot, Markup(picture), plots.is_wide(picture)) for plot, picture in drawn if picture]


def _step(step: StepRow, anchor: dict[str, str], prefix: str) -> _Step:
    return _Step(
        row=step,
        anchor=anchor[step.name],
        inputs=[(name, anchor.get(name, "")) for name in step.inputs],
        facts=[(name.replace("_", " "), units.fact(value)) for name, value in step.facts.items() if value != {}],
        output=_below(step.output, prefix),
        log=_below(step.log, prefix),
        log_link=f"file://{quote(step.log, errors='surrogateescape')}" if step.log.startswith("/") else "",
    )


def _below(path: str, prefix: str) -> str:
    """The path relative to the store prefix, if it lies below it."""
    root = prefix.rstrip("/") + "/"
    return path.removeprefix(root) if prefix else path


def _breakable(name: str) -> Markup:
    """A step's name, escaped, that may wrap after each slash."""
    return Markup("/<wbr>").join(name.split("/"))


def _paragraphs(docstring: str) -> list[str]:
    """A docstring's paragraphs, each on one line."""
    return [" ".join(part.split()) for part in inspect.cleandoc(docstring).split("\n\n") if part.strip()]


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
    totals = page.totals
    dirty = " with uncommitted changes" if page.git_dirty else ""
    entries = [
        ("command", page.command),
        ("store", page.prefix),
        ("revision", page.git_revision and page.git_revision + dirty),
        ("made", page.created),
        ("scale", page.scale),
        ("tokens trained on", units.count(totals.tokens)),
        ("training FLOPs", "" if totals.flops is None else f"{totals.flops:.2e}"),
        (
            "chip-hours",
            "" if totals.chip_hours is None else f"{totals.chip_hours:,.{0 if totals.chip_hours >= 100 else 2}f}",
        ),
        ("wall time", units.seconds(totals.wall_seconds)),
        ("peak memory", units.storage(totals.peak_bytes)),
    ]
    return [(name, value) for name, value in entries if value]
