"""Documents from the Python installation: deterministic, disjoint, and without traces of this machine."""

from __future__ import annotations

import getpass
import socket
import sys
import sysconfig
from pathlib import Path
from typing import NoReturn

import pytest

from marin.data.documents import read_documents
from marin.errors import BadField, GarbledDocument
from operators.datasets.rehearsal.docstrings import DocstringForm, docstrings, write_docstrings
from operators.datasets.rehearsal.installation import Share, standard_library
from operators.datasets.rehearsal.pydoc_pages import render_pages
from operators.datasets.rehearsal.python_text import Docstrings, LanguageReference, PydocPages, StandardLibraryCode
from tests.operators.running import file_bytes, run_step

SMALL = Share(0, 40)
STEPS = (
    StandardLibraryCode(share=SMALL),
    LanguageReference(share=Share(0, 200)),
    Docstrings(share=SMALL),
    Docstrings(share=SMALL, form=DocstringForm.QUESTION),
    PydocPages(share=Share(0, 20)),
)


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.op)
def test_two_runs_write_the_same_bytes(step, tmp_path: Path) -> None:
    first, second = (file_bytes(run_step(step, {}, tmp_path / name).directory) for name in ("one", "two"))
    assert first == second
    assert first


def test_code_is_the_file_as_it_lies_there(tmp_path: Path) -> None:
    made = run_step(StandardLibraryCode(), {}, tmp_path)
    by_source = {document.source: document.text for document in read_documents(made.directory)}
    root = Path(sysconfig.get_path("stdlib"))
    assert by_source["stdlib/json/decoder.py"] == (root / "json" / "decoder.py").read_text(encoding="utf-8")
    assert len(by_source) == made.documents > 300
    assert not [source for source in by_source if "/test/" in source or "site-packages" in source]


def test_shares_cut_the_library_into_disjoint_parts_that_cover_it() -> None:
    names = [module.name for module in standard_library()]
    parts = [Share(0, 300), Share(300, 301), Share(301, 1000)]
    assert sorted(name for part in parts for name in names if part.holds(name)) == sorted(names)


def test_a_senseless_share_is_refused() -> None:
    with pytest.raises(BadField, match=r"Share\(5, 5, 1000\): wanted 0 <= start < stop <= of"):
        Share(5, 5)


def test_the_reference_repeats_no_paragraph(tmp_path: Path) -> None:
    made = run_step(LanguageReference(), {}, tmp_path)
    paragraphs = [
        text for document in read_documents(made.directory) for text in document.text.split("\n\n") if text.strip()
    ]
    assert len(paragraphs) == len(set(paragraphs)) > 1000
    assert made.bytes > 300_000


def test_outside_names_the_python_and_reads_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object, **options: object) -> NoReturn:
        raise AssertionError(f"opened {arguments}")

    for step in STEPS:
        with monkeypatch.context() as patch:
            patch.setattr("io.open", refuse)
            patch.setattr("builtins.open", refuse)
            ((name, mark),) = step.outside().items()
        assert name.startswith("python-")
        assert ".".join(map(str, sys.version_info[:3])) in mark
        assert str(Path.home()) not in mark


def test_pages_show_nothing_of_this_machine(tmp_path: Path) -> None:
    names = ["cgi", "os", "sys", "json.decoder", "locale", "asyncio.events", "subprocess", "platform"]
    pages = render_pages([name for name in names if name != "cgi" or sys.version_info < (3, 13)])
    text = "\n".join(pages.values())
    for trace in (
        sys.prefix,
        sys.base_prefix,
        str(Path.home()),
        str(Path.cwd()),
        f"'{socket.gethostname()}'",
        " at 0x",
    ):
        assert trace not in text
    assert f"/{getpass.getuser()}/" not in text
    assert "JSONDecoder" in pages["json.decoder"]
    assert pages["json.decoder"].lower().startswith("<!doctype html>")


def test_a_module_that_cannot_be_imported_is_left_out() -> None:
    assert list(render_pages(["json.scanner", "no_such_module"])) == ["json.scanner"]


SOURCE = '''
"""Nets."""
import something_that_is_not_installed
def cast(net, *, far=True):
    """Throw it."""
class Net:
    """A net."""
    def mend(self):
        """Close the holes."""
    def silent(self): ...
'''


def test_docstrings_are_read_without_importing() -> None:
    assert [[(entry.name, entry.signature) for entry in group] for group in docstrings("sea", SOURCE)] == [
        [("sea", ""), ("sea.cast", "cast(net, *, far=True)")],
        [("sea.Net", ""), ("sea.Net.mend", "mend(self)")],
    ]


@pytest.mark.parametrize(
    ("form", "text"),
    [
        (DocstringForm.PROSE, "sea.Net\n\nA net.\n\nsea.Net.mend\n\nClose the holes."),
        (
            DocstringForm.QUESTION,
            "Question: What does sea.Net do?\nAnswer: A net.\n\n"
            "Question: What does sea.Net.mend do?\nAnswer: Close the holes.",
        ),
        (
            DocstringForm.MARKDOWN,
            "## How do I use `sea.Net`?\n\n**Answer.** A net.\n\n"
            "## How do I use `sea.Net.mend`?\n\n```python\nmend(self)\n```\n\n**Answer.** Close the holes.",
        ),
    ],
)
def test_forms_of_docstrings(form: DocstringForm, text: str) -> None:
    assert write_docstrings(docstrings("sea", SOURCE)[1], form) == text


def test_source_that_is_not_python_is_named() -> None:
    with pytest.raises(GarbledDocument, match="sea: line 1 is not Python"):
        docstrings("sea", "def (:")


def test_short_documents_are_counted(tmp_path: Path) -> None:
    every = run_step(Docstrings(share=SMALL, shortest=0), {}, tmp_path)
    some = run_step(Docstrings(share=SMALL, shortest=500), {}, tmp_path)
    assert every.dropped == {"short": 0}
    assert some.documents + some.dropped["short"] == every.documents
    assert all(len(document.text) >= 500 for document in read_documents(some.directory))
