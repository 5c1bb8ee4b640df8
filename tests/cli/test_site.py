"""Test the documentation as a site."""

import importlib
import pkgutil
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import operators
from marin import ExecutorStep
from tests.support.project import ROOT

PAGES = sorted(path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md"))


def build(project: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    # The command omits --quiet, which drops warnings before --strict can count them.
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    return subprocess.run(command, cwd=project, capture_output=True, text=True)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site. The build fails if a link or a name of the reference leads nowhere."""
    folder = tmp_path_factory.mktemp("site")
    done = build(ROOT, folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.mark.parametrize("link", ["gone.md", "../gone.md", "index.md#gone"])
def test_a_broken_link_fails_the_build(link: str, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "mkdocs.yml").write_text((ROOT / "mkdocs.yml").read_text().split("nav:")[0])
    shutil.copy(ROOT / "docs/links.py", tmp_path / "docs")
    (tmp_path / "docs/index.md").write_text(f"# A page\n\n[there]({link})\n")
    done = build(tmp_path, tmp_path / "site")
    assert done.returncode != 0
    assert f"link '{link}'" in done.stdout + done.stderr


def test_a_link_to_a_file_outside_the_documentation_leads_to_the_repository(site: Path) -> None:
    assert '/blob/main/CONTRIBUTING.md"' in (site / "architecture/index.html").read_text()


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
