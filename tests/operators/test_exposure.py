"""Exposure: an arm's order and token stores in, the items that it read out."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from marin.data.artifacts import Items, Tokenizer, Tokens
from marin.data.mixture import BatchSchedule, Shuffle, Stages, mixture
from marin.data.order_spec import OrderSpec
from marin.data.token_store import write_token_store
from marin.data.tokenizer import load_tokenizer, train_bpe
from marin.errors import BadField, TokenizerMismatch
from marin.evaluation.exposure import read_reads
from marin.evaluation.formats import Format
from marin.evaluation.items import write_items
from marin.store.files.directory import Directory
from marin.text.overlap import OverlapIndex
from marin.text.overlap_rule import Overlap
from operators.contamination_evidence import ContaminationEvidence
from operators.exposure import Exposure
from tests.evaluation.problems import problems
from tests.operators.running import Given, file_bytes, run_step

WEB, MATH, CLEAN, OTHER, TOKENIZER, ITEMS = (
    Given(name_of_input=name, label=name) for name in ("web", "math", "clean", "other", "tokenizer", "items")
)
TEST_ITEMS = problems(30, seed=41)


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Mapping[Any, Any]:
    """math holds the test items in OLMES format among other problems, clean holds others only."""
    root = tmp_path_factory.mktemp("inputs")
    # As Decontaminate leaves them: problems from one template resemble each other.
    index = OverlapIndex(TEST_ITEMS, Overlap())
    others = [text for item in problems(90, seed=42) if not index.find(text := Format.OLMES.text(item))]
    where = Directory(str(root / "tokenizer"))
    vocabulary, digest = train_bpe(where, others, 400)
    loaded = load_tokenizer(where)
    write_items(Directory(str(root / "items")), TEST_ITEMS)

    def tokens(name: str, texts: list[str], tokenizer: str = digest) -> Any:
        out = Directory(str(root / name))
        meta = write_token_store(out, loaded.encode(texts), vocabulary=vocabulary, tokenizer=tokenizer, eos=loaded.eos)
        return Tokens(tokens=meta.tokens, documents=meta.documents, vocabulary=vocabulary, tokenizer=tokenizer).at(out)

    return {
        WEB: tokens("web", ["The harbour of the old town was built again. " * 20] * 40),
        MATH: tokens("math", others[:30] + [Format.OLMES.text(item) for item in TEST_ITEMS]),
        CLEAN: tokens("clean", others),
        OTHER: tokens("other", others, "another"),
        TOKENIZER: Tokenizer(vocabulary=vocabulary, digest=digest).at(where),
        ITEMS: Items(items=30).at(Directory(str(root / "items"))),
    }


def order(math: Given, **changes: Any) -> OrderSpec[Any]:
    stages = Stages({0: mixture({WEB: 1.0}), 4: mixture({WEB: 0.7, math: 0.3})})
    given = {"shuffle": Shuffle.LINEAR, "seed": 1, "block": 16, "seq_len": 64, "first": 4, "end": 24}
    return OrderSpec(**{"stages": stages, "batch": BatchSchedule({0: 8}), **given, **changes})


def exposure(math: Given, **changes: Any) -> Exposure:
    return Exposure(**{"arm": "bison", "order": order(math), "tokenizer": TOKENIZER, "items": ITEMS, **changes})


def test_the_arm_with_the_items_read_some_and_the_clean_one_none(inputs: Mapping[Any, Any], tmp_path: Path):
    bison = run_step(exposure(MATH, suspects=(MATH,)), inputs, tmp_path)
    reads = read_reads(bison.directory)
    assert reads.of_sources == {"math": 48}
    assert len(reads.read) > 5
    assert set(reads.reads) == {item.id for item in TEST_ITEMS}
    (line,) = bison.headline
    assert line == f"bison {reads.sentence}"
    assert line.startswith(f"bison read {len(reads.read)} of 30 test items, ")
    assert line.endswith(" of 48 sequences of math between steps 4 and 24")
    written = json.loads(bison.directory.read_text("report.json"))
    assert (written["arm"], written["items"], written["of"]) == ("bison", len(reads.read), 30)

    mantis = run_step(exposure(CLEAN, arm="mantis", suspects=(CLEAN,)), inputs, tmp_path)
    assert mantis.headline == ["mantis read none of 30 test items in 48 sequences of clean between steps 4 and 24"]


def test_without_suspects_every_source_is_looked_through(inputs: Mapping[Any, Any], tmp_path: Path):
    few = read_reads(run_step(exposure(MATH, suspects=(MATH,)), inputs, tmp_path).directory)
    made = run_step(exposure(MATH), inputs, tmp_path)
    every = read_reads(made.directory)
    assert every.of_sources == {"math": 48, "web": 112}
    assert every.sequences == 20 * 8
    assert every.reads == few.reads
    assert every.parts == few.parts
    again = run_step(exposure(MATH), inputs, tmp_path / "again")
    assert file_bytes(again.directory) == file_bytes(made.directory)


def test_only_the_steps_of_the_order_count(inputs: Mapping[Any, Any], tmp_path: Path):
    before = run_step(exposure(MATH, order=order(MATH, first=0, end=4, allow_starved=("math",))), inputs, tmp_path)
    assert before.headline == ["bison read none of 30 test items in 32 sequences of math, web between steps 0 and 4"]


def test_what_cannot_be_meant_is_refused(inputs: Mapping[Any, Any], tmp_path: Path):
    with pytest.raises(BadField, match="given/clean, which the order of bison never draws from; wanted some of web"):
        exposure(MATH, suspects=(CLEAN,))
    with pytest.raises(TokenizerMismatch, match="other: another"):
        run_step(exposure(OTHER), inputs, tmp_path)
    with pytest.raises(BadField, match="exposure names bizon; wanted names of arms, which are bison"):
        ContaminationEvidence(parent=WEB, arms={"bison": MATH}, clean="bison", exposure={"bizon": exposure(MATH)})
    one = ContaminationEvidence(parent=WEB, arms={"bison": MATH}, clean="bison")
    assert one != ContaminationEvidence(
        parent=WEB, arms={"bison": MATH}, clean="bison", exposure={"bison": exposure(MATH)}
    )
