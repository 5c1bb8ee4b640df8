"""The documentation as a site."""

import importlib
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import operators
from marin import ExecutorStep
from tests.support.project import ROOT

PAGES = sorted(path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md"))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every link and every name of the reference leads somewhere, else the build fails."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_every_page_is_in_the_menu(site: Path) -> None:
    menu = (ROOT / "mkdocs.yml").read_text()
    assert [page for page in PAGES if f" {page}\n" not in menu] == []
    assert len(list(site.rglob("index.html"))) == len(PAGES)


def test_the_reference_has_every_operator_with_its_fields(site: Path) -> None:
    page = (site / "reference/operators/index.html").read_text()
    for module in pkgutil.iter_modules(operators.__path__, "operators."):
        for name, cls in vars(importlib.import_module(module.name)).items():
            if isinstance(cls, type) and issubclass(cls, ExecutorStep) and cls.__module__ == module.name:
                if name == "Milestone":  # made by Train.at
                    continue
                assert f'id="{module.name}.{name}"' in page
                for field in cls.__annotations__:
                    assert f'id="{module.name}.{name}.{field}"' in page


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        fetched = re.findall(r'<(?:script|link|img)[^>]*(?:src|href)="(https?://[^"]+)"', page.read_text())
        assert fetched == [], page
