"""Test the text operators: documents in, documents and reasons out. The output of every operator is pinned.

If a pin fails, the operator now writes other bytes. Raise the operator's version, then update the pin.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from marin.data.artifacts import Documents, Items, RawFiles
from marin.data.documents import Document, read_documents, read_shard, shard_names
from marin.data.dropped import read_dropped
from marin.errors import BadField, GarbledDocument, InputError, OverRemoval, TruncatedShard
from marin.steps.artifact import Artifact
from marin.steps.step import ExecutorStep
from marin.store.files.directory import Directory
from marin.text.extract import Content, Extractor
from marin.text.overlap_rule import Overlap
from marin.text.presets import CODE, PROSE, SHORT, WEB
from marin.text.quality import Quality
from operators import exact_dedup
from operators.decontaminate import Decontaminate
from operators.exact_dedup import ExactDedup, Unit
from operators.extract import Extract
from operators.filter import Filter
from operators.near_dedup import NearDedup
from operators.split import Part, Split
from tests.operators.running import Given, file_bytes, given_documents, rows_digest, run_step

INPUT = Given(name_of_input="input")
ITEMS = Given(name_of_input="items")
SENTENCES = [
    "The harbour was quiet in the morning, and the boats that had come back at night lay with their nets to dry.",
    "A keeper walked along the wall to the lamp, cleaned its glass with a cloth, and wrote the hour in his book.",
    "Nobody on the island could remember a winter that had started so early or that had ended with so much rain.",
    "In the school the children learned the names of winds and of stars, because their parents would need them.",
    "When the ferry failed, bread became dear, and people began to bake with barley as their grandparents did.",
    "The doctor crossed by rowing boat on Tuesdays, and her bag was always the first thing to be handed ashore.",
    "Letters took a week, newspapers took longer, and rumours came at once with every fisherman from the mainland.",
    "At the end of March the first swallows were seen over the chapel, and the keeper put away his heavy coat.",
]
STORY = "\n".join(SENTENCES)
QUESTION = (
    "Janet's ducks lay 16 eggs per day. She eats three for breakfast and bakes muffins for her friends with four. "
    "She sells the remainder at the market for $2 per egg. How much does she make every day?"
)
ANSWER = (
    "Janet sells 16 - 3 - 4 = <<16-3-4=9>>9 duck eggs a day.\nShe makes 9 * 2 = $<<9*2=18>>18 every day there.\n#### 18"
)
OLMES = "Question: " + QUESTION + "\nAnswer: " + ANSWER.replace("<<16-3-4=9>>", "").replace("<<9*2=18>>", "")[:-8]

TEN = [
    Document(STORY, "book", {"n": 0}),
    Document("Home | About | Login", "web", {"n": 1}),
    Document(STORY.replace("Tuesdays", "Wednesdays"), "book", {"n": 2}),
    Document(STORY, "copy", {"n": 3}),
    Document("\n\n".join([*SENTENCES[::-1], OLMES]), "math", {"n": 4}),
    Document("def f(x):\n    return x + 1\n" * 20, "code", {"n": 5}),
    Document(SENTENCES[0] + "\n\n" + SENTENCES[1], "book", {"n": 6}),
    Document(SENTENCES[1] + "\n\n" + SENTENCES[0], "book", {"n": 7}),
    Document(f"Question: {QUESTION}\nAnswer: {ANSWER}", "math", {"n": 8}),
    Document("What is 7 + 8?\nAnswer: 15", "math", {"n": 9}),
]


@pytest.fixture
def ten(tmp_path: Path) -> dict[ExecutorStep[Any], Artifact]:
    items = Directory(str(tmp_path / "items"))
    rows = [
        {"id": "ducks", "question": QUESTION, "answer": ANSWER, "final": "18"},
        {"id": "sum", "question": "What is 7 + 8?", "answer": "7+8=<<7+8=15>>15\n#### 15", "final": "15"},
        {"id": "tiny", "question": "2+2?", "answer": "4", "final": "4"},
    ]
    items.write_text("items.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    return {INPUT: given_documents(TEN, tmp_path / "ten", shards=3), ITEMS: Items(items=3).at(items)}


def numbers(artifact: Artifact) -> list[int]:
    return [document.metadata["n"] for document in read_documents(artifact.directory)]


def reasons(artifact: Documents) -> list[str]:
    found = [drop.reason for drop in read_dropped(artifact.directory)]
    assert {reason: found.count(reason) for reason in found} == artifact.dropped
    return found


PINS: dict[str, tuple[ExecutorStep[Any], str]] = {
    "filter web": (Filter(documents=INPUT, quality=WEB, max_removed=0.9), "72b7f9ad3c48b604"),
    "filter prose": (Filter(documents=INPUT, quality=PROSE, max_removed=0.9), "72b7f9ad3c48b604"),
    "filter code": (Filter(documents=INPUT, quality=CODE, max_removed=0.9), "4a75f46bb9c69bf3"),
    "filter short": (Filter(documents=INPUT, quality=SHORT, max_removed=0.9), "f8cdeafe0fcee2ac"),
    "exact-dedup": (ExactDedup(documents=INPUT), "df5114cee69e2980"),
    "exact-dedup paragraphs": (ExactDedup(documents=INPUT, unit=Unit.PARAGRAPH), "f7498bfc0a8a5ee1"),
    "near-dedup": (NearDedup(documents=INPUT), "58c6092692b16f5b"),
    "split train": (Split(documents=INPUT, part=Part.TRAIN, holdout=0.3), "4ec62d49aea54ce3"),
    "split held out": (Split(documents=INPUT, part=Part.HELD_OUT, holdout=0.3), "a5e1d47a1480b36d"),
    "decontaminate": (Decontaminate(documents=INPUT, against=(ITEMS,)), "25c528100f0c58e7"),
}


@pytest.mark.parametrize("name", PINS)
def test_output_is_pinned_and_repeatable(name: str, ten: dict[ExecutorStep[Any], Artifact], tmp_path: Path) -> None:
    step, pinned = PINS[name]
    once, again = (run_step(step, ten, tmp_path / attempt) for attempt in ("once", "again"))
    assert file_bytes(once.directory) == file_bytes(again.directory)
    assert once.facts() == again.facts()
    assert rows_digest(once.directory) == pinned


def test_filter_counts_reasons(ten: dict[ExecutorStep[Any], Artifact], tmp_path: Path) -> None:
    made = run_step(Filter(documents=INPUT, quality=PROSE, max_removed=0.9), ten, tmp_path)
    assert numbers(made) == [0, 2, 3, 4]
    assert reasons(made) == [
        "too_few_words",
        "duplicate_lines",
        *["too_few_words"] * 2,
        "not_alphabetic",
        "too_few_words",
    ]
    assert [drop.id for drop in read_dropped(made.directory)] == [TEN[n].id for n in (1, 5, 6, 7, 8, 9)]
    assert (made.documents, made.shards) == (4, 3)
    assert made.bytes == sum(len(document.text.encode()) for document in read_documents(made.directory))


def test_filter_takes_lines_out(tmp_path: Path) -> None:
    given = given_documents([Document(STORY + "\nPlease enable JavaScript to view.")], tmp_path / "in")
    made = run_step(Filter(documents=INPUT, quality=WEB), {INPUT: given}, tmp_path)
    assert [document.text for document in read_documents(made.directory)] == [STORY]


def test_over_removal_names_source_fraction_bound_and_reasons(
    ten: dict[ExecutorStep[Any], Artifact], tmp_path: Path
) -> None:
    step = Filter(documents=INPUT, quality=PROSE, max_removed=0.2, label="prose")
    with pytest.raises(
        OverRemoval,
        match=r"filter/prose removed 6 of 10 documents \(60\.0%\) of given/\w+; at most 20\.0% may go\. "
        r"Top reasons: too_few_words 4, duplicate_lines 1, not_alphabetic 1\. Each is in .*dropped",
    ):
        run_step(step, ten, tmp_path)


def test_exact_dedup_keeps_the_first(ten: dict[ExecutorStep[Any], Artifact], tmp_path: Path) -> None:
    made = run_step(ExactDedup(documents=INPUT), ten, tmp_path)
    assert numbers(made) == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    assert reasons(made) == ["duplicate_document"]
    made = run_step(ExactDedup(documents=INPUT, unit=Unit.PARAGRAPH, paragraph_words=10), ten, tmp_path)
    assert numbers(made) == [0, 1, 2, 4, 5, 8, 9]
    assert reasons(made) == ["only_duplicate_paragraphs"] * 3


def test_what_a_preferred_source_has_goes_from_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one bucket and in many, whatever the shards are."""
    preferred = [Document(f"text {n}") for n in range(0, 60, 3)]
    mine = [Document(f"text {n % 50}", metadata={"n": n}) for n in range(70)]
    step = ExactDedup(documents=INPUT, against=(ITEMS,), max_removed=1.0)
    kept: list[list[int]] = []
    for folder, shards, bucket_bytes in (("one", 1, 1 << 30), ("many", 4, 100)):
        monkeypatch.setattr(exact_dedup, "BUCKET_BYTES", bucket_bytes)
        given = {
            INPUT: given_documents(mine, tmp_path / folder / "mine", shards=shards),
            ITEMS: given_documents(preferred, tmp_path / folder / "preferred", shards=shards),
        }
        kept.append(numbers(run_step(step, given, tmp_path / folder)))
    assert kept[0] == kept[1] == [n for n in range(50) if n % 3]
    with pytest.raises(BadField, match="itself, so nothing would stay"):
        ExactDedup(documents=INPUT, against=(INPUT,))


