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

from marin.executor.run_results import Status
from marin.report.page import figures, graph, steps
from marin.report.page.blocks import drawn_table, image_source
from marin.report.page.model import ExperimentPage, Trouble
from marin.report.section import Finding, Section
from marin.store.layout import slug
from marin.store.numbers import counted, write_duration

COLOURS = 6  # arms that have a colour of their own on the page


def render(page: ExperimentPage, head: str = "") -> str:
    """The whole page as HTML. Equal pages give equal texts; no label can inject markup. head: HTML for its head."""
    arms = list(page.arms)
    counts = Counter(step.status for step in page.steps)
    made = [each for each in page.sections if isinstance(each, Section)]
    marks = [mark for each in made for mark in each.marks]
    training = figures.training(page.runs, page.phases, arms, marks)
    paragraphs = _paragraphs(page.question)
    asked = next((each for each in paragraphs if each.startswith("Question:")), "".join(paragraphs[:1]))
    answer = [*page.answer, *(line for each in made if each.answer for line in (each.answer, *each.more))]
    found = [each for kind in Finding for each in made if each.finding is kind and not each.answer]
    first = [each for each in page.sections if isinstance(each, Trouble) or each.answer]
    others = [*found, *(each for each in made if not each.answer and each.finding is None)]
    place = _places([*first, *others])
    doubts = _doubts(page, made, found)
    families = dict.fromkeys(name for strip in page.strips for name, _ in strip.parts if name != "others")
    return (
        _templates()
        .get_template("experiment.html")
        .render(
            page=page,
            head=Markup(head),
            arm_class=partial(_arm_class, arms=arms),
            anchor=graph.anchors(page.steps),
            issue_link=page.issue_url if urlsplit(page.issue_url).scheme in ("http", "https") else "",
            asked=asked,
            question=[each for each in paragraphs if each != asked],
            answer=answer,
            pictures=[each.picture for each in made if each.answer and each.picture is not None],
            doubts=doubts,
            found=found,
            next_steps=[*(line for each in made for line in each.next), *page.next_steps],
            first=first,
            others=others,
            place=place,
            id=id,
            families=list(families),
            drawn=drawn_table,
            image=image_source,
            tally=[(status.value, counts[status]) for status in graph.ORDER if counts[status]],
            contents=_contents(page, place, first, others, training=bool(training or page.trainings)),
            failed=counts[Status.FAILED],
            errors=steps.same_errors(page.steps),
            skipped=counts[Status.SKIPPED],
            trust=steps.shared(page.steps),
            named=partial(steps.named, steps=page.steps),
            room=steps.ROOM,
            cut=steps.cut,
            training=training,
            thinned=any("mean" in run for run in training.get("runs", ())),
            most_points=figures.MOST_POINTS,
            lines=partial(figures.lines, arms=arms),
            packed=figures.packed,
            script=Markup(figures.script()),
            figure_style=Markup(figures.style()),
            picture=graph.draw(page.steps),
            columns=steps.columns(page.steps, page.prefix),
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
        breakable=_breakable,
        file_link=_file_link,
    )
    return environment


def _paragraphs(text: str) -> list[str]:
    """Of a docstring: what empty lines part, and what begins with "Arms:" or the like on a line of its own."""
    parts = re.split(r"\n\s*\n|\n(?=[A-Z]\w+:\s)", inspect.cleandoc(text))
    return [" ".join(part.split()) for part in parts if part.strip()]


def _breakable(name: str) -> Markup:
    """A step's name, escaped, that may wrap after each slash."""
    return Markup("/<wbr>").join(name.split("/"))


def _arm_class(arm: str, arms: Sequence[str]) -> str:
    """The CSS class that gives an arm its colour; "" for what is not an arm."""
    return f"arm-{arms.index(arm) % COLOURS}" if arm in arms else ""


def _places(sections: Sequence[Section | Trouble]) -> dict[int, str]:
    """The id of each section's heading: its name, as far as it has one alone."""
    names = [slug(each.title.partition(":")[0].lower()) if isinstance(each, Section) else "" for each in sections]
    return {
        id(each): f"about-{name}{f'-{at}' if name in names[:at] else ''}"
        for at, (each, name) in enumerate(zip(sections, names, strict=True))
    }


def _doubts(page: ExperimentPage, made: Sequence[Section], found: Sequence[Section]) -> list[str]:
    """Why not to rely on the answer, the worst first; of outputs that carry a note, where something can be done."""
    apart = Counter(steps.subject_apart(step) for step in page.steps)
    return [
        *(line for each in made for line in each.doubts),
        *(f"{each.title.partition(':')[0]}: found" for each in found if each.finding is Finding.FOUND),
        *(f"{counted(count, 'output')}: {subject}" for subject, count in apart.items() if subject),
    ]


def _file_link(path: str) -> str:
    """A link to a file on this machine; "" to one in a remote store."""
    return f"file://{quote(path, errors='surrogateescape')}" if path.startswith("/") else ""


def _contents(
    page: ExperimentPage,
    place: dict[int, str],
    first: Sequence[Section | Trouble],
    others: Sequence[Section],
    *,
    training: bool,
) -> list[tuple[str, str]]:
    def named(sections: Sequence[Section | Trouble]) -> list[tuple[str, str, bool]]:
        return [(place[id(each)], each.title.partition(":")[0], True) for each in sections if isinstance(each, Section)]

    entries = [
        ("failures", "Failures", any(step.status is Status.FAILED for step in page.steps)),
        ("answer", "Answer", True),
        *named(first),
        ("training", "Training", training),
        *named(others),
        ("mixtures", "Mixtures", bool(page.mixtures)),
        ("graph", "Graph", bool(page.steps)),
        ("steps", "Steps", bool(page.steps)),
        ("provenance", "Provenance", True),
    ]
    return [(anchor, name) for anchor, name, there in entries if there]


def _provenance(page: ExperimentPage) -> list[tuple[str, str]]:
    dirty = " with uncommitted changes" if page.git_dirty else ""
    entries = [
        ("command", page.command),
        ("store", page.prefix),
        ("Ray dashboard", page.dashboard),
        ("revision", page.git_revision and page.git_revision + dirty),
        ("made", page.created),
        ("scale", page.scale),
        *page.cost.items(),
    ]
    return [(name, value) for name, value in entries if value]
