"""A run's page: written when it shows something new, left alone when it would show the same."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from marin.executor.run_results import Run, Status, StepResult
from marin.report.page.revocations import shown, stamp_pages
from marin.report.page.sections import code_digest
from marin.steps.scale import Scale
from marin.store.layout import PAGES, REVOCATIONS, slug
from marin.store.redaction import redacted_bytes

PAGE_VERSION = 17  # one more whenever pages of the same run show something else


class WrittenPage(NamedTuple):
    path: str
    is_new: bool


def write_page(run: Run, source: Path, scale: Scale, command: str, only: Sequence[str] = ()) -> WrittenPage:
    """Where nothing ran and the page already shows the same, it stays as it is.

    only: the results that the run was restricted to; they get a page of their own beside the whole experiment's. So
    does an experiment with fields that --set changed.
    """
    store = run.plan.store
    name = page_name("-".join([source.stem, scale.value, *only, *run.plan.experiment.all_changes()]))
    seal = f'<meta name="marin-seal" content="{_seal(run, scale)}">'
    if not run.having(Status.RAN, Status.ALIAS, Status.FAILED):
        there = store.objects.read(name)
        if there is not None and seal.encode() in there[:2000]:
            return WrittenPage(f"{store.prefix}/{name}", False)
    from marin.report.page.collect import describe  # reads metrics and reports
    from marin.report.page.render import render  # templates

    page = render(describe(run, source, scale, command), f"{seal}\n{shown(run)}")
    store.objects.write(name, redacted_bytes(page.encode(errors="backslashreplace")))
    if store.objects.list(REVOCATIONS):  # during this run, it may be
        stamp_pages(store, [name])
    return WrittenPage(f"{store.prefix}/{name}", True)


def _seal(run: Run, scale: Scale) -> str:
    """Digest of all that a page is made from, so that what it would show need not be collected to know that it stands.

    Committed outputs do not change, so their identities and tokens stand for them. Not of when, by which command or at
    which revision it was made: a page that stands keeps those of the run that made its results. Whether a step ran in
    that run or before is no difference either.
    """
    experiment = run.plan.experiment
    parts = [str(PAGE_VERSION), code_digest(run), experiment.question or "", experiment.issue_url, scale.value]
    parts += [run.plan.store.prefix, *(f"{name} {step.identity}" for name, step in experiment.results.items())]
    parts += [line for result in run.results.values() for line in _parts_of(run, result)]
    digest = hashlib.sha256("\0".join(parts).encode(errors="backslashreplace"))
    return digest.hexdigest()[:32]


def _parts_of(run: Run, result: StepResult) -> Iterator[str]:
    step, record, decision = result.step, result.record, run.plan.of(result.step)
    status = Status.CACHED if result.status is Status.RAN else result.status
    yield f"{step.name} {step.identity} {status} {step.resources}"
    if record is not None:
        yield f"{record.attempt} {record.token} {record.root}"
    if result.error:
        yield f"{result.error} {result.log}"
    yield from decision.drift
    yield from decision.notes


def page_name(experiment: str) -> str:
    """Different names give different pages, also where one is too long or too odd for a file."""
    safe = slug(experiment)
    unique = safe if safe == experiment else f"{safe}-{hashlib.sha256(experiment.encode()).hexdigest()[:8]}"
    return f"{PAGES}/{unique}.html"
