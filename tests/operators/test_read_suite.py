"""ReadSuite, and what Decontaminate says of a suite that was read by it."""

import json
from pathlib import Path

from marin.data.artifacts import Items, RawFiles
from marin.data.documents import Document, read_documents
from marin.data.dropped import read_dropped
from marin.steps.artifact import Artifact
from marin.store.files.directory import Directory
from operators.decontaminate import Decontaminate
from operators.read_suite import ReadSuite
from tests.operators.running import Given, given_documents, run_step

DOCUMENTS, FILES = Given(name_of_input="documents"), Given(name_of_input="suite")
QUESTION = "Which of these rivers, seen from the harbour wall at noon, carries the most barley to the sea?"
CHOICES = ["the northern one", "the old canal", "the mill stream", "none of them"]


def test_a_suite_as_published_is_found_with_span_and_form(tmp_path: Path) -> None:
    raw = Directory(str(tmp_path / "raw"))
    raw.write_text("mmlu.jsonl", json.dumps({"question": QUESTION, "choices": CHOICES, "answer": 2}) + "\n")
    suite = ReadSuite(files=FILES)
    items: Artifact = run_step(suite, {FILES: RawFiles(files=1, bytes=1).at(raw)}, tmp_path / "items")
    assert isinstance(items, Items)
    lettered = "\n".join([QUESTION, *(f"{a}. {b}" for a, b in zip("ABCD", CHOICES, strict=True)), "Answer: C"])
    text = "A page about boats.\n" + lettered.replace("a", "а")  # Cyrillic
    given = given_documents([Document(text), Document("A page about boats and barley.")], tmp_path / "documents")
    step = Decontaminate(documents=DOCUMENTS, against=(suite,))
    made = run_step(step, {DOCUMENTS: given, suite: items}, tmp_path / "out")
    assert [document.text for document in read_documents(made.directory)] == ["A page about boats and barley."]
    (dropped,) = read_dropped(made.directory)
    hit = dropped.detail["hits"][0]
    start, end = hit["span"]
    assert text[start:end].startswith("Which of these rivers")
    assert hit["form"] == "lettered choices"
    (row,) = json.loads(made.directory.read_bytes("contamination.json"))["evaluations"]
    assert {
        "items": 1,
        "unindexed": 0,
        "documents": 1,
        "found": 1,
        "forms": {"lettered choices": 1},
    }.items() <= row.items()