def test_near_dedup_names_the_copied(ten: dict[ExecutorStep[Any], Artifact], tmp_path: Path) -> None:
    made = run_step(NearDedup(documents=INPUT), ten, tmp_path)
    assert numbers(made) == [0, 1, 4, 5, 8, 9]
    dropped = list(read_dropped(made.directory))
    assert [drop.detail["of"] for drop in dropped] == [TEN[0].id] * 4
    assert [drop.detail["jaccard"] > 0.8 for drop in dropped] == [True, True, False, False]
    assert [drop.detail["containment"] for drop in dropped[1:3]] == [1.0, 1.0]  # the story again, and its beginning


def test_split_is_disjoint_and_exhaustive(tmp_path: Path) -> None:
    documents = [Document(f"text {n}", metadata={"n": n}) for n in range(1000)]
    given = {INPUT: given_documents(documents, tmp_path / "in", shards=2)}
    train, held_out = (
        numbers(run_step(Split(documents=INPUT, part=part, holdout=0.2), given, tmp_path))
        for part in (Part.TRAIN, Part.HELD_OUT)
    )
    assert sorted(train + held_out) == list(range(1000))
    assert 160 < len(held_out) < 240  # binomial: 200 ± 3 deviations
    other = numbers(run_step(Split(documents=INPUT, part=Part.HELD_OUT, holdout=0.2, seed=1), given, tmp_path))
    assert 20 < len(set(other) & set(held_out)) < 60  # another seed is independent: 40 of 200
    small = {INPUT: given_documents(documents[:3], tmp_path / "small")}
    with pytest.raises(OverRemoval, match=r"no document of .* is in the part HELD_OUT"):
        run_step(Split(documents=INPUT, part=Part.HELD_OUT, holdout=1e-6), small, tmp_path)
    few = {INPUT: given_documents([Document(f"book {n}") for n in range(5)], tmp_path / "few")}
    says = r"only one of 5 documents of .* is held out, .*a holdout above 0.1 or a seed other than 4"
    with pytest.raises(InputError, match=says):
        run_step(Split(documents=INPUT, part=Part.HELD_OUT, holdout=0.1, seed=4), few, tmp_path / "one")


