"""Find the modules that draw an operator's outputs. This imports their package only; see marin.report.section."""

from __future__ import annotations

import functools
import hashlib
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from marin.executor.run_results import Run
from marin.steps.step import ExecutorStep

REPORT = "report"  # kind of artifacts that answer a question

type Step = ExecutorStep[Any]


def pages_of(cls: type[Step]) -> str:
    """Return the full name of the module that would draw this operator's outputs."""
    package, dot, name = cls.__module__.rpartition(".")
    return f"{package}{dot}pages.{name}"


@functools.cache
def module_of(cls: type[Step]) -> str:
    """Return the full name of the module that draws this operator's outputs; "" if there is none."""
    try:
        return pages_of(cls) if find_spec(pages_of(cls)) is not None else ""
    except ModuleNotFoundError:  # no package of pages
        return ""


def draws_any(run: Run) -> bool:
    """Return whether a run may have sections: of a module that draws outputs, or of a report."""
    if any(result.record is not None and result.record.kind == REPORT for result in run.results.values()):
        return True
    try:
        return any(module_of(type(step)) for step in run.results)
    except Exception:  # the package of pages cannot be imported, which its section will say
        return True


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
