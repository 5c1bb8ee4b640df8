"""A run says what each step took out of the text, by rule; who took most comes first."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

from rich.console import Console

from marin.executor.run_results import Run
from marin.report.closing import print_results
from marin.text.quality import LineWords, Quality, WordCount
from operators.exact_dedup import ExactDedup
from operators.filter import Filter
from operators.text_files import TextFiles
from tests.support.toy import run


def said(done: Run) -> list[str]:
    out = StringIO()
    print_results(Console(file=out, width=200), done)
    return [line for line in out.getvalue().splitlines() if " took out " in line]


def test_the_longest_book_does_not_go_without_a_word(tmp_path: Path) -> None:
    folder = tmp_path / "books"
    folder.mkdir()
    sentence = "These are eight words of a whole line.\n"
    for number in range(8):
        (folder / f"book{number}.txt").write_text(sentence * (10 + number) + "Chapter\n")
    (folder / "long.txt").write_text(sentence * 3000)
    for name in ("note.txt", "copy of a note.txt"):
        (folder / name).write_text(sentence)
    text = TextFiles(path=str(folder), label="books")
    once = ExactDedup(documents=text, label="once")
    rules = Quality(lines=(LineWords(least=2),), rules=(WordCount(least=50, most=10_000),))
    kept = Filter(documents=once, quality=rules, label="kept")
    done = run(str(tmp_path / "store"), kept=kept)
    longest, parts, note = len(sentence) * 3000, 8 * len("\nChapter\n"), len(sentence)
    filtered, deduplicated = said(done)
    assert filtered.startswith("filter/kept took out 2 of 10 documents, 117,111 of 1")
    assert filtered.endswith(
        f"too_many_words 1 ({longest:,} bytes), parts of documents that stay ({parts} bytes), "
        f"too_few_words 1 ({note} bytes)"
    )
    assert deduplicated.startswith(f"exact-dedup/once took out 1 of 11 documents, {note} of ")
    assert said(run(str(tmp_path / "store"), kept=kept)) == []  # nothing ran
