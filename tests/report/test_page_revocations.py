"""Test that an existing page tells of a revoked output, and stops when the revocation is taken back."""

import json
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from marin.errors import Revoked
from marin.report.page.revocations import shown, stamp_pages
from marin.report.page.write import write_page
from marin.steps.scale import Scale
from marin.store.revocation import bring_revocations, revoke, withdraw
from marin.store.store import Store
from tests.cli.test_cli import Command
from tests.store.test_lineage import of
from tests.support.project import Project
from tests.support.toy import Join, Write, planned, record_of, run

WEB, MATH = Write(text="web", label="web"), Write(text="math", label="math")
CLEAN, MIXED = Join(parts=(WEB, WEB), label="clean"), Join(parts=(WEB, MATH), label="mi<b>xed")


def page_of(prefix: str, name: str) -> str:
    content = Store(prefix).objects.read(f".marin/pages/{name}-rehearsal.html")
    assert content is not None
    return content.decode()


def make_pages(prefix: str) -> None:
    write_page(run(prefix, clean=CLEAN, mixed=MIXED), Path("both.py"), Scale.REHEARSAL, "x")
    write_page(run(prefix, clean=CLEAN), Path("clean.py"), Scale.REHEARSAL, "x")


def test_a_page_carries_a_banner_while_what_it_shows_is_revoked(prefix: str) -> None:
    make_pages(prefix)
    store, before = Store(prefix), page_of(prefix, "both")
    revoke(store, of(prefix, MATH), "holds <test> items")
    assert stamp_pages(store) == [".marin/pages/both-rehearsal.html"]
    assert stamp_pages(store) == []
    page = page_of(prefix, "both")
    assert "do not use 1 of 2 results" in page
    assert "<b>mixed</b> depends on outputs that somebody revoked" in page
    assert "toy-write/math was revoked by" in page
    assert "holds &lt;test&gt; items. On this page: toy-write/math, toy-join/mi&lt;b&gt;xed." in page
    assert "that somebody revoked" not in page_of(prefix, "clean")
    withdraw(store, of(prefix, MATH), "it does not")
    assert stamp_pages(store) == [".marin/pages/both-rehearsal.html"]
    assert page_of(prefix, "both") == before


def test_a_page_that_is_written_after_the_revocation_has_the_banner_too(tmp_path: Path) -> None:
    prefix = str(tmp_path / "store")
    ended = run(prefix, clean=CLEAN, mixed=MIXED)
    revoke(Store(prefix), of(prefix, MATH), "bad")
    write_page(ended, Path("both.py"), Scale.REHEARSAL, "x")  # of a run that was under way
    assert "1 of 2 results" in page_of(prefix, "both")
    write_page(run(prefix, clean=CLEAN), Path("clean.py"), Scale.REHEARSAL, "x")
    assert "that somebody revoked" not in page_of(prefix, "clean")


def test_what_a_page_of_many_steps_says_of_its_outputs_is_short(tmp_path: Path) -> None:
    steps = [Write(text=str(n), label=f"nemotron_cc/shard-{n:05}") for n in range(80)]
    ended = run(str(tmp_path / "store"), end=Join(parts=tuple(steps), label="end"))
    assert len(shown(ended)) < 81 * 30 + 300


@pytest.mark.parametrize("written", ["whole digests", "not compressed"])
def test_a_page_that_lists_its_outputs_as_earlier_ones_do_is_marked_too(tmp_path: Path, written: str) -> None:
    prefix = str(tmp_path / "store")
    make_pages(prefix)
    page = Path(prefix) / ".marin/pages/both-rehearsal.html"
    records = [record_of(prefix, step) for step in (WEB, MATH, MIXED)]
    outputs: object = [[record.name, record.identity, record.root] for record in records]
    if written == "not compressed":
        digests = [record.identity[:12] + record.root[:12] for record in records]
        outputs = {"toy-write": [["web", "math"], "".join(digests[:2])], "toy-join": [["mi<b>xed"], digests[2]]}
    listing = json.dumps({"outputs": outputs, "results": {"mixed": MIXED.identity}}).replace("<", "\\u003c")
    page.write_text(re.sub(r'(id="marin-shown">).*?(?=</script>)', lambda found: found[1] + listing, page.read_text()))
    revoke(Store(prefix), of(prefix, MATH), "holds test items")
    assert stamp_pages(Store(prefix)) == [".marin/pages/both-rehearsal.html"]
    assert "On this page: toy-write/math, toy-join/mi&lt;b&gt;xed." in page.read_text()
    assert "do not use 1 of 1 result" in page.read_text()


def test_people_who_revoke_at_one_moment_are_all_on_the_page(tmp_path: Path) -> None:
    prefix = str(tmp_path / "store")
    steps = [Write(text=str(n), label=f"s{n}") for n in range(6)]
    write_page(run(prefix, end=Join(parts=tuple(steps), label="end")), Path("end.py"), Scale.REHEARSAL, "x")

    def say(number: int) -> None:
        store = Store(prefix)
        revoke(store, of(prefix, steps[number]), f"reason {number}")
        stamp_pages(store)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(say, range(6)))
    page = page_of(prefix, "end")
    assert [n for n in range(6) if f": reason {n}" not in page] == []


def test_the_command_marks_pages_and_says_which(tmp_path: Path) -> None:
    project = Project(tmp_path / "project")
    marin, where = Command(project), ("--prefix", str(project.store))
    project.run()
    (page,) = (project.store / ".marin/pages").glob("*.html")
    before = page.read_text()
    marin("revoke", "say/say", "--because", "loud", "--dry-run", *where)
    assert page.read_text() == before
    assert f"this page now shows the revocation: {page}" in marin("revoke", "say/say", "--because", "loud", *where)
    assert "<b>end</b> depends on" in page.read_text()
    told = json.loads(marin("revoke", "say/say", "--withdraw", "--because", "quiet", "--json", *where))
    assert told["pages"] == [str(page)]
    assert page.read_text() == before
    assert "page unchanged" in project.run()


def test_a_revocation_that_a_mirror_brings_is_on_the_pages_there(tmp_path: Path) -> None:
    project = Project(tmp_path / "project")
    marin, where = Command(project), ("--prefix", str(project.store))
    project.run()
    there = tmp_path / "there"
    shutil.copytree(project.store, there)
    marin("revoke", "repeat", "--because", "said twice", *where)
    (page,) = (there / ".marin/pages").glob("*.html")
    assert "that somebody revoked" not in page.read_text()
    marin("mirror", "say", "--from", str(project.store), "--to", str(there))  # which is not revoked, and there already
    assert "said twice" in page.read_text()
    assert not bring_revocations(Store(str(project.store)), Store(str(there)))


def test_a_page_that_cannot_be_marked_does_not_undo_the_revocation(tmp_path: Path) -> None:
    prefix = str(tmp_path / "store")
    make_pages(prefix)
    page = Path(prefix) / ".marin/pages/both-rehearsal.html"
    page.write_text(page.read_text().replace("<!-- revoked -->", ""))  # as versions before this wrote it
    revoke(Store(prefix), of(prefix, MATH), "bad")
    assert stamp_pages(Store(prefix)) == []
    with pytest.raises(Revoked):
        planned(prefix, mixed=MIXED).must_not_stop()
