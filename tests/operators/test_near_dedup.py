"""Near copies over shards, buckets and sources: the same as in one process, and done once."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from marin.data import near_copies
from marin.data.artifacts import Documents
from marin.data.documents import Document, read_documents
from marin.data.dropped import read_dropped
from marin.errors import BadField
from marin.steps.artifact import Artifact
from marin.steps.step import ExecutorStep
from marin.text.near import near_duplicates
from marin.text.near_rule import NearDuplicates
from operators.near_dedup import NearDedup
from tests.operators.running import Given, file_bytes, given_documents, run_step

type Inputs = dict[ExecutorStep[Any], Artifact]

INPUT, PREFERRED = Given(name_of_input="input"), Given(name_of_input="preferred")
WORDS = [f"w{n}" for n in range(5000)]


def copies_and_others(count: int, seed: int) -> list[str]:
    """Make texts, versions with some words changed, and excerpts, in a mixed order."""
    chance = random.Random(seed)
    held: list[str] = ["", "!!!"]
    for _ in range(count):
        words = chance.choices(WORDS, k=chance.randrange(40, 300))
        for edits in (0, 1, 4, 20):
            edited = list(words)
            for _ in range(edits):
                edited[chance.randrange(len(words))] = chance.choice(WORDS)
            held.append(" ".join(edited))
        held.append(" ".join(words[5:-5]))
    chance.shuffle(held)
    return held


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many buckets, batches and portions of little text."""
    monkeypatch.setattr(near_copies, "BUCKET_KEYS", 700)
    monkeypatch.setattr(near_copies, "BATCH_KEYS", 50)
    monkeypatch.setattr(near_copies, "PORTION", 500)


def kept(made: Documents) -> list[str]:
    return [document.text for document in read_documents(made.directory)]


def test_shards_and_buckets_change_nothing(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    texts = copies_and_others(40, seed=1)
    in_one = list(near_duplicates(texts, NearDuplicates()))
    staying = [text for text, copy in zip(texts, in_one, strict=True) if copy is None]
    of = [Document(texts[copy.of]).id for copy in in_one if copy]
    assert len(of) > 80
    summaries: list[Any] = []
    for shards in (1, 7):
        given: Inputs = {INPUT: given_documents(map(Document, texts), tmp_path / f"in {shards}", shards=shards)}
        made = run_step(NearDedup(documents=INPUT, max_removed=1.0), given, tmp_path / f"{shards}")
        assert kept(made) == staying
        assert [dropped.detail["of"] for dropped in read_dropped(made.directory)] == of
        summaries.append(json.loads(made.directory.read_text("near_dedup.json")))
        request.getfixturevalue("small")
    assert summaries[0] == summaries[1]
    assert summaries[0]["removed"] == len(of)


@pytest.mark.usefixtures("small")
def test_copies_of_preferred_sources_go(tmp_path: Path) -> None:
    """The preferred stay as they are, copies of each other included; the first that has the text is named."""
    texts = copies_and_others(12, seed=2)
    preferred, mine = texts[:30], texts[30:]
    step = NearDedup(documents=INPUT, against=(PREFERRED,), max_removed=1.0)
    given: Inputs = {
        PREFERRED: given_documents(map(Document, preferred), tmp_path / "preferred", shards=3),
        INPUT: given_documents(map(Document, mine), tmp_path / "mine", shards=4),
    }
    made = run_step(step, given, tmp_path)
    copies = list(near_duplicates(texts, NearDuplicates(), stay=len(preferred)))
    assert not any(copies[: len(preferred)])
    assert kept(made) == [text for text, copy in zip(texts[30:], copies[30:], strict=True) if copy is None]
    named = [dropped.detail["of"] for dropped in read_dropped(made.directory)]
    assert named == [Document(texts[copy.of]).id for copy in copies if copy]
    assert {Document(text).id for text in preferred} & set(named)
    with pytest.raises(BadField, match="itself, so nothing would stay"):
        NearDedup(documents=INPUT, against=(INPUT,))


@pytest.mark.usefixtures("small")
def test_what_is_done_is_not_done_again(tmp_path: Path) -> None:
    step = NearDedup(documents=INPUT, max_removed=1.0)
    given: Inputs = {INPUT: given_documents(map(Document, copies_and_others(20, seed=3)), tmp_path / "in", shards=3)}
    before = file_bytes(run_step(step, given, tmp_path).directory)
    [state] = tmp_path.glob("near-dedup-*/state")
    missing = [state / name for name in ("signed/1/done", "proposed/2/done", "narrowed/0/done", "compared/2/done")]
    for path in missing:
        path.unlink()
    written = {path: path.stat().st_mtime_ns for path in state.rglob("*") if path.is_file()}
    made = run_step(step, given, tmp_path)
    assert file_bytes(made.directory) == before
    again = {path.parent for path, time in written.items() if path.stat().st_mtime_ns != time}
    assert {path.parent for path in missing} == {path for path in again if path.parent.name != "removed"}


def test_a_rule_without_meaning_is_refused() -> None:
    for name, given in {"bands": 0, "one_in": 0, "jaccard": 0.0, "containment": -1.0}.items():
        fields: dict[str, Any] = {name: given}
        with pytest.raises(BadField, match=rf"NearDuplicates\.{name} is {given}"):
            NearDuplicates(**fields)
