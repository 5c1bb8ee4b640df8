"""The served page of a report step links to the pages of its experiment, which show the report's tables."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urljoin

from marin.store.inventory import read_inventory
from marin.store.store import Store
from tests.report.serve.browsing import Browser, served
from tests.support.project import Project

JUDGED = '''
"""Is it loud?"""
from marin import Context, Experiment, ExecutorStep, Report, Scale, executor_main
from tests.support.toy import Blob, Write


class Judge(ExecutorStep[Report], op="judge-words"):
    words: ExecutorStep[Blob]

    def run(self, ctx: Context) -> Report:
        ctx.out.write_text("report.json", "{}")
        return Report(headline=["LOUD: all letters are capitals."])


def build(scale: Scale) -> Experiment:
    judge = Judge(words=Write(text="HELLO", label="words"), label="words")
    return Experiment(issue=1, question=__doc__, results={"verdict": judge})


if __name__ == "__main__":
    executor_main(build)
'''


def linked_pages(browser: Browser, step: str) -> list[str]:
    """The experiments' pages that the page of a step links to, as paths below the secret part."""
    tags = browser.get(step).read.tags
    targets = [urljoin(browser.base + step, given["href"]) for tag, given in tags if tag == "a"]
    return [target.removeprefix(browser.base) for target in targets if target.startswith(f"{browser.base}page/")]


def test_a_report_links_to_the_page_that_shows_its_answer_and_other_outputs_do_not(tmp_path: Path) -> None:
    project = Project(tmp_path / "project", JUDGED)
    project.run()
    store = Store(str(project.store))
    steps = {record.kind: f"step/{record.identity[:12]}" for record in read_inventory(store).records.values()}
    with served(store.prefix) as browser:
        [page] = linked_pages(browser, steps["report"])
        assert "LOUD: all letters are capitals." in browser.get(page).text
        assert linked_pages(browser, steps["toy-blob"]) == []
