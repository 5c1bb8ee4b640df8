"""A project, an edit, and the units that the edit must change."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.fingerprint.cases import HEAD, STEP
from tests.fingerprint.project import write

RULES = "def keep(x):\n    return x\n\n\ndef drop(x):\n    return -x\n"
LIB = {"pyproject.toml": "", "lib/__init__.py": "", "lib/rules.py": RULES}


@dataclass(frozen=True)
class Seen:
    """A project whose run() is body, below top; or whole is op.py. old → new in file changes these units alone."""

    name: str
    body: str
    top: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    file: str = "lib/rules.py"
    old: str = "def keep(x):\n    return x"
    new: str = "def keep(x):\n    return x + 1"
    changes: tuple[str, ...] = ("lib.rules.keep",)
    whole: str = ""

    def project(self) -> dict[str, str]:
        whole = self.whole or f"{HEAD}{self.top}\n{STEP.format(body=self.body)}"
        return {**LIB, **self.files, "op.py": whole}


def edited_projects(cases: Sequence[Seen], folder: Path) -> list[Path]:
    """Write two folders for each case: the project as it is, then the edited project."""
    made: list[Path] = []
    for number, case in enumerate(cases):
        files = case.project()
        assert case.old in files[case.file], f"{case.name}: nothing to edit"
        edited = {**files, case.file: files[case.file].replace(case.old, case.new)}
        made += [write(folder / f"{number}-before", files), write(folder / f"{number}-after", edited)]
    return made
