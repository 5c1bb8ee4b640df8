"""The cache of source files changes no fingerprint, whatever happens to its folder."""

import ast
import importlib
import json
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from marin.fingerprint.of_step import Fingerprinter
from marin.fingerprint.source import cache
from tests.fingerprint.cases import HEAD, STEP
from tests.fingerprint.project import CHECKOUT, PRINT, read, write

FILES = {
    "pyproject.toml": "",
    "lib/__init__.py": "",
    "lib/rules.py": "import functools\nfrom lib.words import MARK\n\n\n@functools.cache\ndef keep(x: int = 1):\n"
    '    """Keep."""\n    return x, MARK\n\n\nTABLE = {}\nTABLE["keep"] = keep\nprint(end="")\n',
    "lib/words.py": "MARK = 1\n",
    "op.py": f"{HEAD}from lib import rules\n{STEP.format(body='return rules.keep(1)')}".replace('"step"', '"kept"'),
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MARIN_CACHE", str(tmp_path / "cache"))
    return write(tmp_path / "project", FILES)


class Live:
    """A step of a project that this process imported, and the files that its fingerprint parsed."""

    def __init__(self, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.syspath_prepend(str(project))
        self.step = importlib.import_module("op").build()
        self.parsed: list[str] = []
        parse = ast.parse

        def noted(source: str, filename: str = "<unknown>", *arguments: object, **options: object) -> ast.AST:
            self.parsed += [Path(filename).name] if filename.startswith(str(project)) else []
            return parse(source, filename, *arguments, **options)  # pyright: ignore

        monkeypatch.setattr(ast, "parse", noted)

    def fingerprint(self) -> str:
        """Return the fingerprint that a new process would compute."""
        self.parsed.clear()
        made = Fingerprinter().fingerprint(self.step)
        return json.dumps([made.to_json(sources=True), sorted(made.loaded), sorted(made.counted_before())])


@pytest.fixture
def live(project: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Live]:
    yield Live(project, monkeypatch)
    for name in ("op", "lib", "lib.rules", "lib.words"):
        sys.modules.pop(name, None)


def entries(project: Path) -> list[Path]:
    return sorted((project.parent / "cache/sources").iterdir())


def test_a_plan_parses_only_what_changed(live: Live, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cold = live.fingerprint()
    assert sorted(live.parsed) == ["__init__.py", "op.py", "rules.py", "words.py"]
    assert live.fingerprint() == cold
    assert live.parsed == []
    (project / "lib/words.py").write_text("MARK = 2\n")
    edited = live.fingerprint()
    assert live.parsed == ["words.py"]
    assert edited != cold
    monkeypatch.setenv("MARIN_CACHE", str(project.parent / "empty"))
    assert live.fingerprint() == edited


def test_a_damaged_entry_is_read_again(live: Live, project: Path) -> None:
    cold = live.fingerprint()
    whole = {entry: entry.read_bytes() for entry in entries(project)}
    for damage in (lambda held: held[:-1], lambda held: held.replace(b"keep", b"kept"), lambda held: b""):
        for entry, held in whole.items():
            entry.write_bytes(damage(held))
        assert live.fingerprint() == cold
        assert {entry: entry.read_bytes() for entry in entries(project)} == whole


def test_a_folder_that_cannot_be_made_or_that_others_can_write_to_is_not_used(
    live: Live, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cold = live.fingerprint()
    (project.parent / "cache/sources").chmod(0o770)
    assert live.fingerprint() == cold
    assert len(live.parsed) == 4
    (project.parent / "file").write_text("")
    monkeypatch.setenv("MARIN_CACHE", str(project.parent / "file/cache"))
    assert live.fingerprint() == cold
    assert len(live.parsed) == 4


def test_processes_at_once_and_another_python_get_along(project: Path) -> None:
    with ThreadPoolExecutor(3) as pool:
        made = list(pool.map(lambda _: read(project).to_json(sources=True), range(3)))
    assert made[0] == made[1] == made[2]
    together = entries(project)
    assert all(entry.suffix == "" and len(entry.name) == 32 for entry in together), "no temporary file stays"
    other = [sys.executable, "-c", f"import sys\nsys.version += ' other'{PRINT}", str(project), str(CHECKOUT)]
    assert read(project, command=other).to_json(sources=True) == made[0]
    assert len(entries(project)) == 2 * len(together)


def test_the_older_half_of_too_many_entries_goes(live: Live, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    live.fingerprint()
    first = len(entries(project))
    monkeypatch.setattr(cache, "MOST", first + 5)
    for number in range(3 * first):
        (project / "lib/words.py").write_text(f"MARK = {number}\n")
        live.fingerprint()
    assert len(entries(project)) <= 2 * first + 5  # each process may add its own entries
    live.fingerprint()
    assert live.parsed == []
