"""Lists of a store's content: experiments, runs, steps at work, outputs."""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache
from html import unescape
from typing import Any

from marin.report.history import PastRun, experiment_of, past_runs, run_names, store_statuses
from marin.report.serve.looked import StoreView
from marin.store.layout import PAGES, slug
from marin.store.lineage import output_of
from marin.store.objects.stored import Stored
from marin.store.store import Store

RUNS, STEPS, OUTPUTS = 20, 500, 100  # of one page


def home(looked: StoreView) -> dict[str, Any]:
    """Return experiments with their last runs and pages, the latest runs, steps at work, and outputs by kind."""
    names = run_names(looked.store)
    last = {experiment_of(name): name for name in names}
    runs = {run.name: run for run in past_runs(looked.store, sorted({*last.values(), *names[-RUNS:]}))}
    records = looked.inventory.newest_first()
    counts = Counter(record.provenance.experiment for record in records)
    claims = looked.claims([output_of(record) for record in records])
    untrusted = Counter(
        record.provenance.experiment for record in records if any(claim.is_bad for claim in claims[output_of(record)])
    )
    experiments = sorted({*last, *counts} - {""}, key=lambda name: last.get(name, ""), reverse=True)
    pages = pages_of(looked, experiments)
    stats = looked.store.objects.stats(PAGES)
    how_often = Counter(map(experiment_of, names))
    return {
        "experiments": [
            {
                "name": name,
                "runs": how_often[name],
                "last": runs.get(last.get(name, "")),
                "outputs": counts[name],
                "untrusted": untrusted[name],
                "pages": {page: _answer(looked.store, page, stats[page]) for page in pages[name]},
            }
            for name in experiments
        ],
        "pages": pages[""],  # of no known experiment
        "runs": [runs[name] for name in reversed(names[-RUNS:])],
        "all_runs": len(names),
        "at_work": store_statuses(looked.store),
        "kinds": dict(sorted(Counter(record.kind for record in records).items())),
    }


def pages_of(looked: StoreView, experiments: list[str]) -> dict[str, list[str]]:
    """Return the names of pages by experiment; "" for pages of none of these."""
    found: dict[str, list[str]] = {name: [] for name in ("", *experiments)}
    for page in looked.store.objects.list(PAGES):
        if page.endswith(".html"):
            fitting = [name for name in experiments if page.startswith(f"{slug(name)}-")]
            found[max(fitting, key=len, default="")].append(page)
    return found


@lru_cache(maxsize=1000)
def _answer(store: Store, page: str, stat: Stored) -> str:
    """Return a page's answer. stat: of its bytes, so that each version is read once."""
    content = store.objects.read(f"{PAGES}/{page}") or b""
    found = re.search(rb'<meta name="marin-answer" content="([^"]*)">', content)
    return unescape(found[1].decode(errors="replace")) if found else ""


def runs_of(looked: StoreView, experiment: str, before: str = "") -> tuple[list[PastRun], str]:
    """Return (runs, newest first; start of the next page, "" at the end). experiment: "" for all."""
    names = [
        name
        for name in reversed(run_names(looked.store))
        if (not before or name < before) and (not experiment or experiment_of(name) == experiment)
    ]
    return past_runs(looked.store, names[:RUNS]), names[RUNS - 1] if len(names) > RUNS else ""


def events_of(run: PastRun) -> tuple[list[dict[str, Any]], int]:
    """Return (the last event of each step, latest first; number of steps left out)."""
    last = {str(event["identity"]): event for event in run.events if {"step", "identity"} <= event.keys()}
    newest = sorted(last.values(), key=lambda event: str(event.get("when", "")), reverse=True)
    return newest[:STEPS], max(len(newest) - STEPS, 0)


def outputs_page(looked: StoreView, words: str, kind: str, experiment: str, first: int) -> dict[str, Any]:
    """Return outputs with their warnings. words: part of a name, or the first digits of an identity."""
    every = looked.inventory.newest_first()
    found = [
        record
        for record in every
        if (not words or words in record.name or record.identity.startswith(words))
        and (not kind or record.kind == kind)
        and (not experiment or record.provenance.experiment == experiment)
    ]
    shown = found[first : first + OUTPUTS]
    warnings = looked.warnings(shown)
    return {
        "rows": [(record, warnings[output_of(record)]) for record in shown],
        "first": first,
        "total": len(found),
        "kinds": sorted({record.kind for record in every}),
        "experiments": sorted({record.provenance.experiment for record in every} - {""}),
    }
