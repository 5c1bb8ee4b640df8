"""Test the pages in a real browser: hostile text stays text, and only our own script runs."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from marin.report.page import figures
from marin.store.layout import PAGES
from marin.store.store import Store
from tests.report.serve.browsing import Browser, served
from tests.report.serve.test_views import HOSTILE, LEARNT, STORIES, at
from tests.support.project import Project
from tests.support.toy import run

CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), ""
)
needs_chromium = pytest.mark.skipif(not CHROMIUM, reason="no chromium on this machine: apt-get install chromium")
QUIET = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = Project(tmp_path_factory.mktemp("chromium") / "project")
    project.run()
    run(str(project.store), end=STORIES, learnt=LEARNT["learnt-40"])
    return project


@pytest.fixture(scope="module")
def browser(project: Project) -> Iterator[Browser]:
    with served(str(project.store)) as browser:
        yield browser


def page_of(browser: Browser) -> str:
    [page] = re.findall(r'href="[^"]*/(page/exp1[^"]+)"', browser.get().text)
    return page


def dom(browser: Browser, path: str, folder: Path) -> str:
    """The document after everything ran that may run."""
    command = [CHROMIUM, *QUIET, f"--user-data-dir={folder}", "--virtual-time-budget=2000", "--dump-dom"]
    done = subprocess.run([*command, browser.address + path], capture_output=True, text=True, timeout=120, check=True)
    return done.stdout


def test_only_our_script_may_run_and_nothing_tells_others_the_address(browser: Browser, project: Project) -> None:
    store, name = Store(str(project.store)), page_of(browser)
    own = browser.get(name)
    assert "sha256-" in own.headers["Content-Security-Policy"]
    assert "unsafe-inline" not in own.headers["Content-Security-Policy"].partition("script-src")[2]
    assert '{"step":"../step/"}' in own.text
    evil = (
        '<meta name="referrer" content="unsafe-url"><META http-equiv=refresh content="0;url=//x"><a referrerPolicy=x>'
    )
    store.objects.write(f"{PAGES}/evil.html", f"<html><header>{evil}{HOSTILE}".encode())
    page = browser.get("page/evil.html").text.lower()
    assert "<meta" not in page
    assert "referrerpolicy" not in page


def test_what_another_version_would_run_is_dropped_and_its_data_stay(browser: Browser, project: Project) -> None:
    data = '<script type="application/json">[1]</script>'
    old = f"<html><body><header>{data}<svg><a class=node></a></svg><SCRIPT async>earlier()</script >"
    Store(str(project.store)).objects.write(f"{PAGES}/old.html", f"{old}</body></html>".encode())
    page = browser.get("page/old.html").text
    assert "earlier()" not in page
    assert data in page
    assert "<svg>" in page
    assert page.count(figures.script()) == 1
    assert page.endswith("</script></body></html>")


def test_the_home_says_what_each_experiment_answers(browser: Browser) -> None:
    assert "rehearsal: 1 result; no report compares it with another." in browser.get().read.text


@needs_chromium
def test_curves_are_drawn_by_our_own_script(browser: Browser, tmp_path: Path) -> None:
    seen = dom(browser, f"curves?run={LEARNT['learnt-40'].identity[:12]}", tmp_path)
    assert '<div class="uplot' in seen
    assert "<canvas" in seen


@needs_chromium
def test_hostile_text_stays_text(browser: Browser, tmp_path: Path) -> None:
    for view in ("", "contents?from=62"):
        seen = dom(browser, at(STORIES, view), tmp_path)
        assert "<title>pwned" not in seen
        assert "&lt;script&gt;document.title='pwned'&lt;/script&gt;" in seen
        assert "<script" not in seen


@needs_chromium
def test_the_page_of_an_experiment_works_and_a_page_of_anybody_runs_nothing(
    browser: Browser, project: Project, tmp_path: Path
) -> None:
    seen = dom(browser, page_of(browser), tmp_path)
    assert re.search(r'<html[^>]* class="scripted"', seen), "our own script did not run"
    assert 'class="box' in seen
    assert 'class="fold' in seen
    Store(str(project.store)).objects.write(
        f"{PAGES}/evil.html", f"<html><title>calm</title><header>{HOSTILE}".encode()
    )
    assert "<title>calm" in dom(browser, "page/evil.html", tmp_path)
