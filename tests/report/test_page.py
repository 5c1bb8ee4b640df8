"""The page of a run: written when it tells something new, left alone when it would tell the same."""

from pathlib import Path
from typing import Any

import pytest

from marin import Context, Resources, Scores
from marin.executor.run_results import Run
from marin.report.page.write import page_name, write_page
from marin.steps.scale import Scale
from marin.steps.step import ExecutorStep
from marin.store.store import Store
from tests.report.reading import Reading
from tests.support.toy import Fail, Join, Write, run

HERE = Path(__file__)


class Scored(ExecutorStep[Scores], op="page-scored"):
    value: float

    def run(self, ctx: Context) -> Scores:
        ctx.out.write_text("scores.json", "{}")
        return Scores(metrics={"bpb/web": self.value})


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "store"))


def execute(store: Store, step: ExecutorStep[Any]) -> Run:
    return run(store.prefix, made=step)


def text(store: Store) -> str:
    content = store.objects.read(page_name("test_page-rehearsal"))
    assert content is not None
    return content.decode()


def test_a_cached_run_leaves_the_page_of_the_run_that_made_it(store: Store) -> None:
    joined = Join(label="joined", parts=(Write(label="a", text="a"), Write(label="b", text="b")))
    first = execute(store, joined)
    assert write_page(first, HERE, Scale.REHEARSAL, "first command")[1]
    before = text(store)
    assert "first command" in before
    assert "3 ran" in before
    again = execute(store, joined)
    path, new = write_page(again, HERE, Scale.REHEARSAL, "second command")
    assert not new
    assert path.endswith("test_page-rehearsal.html")
    assert text(store) == before
    # One more step makes a new page, although the other steps are cached.
    more = execute(store, Join(label="more", parts=(joined,)))
    assert write_page(more, HERE, Scale.REHEARSAL, "third command")[1]
    assert "third command" in text(store)


def test_a_page_of_other_code_is_written_anew(store: Store) -> None:
    step = Write(label="a", text="a")
    write_page(execute(store, step), HERE, Scale.REHEARSAL, "one")
    name = page_name("test_page-rehearsal")
    store.objects.write(
        name, text(store).replace('name="marin-seal" content="', 'name="marin-seal" content="0').encode()
    )
    assert write_page(execute(store, step), HERE, Scale.REHEARSAL, "two")[1]
    assert "two" in text(store)


def test_a_failed_run_says_so_every_time(store: Store) -> None:
    step = Join(label="after", parts=(Fail(label="broken", source=Write(label="a", text="a")),))
    for command in ("one", "two"):
        assert write_page(execute(store, step), HERE, Scale.REHEARSAL, command)[1]
        page = text(store)
        assert "1 step failed, 1 skipped" in page
        assert "the disk of dreams is empty" in page
        assert command in page


def test_a_run_of_some_results_leaves_the_whole_experiments_page_alone(store: Store) -> None:
    step = Write(label="a", text="a")
    write_page(execute(store, step), HERE, Scale.REHEARSAL, "the whole")
    before = text(store)
    path, new = write_page(execute(store, step), HERE, Scale.REHEARSAL, "a part", ("end",))
    assert new
    assert path.endswith("test_page-rehearsal-end.html")
    assert text(store) == before


def test_whatever_a_page_tells_renews_it(store: Store) -> None:
    """The seal covers everything that the page shows, and must miss nothing."""
    step = Write(label="a", text="a")
    write_page(execute(store, step), HERE, Scale.REHEARSAL, "first")
    assert not write_page(execute(store, step), HERE, Scale.REHEARSAL, "again")[1]
    renamed = execute(store, Write(label="b", text="a"))  # the same identity under another name
    assert write_page(renamed, HERE, Scale.REHEARSAL, "another label")[1]
    assert [data["labels"] for data in Reading(text(store)).data if "labels" in data] == [["b"]]
    rebuilt = run(store.prefix, rebuild=("b",), made=Write(label="b", text="a"))
    assert write_page(rebuilt, HERE, Scale.REHEARSAL, "made again")[1]
    assert not write_page(execute(store, Write(label="b", text="a")), HERE, Scale.REHEARSAL, "again")[1]
    elsewhere = Write(label="b", text="a", resources=Resources(cpus=3))
    assert write_page(execute(store, elsewhere), HERE, Scale.REHEARSAL, "other resources")[1]


def test_results_that_nothing_compares_are_shown_all_the_same(store: Store) -> None:
    done = run(store.prefix, **{name: Scored(label=name, value=value) for name, value in (("low", 1.5), ("high", 2.5))})
    write_page(done, HERE, Scale.REHEARSAL, "scores")
    reading = Reading(text(store))
    assert reading.row("metric")[1:] == ["low", "high"]
    assert [cell.split()[0] for cell in reading.row("bpb/web")[1:]] == ["1.5000", "2.5000"]
    assert "2 results; no report compares them." in reading.text
    write_page(execute(store, Write(label="a", text="abc")), HERE, Scale.REHEARSAL, "a blob")
    assert "made: bytes 3" in text(store)
    assert "No answer yet" not in text(store)
