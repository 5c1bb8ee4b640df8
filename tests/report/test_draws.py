"""Test the draws of trainings at plan: gates act before any step runs, and use records if there are any."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from marin import (
    BatchSchedule,
    ByTokens,
    Context,
    Documents,
    ExecutorStep,
    Interpolation,
    Size,
    Stages,
    Tokens,
    mixture,
    nested,
)
from marin.errors import StarvedSource, TooManyEpochs
from marin.plan.cost.plan_cost import expected_sizes
from marin.report.trainings import draws_of, must_not_starve
from tests.support.toy import Blob, planned, run


class Store(ExecutorStep[Tokens], op="toy-draws-store"):
    """A token store, known by its record. expected: the token count that its fields promise before it exists."""

    count: int
    expected: int | None = None

    def expected_size(self, inputs: Mapping[ExecutorStep[Any], Size]) -> Size | None:
        return None if self.expected is None else Size(bytes=2 * self.expected, tokens=self.expected)

    def run(self, ctx: Context) -> Tokens:
        ctx.out.write_text("tokens.bin", "x")
        return Tokens(tokens=self.count, documents=1, vocabulary=9, tokenizer="t")


class Text(ExecutorStep[Documents], op="toy-draws-text"):
    bytes: int

    def run(self, ctx: Context) -> Documents:
        ctx.out.write_text("text.txt", "x")
        return Documents(documents=1, bytes=self.bytes, shards=1)


class Encode(ExecutorStep[Tokens], op="toy-draws-encode"):
    text: ExecutorStep[Documents]

    def expected_size(self, inputs: Mapping[ExecutorStep[Any], Size]) -> Size | None:
        return inputs.get(self.text)

    def run(self, ctx: Context) -> Tokens:
        raise AssertionError("only planned")


class Learner(ExecutorStep[Blob], op="toy-draws-learner"):
    """Ten tokens a sequence, eight sequences a batch."""

    data: Stages[ExecutorStep[Tokens]]
    end_step: int = 10
    batch: BatchSchedule = BatchSchedule({0: 8})
    first_step: int = 0
    seq_len: int = 10
    block: int = 8
    max_epochs: float = 4.0
    allow_starved: tuple[str, ...] = ()

    def run(self, ctx: Context) -> Blob:
        raise AssertionError("only planned")


def checked(store: Path, **results: ExecutorStep[Any]) -> None:
    plan = planned(str(store), **results)
    must_not_starve(plan, expected_sizes(plan))


def test_a_store_that_is_read_too_often_is_refused_by_its_record(tmp_path: Path) -> None:
    web, math = Store(count=9000, label="web"), Store(count=90, label="math")
    learner = Learner(data=Stages({0: mixture({web: 3, math: 1})}), label="small")
    checked(tmp_path, end=learner)  # nobody knows how much they will hold
    run(str(tmp_path), web=web, math=math)
    with pytest.raises(
        TooManyEpochs, match=r"toy-draws-learner/small: math is read \d\.\d\d times by step 20: it holds 90"
    ):
        checked(tmp_path, end=Learner(data=learner.data, end_step=20, label="small"))
    checked(tmp_path, end=learner)
    checked(tmp_path, end=Learner(data=learner.data, end_step=20, max_epochs=9.0))


def test_what_fields_declare_is_refused_before_any_of_it_is_there(tmp_path: Path) -> None:
    web, math = Store(count=9, expected=9000, label="web"), Store(count=9, expected=40, label="math")
    learner = Learner(data=Stages({0: mixture({web: 3, math: 1})}))
    with pytest.raises(TooManyEpochs, match=r"math is read 5\.00 times"):
        checked(tmp_path, end=learner)


def test_a_starved_source_is_refused_without_any_count(tmp_path: Path) -> None:
    web, rare = Store(count=9, label="web"), Store(count=8, label="rare")
    data = Stages({0: mixture({web: 0.999, rare: 0.001})})
    with pytest.raises(StarvedSource, match=r"rare \(share 0.1000%\) gets none of the 80 sequences"):
        checked(tmp_path, end=Learner(data=data))
    checked(tmp_path, end=Learner(data=data, allow_starved=("rare",)))


def test_a_count_that_is_a_guess_by_bytes_of_text_refuses_nothing(tmp_path: Path) -> None:
    """400 bytes are about 100 tokens; a tokenizer may make three times as many tokens."""
    text = Text(bytes=400, label="text")
    run(str(tmp_path), text=text)
    learner = Learner(data=Stages({0: mixture({Encode(text=text, label="web"): 1.0})}))
    plan = planned(str(tmp_path), end=learner)
    table = draws_of(learner, expected_sizes(plan))
    assert table is not None
    assert table.total[0].epochs == 8
    must_not_starve(plan, expected_sizes(plan))


def test_shares_by_tokens_are_known_as_soon_as_the_stores_are_there(tmp_path: Path) -> None:
    """The identity is the choice; the shares follow the records."""
    web, flan = Store(count=8000, label="web"), Store(count=200, label="flan")
    group = nested({ByTokens({web: 1, flan: 10}): 1.0})
    learner = Learner(data=Stages({0: mixture({web: 1.0}), 5: Interpolation(group, steps=5)}))
    plan = planned(str(tmp_path), end=learner)
    assert draws_of(learner, expected_sizes(plan)) is None
    identity = learner.identity
    run(str(tmp_path), web=web, flan=flan)
    plan = planned(str(tmp_path), end=learner)
    table = draws_of(learner, expected_sizes(plan))
    assert table is not None
    rows = {row.name: row for row in table.stages[1][2]}
    assert rows["flan"].share == pytest.approx(0.5 * 2000 / 10_000)
    assert learner.identity == identity
