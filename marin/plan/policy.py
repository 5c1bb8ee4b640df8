"""The project's default for drift, which applies when a command does not set one."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from marin.fingerprint.lookup.import_path import Locator
from marin.fingerprint.settings import settings_of
from marin.plan.decision import OnDrift


class Policy(NamedTuple):
    """The ``on_drift`` setting of a project. file: the pyproject.toml that sets it, "" if none does."""

    on_drift: OnDrift
    file: str


def policy_of(source: Path) -> Policy:
    """Return the policy of an experiment file's project. Raises ExperimentError for a wrong setting."""
    project = next(filter(Locator().is_project, source.parents), source.parent)
    settings = settings_of(str(project))
    on_drift = OnDrift(settings.on_drift)
    return Policy(on_drift, settings.file if on_drift is not OnDrift.STOP else "")