def test_split_cuts_long_documents_at_paragraphs(tmp_path: Path) -> None:
    """Split holds out a tenth of the text even from five books."""
    paragraph = "A line of a book, and another one.\n" * 4 + "\n"
    books = [Document("".join(f"{book}.{at} {paragraph}" for at in range(100)), f"book{book}") for book in range(5)]
    given = {INPUT: given_documents(books, tmp_path / "in")}
    train, held_out = (
        run_step(Split(documents=INPUT, part=part, holdout=0.1, piece=1000), given, tmp_path) for part in Part
    )
    short = [each for name in shard_names(held_out.directory) for each in read_shard(held_out.directory, name)]
    assert 5 < len(short) < 20
    assert {each.metadata["of"] for each in short} <= {book.id for book in books}
    assert all(each.text.endswith("\n\n") and 500 < len(each.text) <= 1000 for each in short)
    assert sum(len(each.text) for each in short) + train.bytes == sum(len(book.text) for book in books)
    assert train.documents < 5 + len(short) + 1, "pieces that stay beside each other are one document"


def test_decontaminate_names_the_item(ten: dict[ExecutorStep[Any], Artifact], tmp_path: Path) -> None:
    made = run_step(Decontaminate(documents=INPUT, against=(ITEMS,)), ten, tmp_path)
    assert numbers(made) == [0, 1, 2, 3, 5, 6, 7]
    hits = [{hit["item"] for hit in drop.detail["hits"]} for drop in read_dropped(made.directory)]
    assert hits == [{"ducks"}, {"ducks"}, {"sum"}]
    assert made.directory.read_text("unindexed.txt") == "0\ttiny\n"
    assert made.dropped == {"contaminated": 3}
    strict = Overlap(coverage=1.0, hits=10_000)
    made = run_step(Decontaminate(documents=INPUT, against=(ITEMS,), rule=strict), ten, tmp_path)
    assert numbers(made) == [0, 1, 2, 3, 5, 6, 7]  # whole copies still count: all n-grams are there


