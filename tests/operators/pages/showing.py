"""An operator's section as the page shows it, from a report alone."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from marin.report.page.model import ExperimentPage
from marin.report.page.render import render
from marin.report.section import Page, Section
from marin.store.files.directory import Directory


def section_of(module: ModuleType, report: dict[str, Any], folder: Path, **about: Any) -> Section:
    (folder / "report.json").write_text(json.dumps(report))
    made = module.section(None, Directory(str(folder)), Page(arms=("hq", "mix"), store=str(folder), **about))
    return cast(Section, made)


def page_of(section: Section) -> str:
    return render(ExperimentPage(title="t", question="", arms=["hq"], sections=[section]))
