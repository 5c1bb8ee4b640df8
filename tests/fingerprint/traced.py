"""Compare the project's functions that a step's run() really executes with the step's fingerprint."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType
from typing import Any

from marin.fingerprint.lookup.import_path import Locator
from marin.fingerprint.of_step import Fingerprinter
from marin.fingerprint.origin import is_engine, is_local
from marin.steps.step import ExecutorStep

TESTS = Path(__file__).resolve().parents[1]
FINGERPRINTER = Fingerprinter()


@contextmanager
def executed() -> Generator[set[CodeType]]:
    """Return the code objects that ran in the block, without the ones that ran only to import a module."""
    found: set[CodeType] = set()
    monitoring = sys.monitoring
    tool = next((each for each in range(2, 6) if monitoring.get_tool(each) is None), None)
    assert tool is not None, "every tool of sys.monitoring is taken"

    def started(code: CodeType, _: int) -> Any:
        if is_local(code.co_filename) and code.co_filename[:1] != "<" and not _importing():
            found.add(code)
            return monitoring.DISABLE
        return None if code.co_filename[:1] != "<" and is_local(code.co_filename) else monitoring.DISABLE

    monitoring.use_tool_id(tool, "traced")
    monitoring.register_callback(tool, monitoring.events.PY_START, started)
    monitoring.set_events(tool, monitoring.events.PY_START)
    monitoring.restart_events()
    try:
        yield found
    finally:
        monitoring.set_events(tool, 0)
        monitoring.free_tool_id(tool)


def _importing() -> bool:
    frame = sys._getframe(2)
    while frame is not None:
        caller = frame.f_back
        if frame.f_code.co_name == "<module>" and caller is not None and "importlib" in caller.f_code.co_filename:
            return True
        frame = caller
    return False


def unseen(step: ExecutorStep[Any], codes: set[CodeType]) -> list[str]:
    """Return the functions among these codes that the step's fingerprint lacks and should have."""
    units = FINGERPRINTER.fingerprint(step).units
    locator = Locator()
    missing: set[str] = set()
    for code in codes:
        path = Path(code.co_filename).resolve()
        if path.is_relative_to(TESTS) or not path.is_file():
            continue
        module, top = locator.name_of(path), code.co_qualname.split(".")[0]
        if is_engine(module):
            continue
        if top == "<lambda>":  # for example in a table
            if not any(unit.startswith(f"{module}.") for unit in units):
                missing.add(f"{module}: a lambda in line {code.co_firstlineno}")
        elif f"{module}.{top}" not in units:
            missing.add(f"{module}.{top}")
    return sorted(missing)