def test_fields_are_checked_where_they_are_written() -> None:
    with pytest.raises(BadField, match="no rule"):
        Filter(documents=INPUT, quality=Quality())
    with pytest.raises(BadField, match=r"max_removed is 1\.5"):
        NearDedup(documents=INPUT, max_removed=1.5)
    with pytest.raises(BadField, match="against is empty"):
        Decontaminate(documents=INPUT, against=())
    with pytest.raises(BadField, match=r"holdout is 1\.0"):
        Split(documents=INPUT, part=Part.TRAIN, holdout=1.0)
    with pytest.raises(BadField, match="shards is 0"):
        Extract(raw=INPUT, shards=0)
    with pytest.raises(BadField, match="paragraph_words is 0"):
        ExactDedup(documents=INPUT, paragraph_words=0)
    assert Filter(documents=INPUT, quality=WEB).identity != Filter(documents=INPUT, quality=PROSE).identity
    assert set(Decontaminate(documents=INPUT, against=(ITEMS,)).dependencies) == {INPUT, ITEMS}


def test_a_truncated_input_shard_stops_the_step(ten: dict[ExecutorStep[Any], Artifact], tmp_path: Path) -> None:
    shard = tmp_path / "ten" / "shard-00001-of-00003.parquet"
    shard.write_bytes(shard.read_bytes()[:-20])
    for step in (NearDedup(documents=INPUT), Filter(documents=INPUT, quality=PROSE), PINS["split train"][0]):
        with pytest.raises(TruncatedShard, match=r"shard-00001-of-00003\.parquet"):
            run_step(step, ten, tmp_path)


# Extract

PAGE = (
    "<html><head><title>T</title><style>p{}</style></head><body><nav><a href='/'>Home</a></nav><main><h1>Harbour</h1>"
    + "".join(f"<p>{sentence}</p>" for sentence in SENTENCES)
    + "</main><footer>Imprint</footer></body></html>"
)


