"""Test Inspect and its gate: a fault stops the training, and an inspection changes nothing in the training."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from marin import Report, Tokens
from marin.data.documents import Document
from marin.data.mixture import BatchSchedule, Shuffle, Stages, mixture
from marin.data.order_spec import OrderSpec
from marin.data.token_store import write_token_store
from marin.data.tokenizer import load_tokenizer, train_bpe
from marin.errors import BadBatches, BadField
from marin.store.files.directory import Directory
from operators.inspect import Inspect, inspected
from tests.operators.running import Given, given_documents, run_step
from tests.operators.test_train import PRETRAIN
from tests.support.topics import topics

TOKENS, TOKENIZER, HELD_OUT = (Given(name_of_input=name, label=name) for name in ("tokens", "tokenizer", "held out"))


def order() -> OrderSpec[Any]:
    return OrderSpec(
        stages=Stages({0: mixture({TOKENS: 1.0})}),
        batch=BatchSchedule({0: 8}),
        shuffle=Shuffle.SPLITMIX,
        seed=1,
        block=16,
        seq_len=64,
        first=0,
        end=40,
    )


def inputs(folder: Path, *, leak: bool = False) -> dict[Any, Any]:
    texts = topics()
    held_out, kept = texts[::10], texts if leak else [text for number, text in enumerate(texts) if number % 10]
    train_bpe(Directory(str(folder / "bpe")), kept[:20], 600)
    tokenizer = load_tokenizer(Directory(str(folder / "bpe")))
    out = Directory(str(folder / "tokens"))
    meta = write_token_store(
        out, tokenizer.encode(kept), vocabulary=tokenizer.vocabulary, tokenizer=tokenizer.digest, eos=tokenizer.eos
    )
    facts = {"tokens": meta.tokens, "documents": meta.documents, "vocabulary": meta.vocabulary}
    tokens: Any = Tokens(tokenizer=tokenizer.digest, **facts).at(out)
    return {
        TOKENS: tokens,
        TOKENIZER: Report(headline=[]).at(Directory(str(folder / "bpe"))),
        HELD_OUT: given_documents([Document(text) for text in held_out], folder / "held out"),
    }


def step(**changes: Any) -> Inspect:
    return Inspect(**{"order": order(), "tokenizer": TOKENIZER, "held_out": {"reference": HELD_OUT}, **changes})


def test_a_clean_run_passes_and_the_report_has_what_was_seen(tmp_path: Path) -> None:
    made = run_step(step(), inputs(tmp_path), tmp_path)
    report = json.loads(made.directory.read_text("report.json"))
    assert report["findings"] == []
    assert made.headline[0].endswith("nothing is wrong")
    assert report["gaps"] == {"reference": []}
    assert report["looked_at"]["steps"][:2] == [0, 1]
    assert len(report["looked_at"]["steps"]) >= 16


def test_held_out_text_stops_it_unless_it_is_allowed(tmp_path: Path) -> None:
    given = inputs(tmp_path, leak=True)
    with pytest.raises(
        BadBatches, match=r"held out: reference: \d+ of its \d+ documents are in .* allow=\('held out',\)"
    ):
        run_step(step(), given, tmp_path)
    made = run_step(step(allow=("held out",)), given, tmp_path)
    assert made.headline[1].startswith("held out: reference: ")


def test_what_was_looked_at_changes_nothing_of_the_gate(tmp_path: Path) -> None:
    given = inputs(tmp_path)
    gates = [step(batches=batches) for batches in (4, 6)]
    made = {each: run_step(each, given, tmp_path) for each in gates}
    passed = [run_step(each.passed, made, tmp_path) for each in gates]
    assert len({each.passed.identity for each in gates}) == 2
    assert len({each.directory.read_bytes("report.json") for each in passed}) == 1
    assert passed[0].facts() == passed[1].facts()


def test_a_training_waits_for_its_gate_and_one_without_is_what_it_was() -> None:
    gated = inspected(PRETRAIN, tokenizer=TOKENIZER, held_out={"reference": HELD_OUT})
    [passed] = set(gated.dependencies) - set(PRETRAIN.dependencies)
    [looked] = passed.dependencies
    assert isinstance(looked, Inspect)
    assert (looked.order.end, looked.held_out["reference"]) == (PRETRAIN.end_step, HELD_OUT)
    assert replace(gated, gates=()) == PRETRAIN


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(BadField, match="allow names sizes; wanted some of shape"):
        step(allow=("sizes",))
    with pytest.raises(BadField, match="batches 0"):
        step(batches=0)
    with pytest.raises(BadField, match="both have reference"):
        step(items={"reference": HELD_OUT})
