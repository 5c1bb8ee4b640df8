"""A person's own operator has its own section of the page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.report.reading import Reading
from tests.support.new_project import marin, new_project

EXPERIMENT = '''"""Exp 2: how long are the texts?"""

from pathlib import Path

from marin import Experiment, Scale, executor_main
from operators.text_files import TextFiles

from study.drop_short import DropShort


def build(scale: Scale) -> Experiment:
    text = TextFiles(path=str(Path(__file__).parent / "text"), label="text")
    return Experiment(issue=2, question=__doc__, results={"kept": DropShort(documents=text, words=20, label="kept")})


if __name__ == "__main__":
    executor_main(build)
'''


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """A new project, which has a section of its own, with an experiment about its text."""
    study = new_project(tmp_path / "study")
    (study / "exp2_lengths.py").write_text(EXPERIMENT)
    return study


def page_of(study: Path) -> str:
    marin(study, "run", "exp2_lengths.py")
    [page] = (study / "store/.marin/pages").glob("*.html")
    return page.read_text()


def test_a_section_of_ones_own_is_on_the_page_and_rewording_it_changes_the_page_alone(study: Path) -> None:
    assert re.search(
        r"^• \d+ documents have at least \d+ words\.", marin(study, "run", "exp2_lengths.py"), re.MULTILINE
    )
    read = Reading(page_of(study))
    assert re.search(r"\d+ documents have at least \d+ words\.", read.text)
    assert read.row("longest")[1].replace(",", "").isdigit()
    module = study / "study/pages/drop_short.py"
    module.write_text(module.read_text().replace("half", "the middle one"))
    assert "2 cached" in marin(study, "run", "exp2_lengths.py")
    assert Reading(page_of(study)).row("the middle one")


def test_a_section_that_fails_is_a_warning_and_no_failed_run(study: Path) -> None:
    module = study / "study/pages/drop_short.py"
    module.write_text(module.read_text().replace("words[0]", "words[10**9]"))
    text = " ".join(Reading(page_of(study)).text.split())
    assert re.search(r"could not draw the section of drop-short/\S+: IndexError: .* \(study.pages.drop_short\)", text)
    module.write_text("import nothing_of_that_name\n")
    assert "ModuleNotFoundError: No module named 'nothing_of_that_name'" in Reading(page_of(study)).text
    (study / "study/pages/__init__.py").write_text("1 / 0\n")
    assert "ZeroDivisionError: division by zero (study.pages.drop_short)" in Reading(page_of(study)).text
