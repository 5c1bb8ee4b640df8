"""Sections that operators add to a page. The operator's module name leads to them; see marin.report.section."""

from __future__ import annotations

import functools
import hashlib
import importlib
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from marin.executor.run_results import Run, Status, StepResult
from marin.report.page.model import Trouble
from marin.report.section import Made, Page, Section, Text
from marin.steps.step import ExecutorStep

REPORT = "report"  # kind of artifacts that answer a question

type Step = ExecutorStep[Any]


def sections(run: Run, page: Page) -> Iterator[Section | Trouble]:
    """Yield sections of results and of their inputs, summaries first; then of operators that show outputs together."""
    results = list(run.plan.experiment.results.values())
    every = dict.fromkeys([*results, *(read for step in results for read in step.dependencies)])  # results first
    shown = [step for step in every if step in run.results and run.results[step].record is not None]
    among = set(shown)
    reads = {step: sum(each in among for each in step.dependencies) for step in shown}
    for step in sorted(shown, key=lambda step: -reads[step]):
        yield from _section(run, run.results[step], page)
    for cls in dict.fromkeys(type(step) for step in run.results):
        yield from _together(run, cls, page)


def _section(run: Run, result: StepResult, page: Page) -> Iterator[Section | Trouble]:
    step, record = result.step, result.record
    assert record is not None
    try:
        if (make := _brought(type(step), "section")) is not None:
            made = make(step, run.plan.store.output(record), page)
            yield from () if made is None else (made,)
        elif record.kind == REPORT and step in run.plan.experiment.results.values():
            first, *more = record.facts.get("headline") or [""]
            yield Section(title=step.label or step.op, answer=first, more=more, blocks=[Text(text) for text in more])
    except Exception as error:  # a picture that fails must not take the others with it
        yield Trouble(step.name, f"{type(error).__name__}: {error} ({_pages(type(step))})")


def _together(run: Run, cls: type[Step], page: Page) -> Iterator[Section | Trouble]:
    try:
        if (make := _brought(cls, "together")) is None:
            return
        made: dict[str, Made | None] = {}
        for step, result in run.results.items():
            if type(step) is cls and result.record is not None:
                output = run.plan.store.output(result.record)
                made[step.label or step.name] = Made(output, result.record.facts)
            elif type(step) is cls and result.status is Status.NOT_NEEDED:
                made[step.label or step.name] = None
        found = make(made, page)
        yield from () if found is None else (found,)
    except Exception as error:
        yield Trouble(cls.op, f"{type(error).__name__}: {error} ({_pages(cls)})")


def _brought(cls: type[Step], name: str) -> Callable[..., Section | None] | None:
    module = module_of(cls)
    return getattr(importlib.import_module(module), name, None) if module else None


def _pages(cls: type[Step]) -> str:
    package, dot, name = cls.__module__.rpartition(".")
    return f"{package}{dot}pages.{name}"


@functools.cache
def module_of(cls: type[Step]) -> str:
    """Return the full name of the module that draws this operator's outputs; "" if there is none."""
    try:
        return _pages(cls) if find_spec(_pages(cls)) is not None else ""
    except ModuleNotFoundError:  # no package of pages
        return ""


def code_digest(run: Run) -> str:
    """Return a digest of the modules that draw sections, because other modules draw another page."""
    digest = hashlib.sha256()
    for cls in sorted({type(step) for step in run.results}, key=lambda cls: (cls.__module__, cls.__qualname__)):
        try:
            spec = find_spec(module) if (module := module_of(cls)) else None
            digest.update(Path(spec.origin).read_bytes() if spec is not None and spec.origin else b"")
        except Exception as error:  # the page shows the error in place of the section
            digest.update(repr(error).encode())
    return digest.hexdigest()[:12]
