"""A page says of every step that left less text than it read how much went, and why."""

from __future__ import annotations

from pathlib import Path

from marin import Context, Documents, ExecutorStep
from marin.data.documents import Document, read_shard, shard_names, write_shard
from marin.text.quality import LineWords, Quality, WordCount
from operators.exact_dedup import ExactDedup
from operators.filter import Filter
from operators.split import Part, Split
from operators.text_files import TextFiles
from tests.report.reading import Reading
from tests.report.test_page_of_decontamination import page_of
from tests.support.toy import Write

SENTENCE = "These are eight words of a whole line.\n"


class EveryOther(ExecutorStep[Documents], op="every-other-of-a-test"):
    """Somebody's own, which writes down no reason."""

    documents: ExecutorStep[Documents]

    def run(self, ctx: Context) -> Documents:
        held: list[Document] = []
        source = ctx[self.documents].directory
        for name in shard_names(source):
            held += read_shard(source, name)
        documents, size = write_shard(ctx.out, 0, 1, held[::2])
        return Documents(documents=documents, bytes=size, shards=1)


def books(folder: Path) -> TextFiles:
    folder.mkdir()
    for number in range(8):
        (folder / f"book{number}.txt").write_text(SENTENCE * (10 + number) + "Chapter\n")
    (folder / "long.txt").write_text(SENTENCE * 3000)
    for name in ("note.txt", "copy of a note.txt"):
        (folder / name).write_text(SENTENCE)
    return TextFiles(path=str(folder), label="books")


def test_documents_and_bytes_by_step_with_reasons(tmp_path: Path) -> None:
    once = ExactDedup(documents=books(tmp_path / "books"), label="once")
    rules = Quality(lines=(LineWords(least=2),), rules=(WordCount(least=50, most=10_000),))
    kept = Filter(documents=once, quality=rules, label="kept")
    half = EveryOther(documents=kept, label="half")
    read = Reading(page_of(str(tmp_path / "store"), half=half))
    assert "Removed text" in read.text
    assert "Text removed by each operator" not in read.text, "three steps need no sum"
    assert read.row("exact-dedup/once")[1:4] == ["11", "1", "9.1"]
    assert read.row("filter/kept")[1:5] == ["10", "2", "20.0", "96.5"]
    assert read.row("filter/kept")[-1] == "too_few_words 1, too_many_words 1"
    assert read.row("every-other-of-a-test/half")[1:4] == ["8", "4", "50.0"]
    assert read.row("every-other-of-a-test/half")[-1] == "without a reason 4"
    at = [read.text.index(name, read.text.index("Removed text")) for name in ("filter/kept", "exact-dedup/once")]
    assert at == sorted(at), "what took the largest share of the text comes first"


def test_the_parts_of_a_split_took_nothing_out(tmp_path: Path) -> None:
    text = books(tmp_path / "books")
    parts = {part.value: Split(documents=text, part=part, holdout=0.3, label=part.value) for part in Part}
    assert "Removed text" not in page_of(str(tmp_path / "store"), **parts)


def test_many_steps_are_summed_by_operator(tmp_path: Path) -> None:
    text = books(tmp_path / "books")
    results = {
        f"w{least}": Filter(
            documents=text, quality=Quality(rules=(WordCount(least=least, most=10_000),)), label=f"w{least}"
        )
        for least in range(10, 23)
    }
    read = Reading(page_of(str(tmp_path / "store"), **results))
    assert read.row("filter, 13 ×")[1:3] == ["143", "39"]
    assert read.row("filter/w10")[1:3] == ["11", "3"]


def test_without_a_loss_there_is_no_section(tmp_path: Path) -> None:
    page = page_of(str(tmp_path / "store"), books=books(tmp_path / "books"), one=Write(text="a", label="a"))
    assert "Removed text" not in page
