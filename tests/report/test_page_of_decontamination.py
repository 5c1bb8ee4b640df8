"""Test the page's section about the test items that the run removed from its text."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from marin.report.page.write import page_name, write_page
from marin.steps.scale import Scale
from marin.store.store import Store
from operators.decontaminate import Decontaminate
from operators.download import FsspecFiles
from operators.exact_dedup import ExactDedup
from operators.read_suite import ReadSuite
from tests.report.reading import Reading
from tests.report.test_contamination import ITEMS, PLAIN, PROBLEMS, Pages
from tests.support.toy import Write, record_of, run

HERE = Path(__file__)
DISGUISED = ITEMS[9].question.replace("a", "\u0430")  # Cyrillic
WEB, MATH = Pages(texts=tuple(PLAIN), label="web"), Pages(texts=(*PLAIN[:6], *PROBLEMS, DISGUISED), label="math")


@pytest.fixture
def suite(tmp_path: Path) -> str:
    path = tmp_path / "asked.jsonl"
    path.write_text("".join(json.dumps({"question": item.question, "answer": item.answer}) + "\n" for item in ITEMS))
    return str(path)


def page_of(prefix: str, **results: Any) -> str:
    write_page(run(prefix, **results), HERE, Scale.REHEARSAL, "a test")
    content = Store(prefix).objects.read(page_name(f"{HERE.stem}-rehearsal"))
    assert content is not None
    return content.decode()


def test_it_says_what_went_and_shows_it(suite: str, tmp_path: Path) -> None:
    items = ReadSuite(files=FsspecFiles(urls=(suite,), label="suite"), label="mmlu")
    clean = {
        each.label: Decontaminate(documents=each, against=(items,), max_removed=1.0, label=each.label)
        for each in (MATH, WEB)
    }
    html = page_of(str(tmp_path / "store"), **clean)
    read = Reading(html)
    assert (
        "The search found items of mmlu in 4 of 22 documents of 2 sources; these documents were removed." in read.text
    )
    assert "Of 16 items planted for the search to find, 16 were found." in read.text
    suite_row = read.row("mmlu")
    assert suite_row[:5] == ["mmlu", "20", "0", "8 of 8 found", "4"]
    assert suite_row[5] == "word for word 3, disguised 1"
    assert "json 1" in suite_row[6]
    assert read.row("math")[1:] == ["10", "4", "40.00%", "3 of mmlu"]
    assert "No document was removed from web." in read.text
    marked = re.findall(r"<mark>(.*?)</mark>", html, re.DOTALL)
    assert len(marked) == 3
    assert all(text.lower().replace("\u0430", "a").startswith("which of ") for text in marked)
    assert any("\u0430" in text for text in marked), "unlike ones come first"
    assert 'href="#about-decontamination"' in html


def test_what_was_deleted_since_is_named(suite: str, tmp_path: Path) -> None:
    prefix = str(tmp_path / "store")
    items = ReadSuite(files=FsspecFiles(urls=(suite,), label="suite"), label="mmlu")
    math, web = (Decontaminate(documents=each, against=(items,), label=each.label) for each in (MATH, WEB))
    distinct = ExactDedup(documents=web, label="distinct")
    run(prefix, math=math, distinct=distinct)
    shutil.rmtree(Path(prefix) / record_of(prefix, web).attempt)
    read = Reading(page_of(prefix, math=math, distinct=distinct)).text
    assert "The search found items of mmlu in 4 of 10 documents of 1 source; these documents were removed." in read
    assert "The findings in web were deleted since." in read


def test_without_a_decontamination_there_is_no_section(tmp_path: Path) -> None:
    assert "#about-decontamination" not in page_of(str(tmp_path / "store"), one=Write(text="a", label="a"))
