"""Write a run's page when it would show something new; leave it alone otherwise."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from marin.executor.run_results import Run, Status, StepResult
from marin.report.page.drawing import code_digest
from marin.steps.scale import Scale
from marin.store.layout import PAGES, REVOCATIONS, slug
from marin.store.redaction import redacted_bytes

PAGE_VERSION = 21  # raise it whenever a page of the same run shows something else


class WrittenPage(NamedTuple):
    path: str
    is_new: bool


def write_page(run: Run, source: Path, scale: Scale, command: str, only: Sequence[str] = ()) -> WrittenPage:
    """Write the page of a run. If nothing ran and the page already shows the same, it stays as it is.

    only: the results that the run was restricted to. A restricted run has a page of its own beside the page of the
    whole experiment, and so has an experiment with fields that --set changed.
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
    from marin.report.page.revocations import shown, stamp_pages

    page = render(describe(run, source, scale, command), f"{seal}\n{shown(run)}")
    store.objects.write(name, redacted_bytes(page.encode(errors="backslashreplace")))
    if store.objects.list(REVOCATIONS):  # somebody may have revoked during this run
        stamp_pages(store, [name])
    return WrittenPage(f"{store.prefix}/{name}", True)


def _seal(run: Run, scale: Scale) -> str:
    """Return a digest of everything that the page shows. An equal digest spares collecting the page's content.

    Committed outputs do not change, so their identities and tokens stand for them. The digest leaves out the time, the
    command and the revision: a page that stays names the run that wrote its results. It also ignores whether
    a step ran in this run or an earlier one.
    """
    experiment = run.plan.experiment
    about = [str(PAGE_VERSION), code_digest(run), experiment.question or "", experiment.issue_url, scale.value]
    about += [run.plan.store.prefix, *(f"{name} {step.identity}" for name, step in experiment.results.items())]
    shown_of_steps = chain.from_iterable(_parts_of(run, result) for result in run.results.values())
    digest = hashlib.sha256()
    for part in chain(about, shown_of_steps):
        digest.update(f"{part}\0".encode(errors="backslashreplace"))
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
    """Return the path of an experiment's page. Names that a file cannot have get a digest, so that names stay apart."""
    safe = slug(experiment)
    unique = safe if safe == experiment else f"{safe}-{hashlib.sha256(experiment.encode()).hexdigest()[:8]}"
    return f"{PAGES}/{unique}.html"
