"""Sections that operators add to a page. The operator's module name leads to them; see marin.report.section."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Any

from marin.executor.run_results import Run, Status, StepResult
from marin.report.page.drawing import REPORT, module_of, pages_of
from marin.report.section import Made, Page, Section, Text, Trouble
from marin.steps.step import ExecutorStep

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
        yield Trouble(step.name, f"{type(error).__name__}: {error} ({pages_of(type(step))})")


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
        yield Trouble(cls.op, f"{type(error).__name__}: {error} ({pages_of(cls)})")


def _brought(cls: type[Step], name: str) -> Callable[..., Section | None] | None:
    module = module_of(cls)
    return getattr(importlib.import_module(module), name, None) if module else None
