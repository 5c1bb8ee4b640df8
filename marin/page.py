"""From a run to its page: collects what records, metrics and reports say."""

from __future__ import annotations

from marin.scale import Scale
from marin.scheduler import Run
from pathlib import Path


def render(run: Run, source: Path, scale: Scale, command: str) -> str:
    return run.plan.store.page(source.stem)
