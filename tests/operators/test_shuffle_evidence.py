"""ShuffleEvidence: token stores in, measures with their references out."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import pytest

from marin import Tokens
from marin.data.mixture import BatchSchedule, Shuffle, Stages, mixture
from marin.data.order_spec import OrderSpec
from marin.data.token_store import write_token_store
from marin.errors import BadField, TokenizerMismatch
from marin.report.section import Interval, Page, Table, Text
from marin.store.files.directory import Directory
from marin.training.health.batches import MEASURES
from marin.training.health.shuffle import measured_steps
from operators.pages.shuffle_evidence import section
from operators.shuffle_evidence import ShuffleEvidence
from tests.operators.running import Given, run_step

WEB, MATH = Given(name_of_input="web", label="web"), Given(name_of_input="math", label="math")


def tokens(folder: Path, documents: int, tokenizer: str = "t") -> Any:
    out = Directory(str(folder))
    made = [[2 + (7 * i + j) % 90 for j in range(10 + i % 50)] for i in range(documents)]
    meta = write_token_store(out, made, vocabulary=99, tokenizer=tokenizer, eos=0)
    return Tokens(tokens=meta.tokens, documents=meta.documents, vocabulary=99, tokenizer=tokenizer).at(out)


def spec(shuffle: Shuffle, **changes: Any) -> OrderSpec[Any]:
    pretraining, cooldown = mixture({WEB: 1.0}), mixture({WEB: 0.7, MATH: 0.3})
    given = {"stages": Stages({0: pretraining, 10: cooldown}), "batch": BatchSchedule({0: 16}), "seed": 3, "block": 64}
    return OrderSpec(**{**given, "shuffle": shuffle, "seq_len": 8, "first": 10, "end": 42, **changes})


def evidence(**changes: Any) -> ShuffleEvidence:
    arms = {"bison": spec(Shuffle.LINEAR), "mantis": spec(Shuffle.FEISTEL)}
    return ShuffleEvidence(**{"arms": arms, "simulations": 20, "seeds": 5, **changes})


def test_both_arms_are_measured_against_chance(tmp_path: Path):
    inputs = {WEB: tokens(tmp_path / "web", 300), MATH: tokens(tmp_path / "math", 80)}
    made = run_step(evidence(sizes=((2000, 60, 50),)), inputs, tmp_path)
    report = json.loads(made.directory.read_text("report.json"))
    assert set(report["arms"]) == {"bison", "mantis"}
    for name, shuffle in (("bison", "LINEAR"), ("mantis", "FEISTEL")):
        arm = report["arms"][name]
        assert (arm["shuffle"], arm["first"], arm["end"], len(arm["steps"])) == (shuffle, 10, 42, 32)
        assert set(arm["measures"]) == set(MEASURES) == set(report["measures"]) == set(arm["over_seeds"])
        assert {len(series["value"]) for series in arm["per_batch"].values()} == {32}
        drawn = {source["name"]: source["drawn"] for source in arm["sources"]}
        assert sum(drawn.values()) == 32 * 16
        assert abs(drawn["math"] - 0.3 * 512) < 1
        assert {source["name"]: round(source["meant"], 9) for source in arm["sources"]} == {"web": 0.7, "math": 0.3}
    assert report["spread"][0]["length"] == 2000
    assert [line.split(":")[0] for line in made.headline[:2]] == ["bison (LINEAR)", "mantis (FEISTEL)"]
    again = run_step(evidence(sizes=((2000, 60, 50),)), inputs, tmp_path / "again")
    assert again.directory.read_bytes("report.json") == made.directory.read_bytes("report.json")


def test_the_page_shows_a_true_shuffle_beside_every_permutation(tmp_path: Path):
    inputs = {WEB: tokens(tmp_path / "web", 300), MATH: tokens(tmp_path / "math", 80)}
    made = run_step(evidence(sizes=((2000, 60, 50),)), inputs, tmp_path)
    shown = section(cast(Any, None), made.directory, Page(arms=("bison", "mantis"), store=""))
    tables = {table.title: table for table in shown.blocks if isinstance(table, Table)}
    seeds = next(table for title, table in tables.items() if title.startswith("Spread over 5 seeds"))
    rows = [row for row in seeds.rows if isinstance(row, list)]
    assert [row[0] for row in rows[:4]] == ["linear", "Feistel", "mixed Feistel", "true shuffle"]
    assert isinstance(rows[0][1], Interval)
    departures = tables["These runs against independent draws"]
    assert [row[0] for row in departures.rows if isinstance(row, list)][:2] == ["bison (linear)", "mantis (Feistel)"]
    assert any(isinstance(text, Text) and "true shuffle" in text.text for text in shown.blocks)


def test_the_steps_of_both_arms_are_dependencies_and_order_does_not_matter():
    step = evidence()
    assert set(step.dependencies) == {WEB, MATH}
    assert step == ShuffleEvidence(arms=dict(reversed(step.arms.items())), simulations=20, seeds=5)
    assert step != evidence(arms={"bison": spec(Shuffle.LINEAR, seed=4), "mantis": spec(Shuffle.FEISTEL)})


def test_long_runs_are_sampled_in_stretches():
    assert measured_steps(160, 192, 64) == list(range(160, 192))
    some = measured_steps(160_000, 192_000, 64)
    assert (len(some), some[0], some[-1]) == (64, 160_000, 191_999)
    assert sum(b - a == 1 for a, b in pairwise(some)) == 56


def test_gates_and_bad_fields(tmp_path: Path):
    inputs = {WEB: tokens(tmp_path / "web", 300), MATH: tokens(tmp_path / "math", 80, "another")}
    with pytest.raises(TokenizerMismatch, match="math: another"):
        run_step(evidence(), inputs, tmp_path)
    with pytest.raises(BadField, match="arms is empty"):
        evidence(arms={})
    with pytest.raises(BadField, match="simulations 5"):
        evidence(simulations=5)
