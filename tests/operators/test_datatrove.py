"""Datatrove: documents through blocks of datatrove, every one that goes with its reason."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from marin import Documents, value
from marin.data.documents import Document, read_documents
from marin.data.dropped import read_dropped
from marin.errors import BadField, OverRemoval
from marin.text.published import FINEWEB_RECIPE
from operators.datatrove import Datatrove
from operators.filter import Filter
from tests.operators.running import Given, given_documents, run_step
from tests.text.real_texts import real_texts

INPUT = Given(name_of_input="text")


@value("test-datatrove/recipe")
class Recipe:
    """Longer than so many characters, no address of mail, and no document about cats."""

    least: int = 12

    def __call__(self) -> Sequence[Any]:
        from datatrove.pipeline.filters import LambdaFilter, RegexFilter
        from datatrove.pipeline.formatters import PIIFormatter

        return [LambdaFilter(lambda document: len(document.text) >= self.least), RegexFilter("cat"), PIIFormatter()]


@value("test-datatrove/fineweb")
class FineWebsOrder:
    """As FineWeb has it, for the filters that need no download."""

    def __call__(self) -> Sequence[Any]:
        from datatrove.pipeline import filters

        return [
            filters.GopherRepetitionFilter(),
            filters.GopherQualityFilter(),
            filters.C4QualityFilter(filter_no_terminal_punct=False),
            filters.FineWebQualityFilter(),
        ]


@value("test-datatrove/reads")
class Reads:
    def __call__(self) -> Sequence[Any]:
        from datatrove.pipeline.readers import JsonlReader

        return [JsonlReader("/nowhere")]


@value("test-datatrove/no-blocks")
class NoBlocks:
    def __call__(self) -> Sequence[Any]:
        return [str.lower]


TEXTS = ["a long text of dogs", "short", "a long text of a cat", "write to somebody@dogs.org now", "short"]


def given(folder: Path, texts: Sequence[str] = TEXTS, shards: int = 1) -> dict[Any, Documents]:
    made = [Document(text, "given", {"n": number}) for number, text in enumerate(texts)]
    return {INPUT: given_documents(made, folder / "in", shards)}


def test_text_metadata_and_reasons_are_kept(tmp_path: Path) -> None:
    inputs = given(tmp_path)
    made = run_step(Datatrove(documents=INPUT, chain=Recipe(), max_removed=0.7), inputs, tmp_path)
    kept = list(read_documents(made.directory))
    assert [document.metadata["n"] for document in kept] == [0, 3]
    assert kept[0] == Document("a long text of dogs", "given", {"n": 0})
    assert "somebody@dogs.org" not in kept[1].text
    drops = list(read_dropped(made.directory))
    assert [(drop.reason, drop.detail) for drop in drops] == [
        ("LambdaFilter", {"block": "LambdaFilter"}),
        ("RegexFilter", {"block": "RegexFilter"}),
        ("LambdaFilter", {"block": "LambdaFilter"}),
    ]
    assert [drop.id for drop in drops] == [Document(TEXTS[number]).id for number in (1, 2, 4)]
    assert made.dropped == {"LambdaFilter": 2, "RegexFilter": 1}


def test_fields_of_the_chain_are_the_identity() -> None:
    assert Datatrove(documents=INPUT, chain=Recipe()) == Datatrove(documents=INPUT, chain=Recipe(least=12))
    assert Datatrove(documents=INPUT, chain=Recipe()) != Datatrove(documents=INPUT, chain=Recipe(least=13))


def test_the_published_filters_give_what_ours_give(tmp_path: Path) -> None:
    inputs = given(tmp_path, (texts := real_texts("stdlib")[25:34]), shards=3)
    theirs = run_step(Datatrove(documents=INPUT, chain=FineWebsOrder(), max_removed=1.0), inputs, tmp_path)
    ours = run_step(Filter(documents=INPUT, quality=FINEWEB_RECIPE, max_removed=1.0), inputs, tmp_path)
    assert list(read_documents(theirs.directory)) == list(read_documents(ours.directory)) != []
    assert theirs.documents + sum(theirs.dropped.values()) == len(texts)
    assert sum(theirs.dropped.values()) == sum(ours.dropped.values()) > 0


@value("test-datatrove/files")
class Files:
    folder: str

    def __call__(self) -> Sequence[Any]:
        from datatrove.pipeline.filters import RegexFilter
        from datatrove.pipeline.readers import JsonlReader

        return [JsonlReader(self.folder, glob_pattern="*.jsonl"), RegexFilter("cat")]


def test_a_reader_may_begin_it_and_loses_nothing_without_a_word(tmp_path: Path) -> None:
    folder = tmp_path / "crawl"
    folder.mkdir()
    (folder / "a.jsonl").write_text(
        '{"text": "a dog", "n": 1}\n{"text": ""}\n{"text": ""}\n{"text"\n{"text": "a cat"}\n'
    )
    (folder / "b.jsonl").write_text('{"text": "a bird", "n": 2}\n')
    (folder / "notes.txt").write_text("nothing")
    step = Datatrove(chain=Files(str(folder)), max_removed=0.8, shards=3)
    made = run_step(step, {}, tmp_path / "out")
    assert list(read_documents(made.directory)) == [
        Document("a dog", "a.jsonl", {"n": 1}),
        Document("a bird", "b.jsonl", {"n": 2}),
    ]
    assert made.dropped == {"RegexFilter": 1, "empty": 2, "not read": 1}
    [unread] = [drop for drop in read_dropped(made.directory) if drop.reason == "not read"]
    assert "Error when reading `a.jsonl`" in unread.detail["why"]
    before = step.outside()
    (folder / "b.jsonl").write_text('{"text": "a crow"}\n')
    assert [name for name, mark in step.outside().items() if mark != before[name]] == [str(folder / "b.jsonl")]
    with pytest.raises(BadField, match=r"begins with LambdaFilter; without documents= it must begin with a reader"):
        Datatrove(chain=Recipe()).outside()


def test_what_removes_too_much_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OverRemoval, match=r"removed 3 of 5 documents .* Top reasons: LambdaFilter 2, RegexFilter 1"):
        run_step(Datatrove(documents=INPUT, chain=Recipe()), given(tmp_path), tmp_path)


@pytest.mark.parametrize(
    ("chain", "says"), [(Reads(), "JsonlReader, which reads or writes files"), (NoBlocks(), "wanted a block")]
)
def test_what_is_no_block_between_is_refused(chain: Any, says: str, tmp_path: Path) -> None:
    with pytest.raises(BadField, match=says):
        run_step(Datatrove(documents=INPUT, chain=chain), given(tmp_path), tmp_path)