def warc(*records: tuple[str, str, bytes]) -> bytes:
    """Records of (url, HTTP header lines, body)."""
    out = b""
    for url, header, body in records:
        block = f"HTTP/1.1 {header}\r\n\r\n".encode() + body
        out += (
            (
                f"WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: {url}\r\nWARC-Date: 2024-01-01T00:00:00Z\r\n"
                f"WARC-Record-ID: <urn:uuid:{len(out):032x}>\r\nContent-Type: application/http; msgtype=response\r\n"
                f"Content-Length: {len(block)}\r\n\r\n"
            ).encode()
            + block
            + b"\r\n\r\n"
        )
    return out


@pytest.fixture
def raw(tmp_path: Path) -> dict[ExecutorStep[Any], Artifact]:
    html = "200 OK\r\nContent-Type: text/html; charset=utf-8"
    crawl = warc(
        ("http://a/", html, PAGE.encode()),
        ("http://a/gone", "404 Not Found\r\nContent-Type: text/html", b"<p>gone</p>"),
        ("http://a/logo", "200 OK\r\nContent-Type: image/png", b"\x89PNG"),
        ("http://a/last", html, PAGE.encode()),
    )
    directory = Directory(str(tmp_path / "raw"))
    for name, content in {
        "a.html": PAGE.encode(),
        "b.htm": PAGE.replace("harbour", "haven é").encode("latin-1"),
        "empty.html": b"  ",
        "binary.html": bytes(range(256)) * 40,
        "notext.html": b"<html><script>x</script></html>",
        "notes.txt": b"plain",
        "crawl.warc": crawl,
        "cut.warc": crawl[:-400],
        "not.warc": b"hello\r\n\r\n",
    }.items():
        directory.write_bytes(name, content)
    return {INPUT: RawFiles(files=9, bytes=0).at(directory)}


@pytest.mark.parametrize("extractor", Extractor)
def test_extract_gives_text_or_a_reason(
    extractor: Extractor, raw: dict[ExecutorStep[Any], Artifact], tmp_path: Path
) -> None:
    made = run_step(Extract(raw=INPUT, extractor=extractor, shards=4), raw, tmp_path)
    documents = list(read_documents(made.directory))
    assert [document.metadata["page"] for document in documents] == [
        "a.html",
        "b.htm",
        "crawl.warc#http://a/",
        "crawl.warc#http://a/last",
        "cut.warc#http://a/",
    ]
    for document in documents:
        assert SENTENCES[1] in document.text
        assert "Imprint" not in document.text
        assert "<p>" not in document.text
    assert "haven é" in documents[1].text
    assert made.dropped == {
        "broken_warc": 1,
        "empty": 1,
        "http_status": 2,
        "no_text": 1,
        "not_html": 2,
        "truncated": 1,
        "undecodable": 1,
        "unknown_format": 1,
    }
    assert sorted(reasons(made)) == sorted(reason for reason, count in made.dropped.items() for _ in range(count))
    assert made.shards == 4


def test_extract_output_is_pinned(raw: dict[ExecutorStep[Any], Artifact], tmp_path: Path) -> None:
    step = Extract(raw=INPUT, content=Content.WHOLE)
    once, again = (run_step(step, raw, tmp_path / attempt) for attempt in ("once", "again"))
    assert file_bytes(once.directory) == file_bytes(again.directory)
    assert rows_digest(once.directory) == "4586cd45a402d107"


def test_extract_of_nothing_is_an_error(raw: dict[ExecutorStep[Any], Artifact], tmp_path: Path) -> None:
    nothing = {INPUT: RawFiles(files=0, bytes=0).at(Directory(str(tmp_path / "none")))}
    with pytest.raises(GarbledDocument, match="holds no file"):
        run_step(Extract(raw=INPUT), nothing, tmp_path)
    with pytest.raises(OverRemoval, match=r"removed 10 of 15 .*Top reasons: http_status 2, not_html 2"):
        run_step(Extract(raw=INPUT, max_removed=0.1), raw, tmp_path)
