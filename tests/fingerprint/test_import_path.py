"""marin resolves an import to the file that Python itself would take."""

import json
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from marin.fingerprint.lookup.import_path import Locator

FAST = f"fast{EXTENSION_SUFFIXES[0]}"
FILES = {
    "one": (
        "both/__init__.py",
        "both.py",
        "space/inner/a.py",
        "space/twice.py",
        "late/b.py",
        "plain.py",
        FAST,
        "fast.py",
    ),
    "two": ("space/inner/c.py", "space/twice.py", "space/regular/__init__.py", "late/__init__.py", "late/d.py"),
}
NAMES = (
    *("both", "both.absent", "space", "space.inner", "space.inner.a", "space.inner.c", "space.twice", "space.regular"),
    *("late", "late.b", "late.d", "one", "one.absent", "fast", "absent"),
)
ASK = """
import importlib.util, json, sys
def ask(name):
    try:
        spec = importlib.util.find_spec(name)
    except ImportError:
        return None
    return spec and (spec.origin or list(spec.submodule_search_locations)[0])
print(json.dumps({name: ask(name) for name in sys.argv[1:]}))
"""


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Make two folders on Python's path, with modules, packages and namespaces that hide each other."""
    folder = tmp_path_factory.mktemp("path").resolve()
    for root, files in FILES.items():
        for file in files:
            (folder / root / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / root / file).touch()
    return [folder / root for root in FILES]


def test_it_is_the_file_that_python_takes(folders: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    command = [sys.executable, "-c", ASK, *NAMES]
    environment = {"PYTHONPATH": ":".join(map(str, folders)), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, env=environment, cwd="/", capture_output=True, text=True, check=True)
    monkeypatch.setattr(sys, "path", [*map(str, folders), *sys.path])
    locator = Locator()
    found = {name: locator.find(name, folders[0]) for name in NAMES}
    assert {name: str(at) if isinstance(at, Path) else None for name, at in found.items()} == json.loads(done.stdout)
    assert {at for at in found.values() if not isinstance(at, Path)} == {"absent", "nowhere"}
