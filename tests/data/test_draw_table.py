"""Test the planner's table of a run's draws, made before there is a token, against the draws of the run's order."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marin.data.draw_table import DrawTable, draw_table, must_be_drawable
from marin.data.mixture import BatchSchedule, ByTokens, Interpolation, Shuffle, Stages, mixture
from marin.data.order import DataOrder
from marin.errors import StarvedSource, TooManyEpochs

SEQ = 10
TOKENS = {"web": 1000, "code": 375, "math": 80, "wiki": 19}
PRETRAINING, COOLDOWN = mixture({"web": 0.7, "code": 0.3}), mixture({"web": 0.5, "code": 0.2, "math": 0.3})
BATCH = BatchSchedule({0: 8, 6: 16})


def table(
    stages: Stages[str], first: int, end: int, block: int = 16, tokens: dict[str, int] = TOKENS
) -> DrawTable[str]:
    return draw_table(stages, BATCH, block=block, seq_len=SEQ, first=first, end=end, tokens=tokens)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 12), st.integers(1, 30), st.integers(1, 40), st.booleans())
def test_the_table_is_what_the_order_draws(first: int, steps: int, block: int, evenly: bool):
    """The table is exact if stages end with a block, else within one block; gates refuse no run that would work."""
    cooldown = Interpolation(COOLDOWN, steps=3) if evenly else COOLDOWN
    stages, end = Stages({0: PRETRAINING, 8: cooldown}), first + steps
    made = table(stages, first, end, block)
    order = DataOrder(stages, {name: n // SEQ for name, n in TOKENS.items()}, BATCH, Shuffle.SPLITMIX, 0, block)
    drawn, epochs = order.effective_counts(first, end), order.epochs(end)
    for row in made.total:
        assert abs(row.drawn / SEQ - drawn[row.name]) <= 2 * block
        assert made.least_epochs[row.name][0] <= epochs[row.name]
    surely = {(name, stage) for name, stage, _, _ in made.starved}
    assert surely <= {(each.name, each.stage) for each in order.starved(first, end)}
    assert sum(row.drawn for row in made.total) == SEQ * sum(drawn.values())
    assert sum(row.share for row in made.total) == pytest.approx(1)


def test_a_table_row_by_row():
    made = table(Stages({0: PRETRAINING, 8: COOLDOWN}), 4, 12)
    assert [(first, end) for first, end, _ in made.stages] == [(4, 8), (8, 12)]
    cooldown = {row.name: row for row in made.stages[1][2]}
    math = cooldown["math"]
    assert (math.share, math.available, math.drawn) == (pytest.approx(0.3), 80, 190)
    assert (math.epochs, math.per_block) == (pytest.approx(19 / 8), pytest.approx(4.8))
    web = cooldown["web"]
    assert web.epochs_by_end == pytest.approx((0.7 * 80 + 32) / 100, abs=0.01)
    assert [row.name for row in made.total] == ["web", "code", "math"]


def test_what_nobody_has_counted_has_no_epochs():
    rows = table(Stages({0: COOLDOWN}), 0, 8, tokens={"web": 1000}).total
    assert {row.name: (row.available, row.epochs) for row in rows if row.name != "web"} == {
        "code": (None, None),
        "math": (None, None),
    }


def test_a_starved_source_is_refused_with_its_number_and_remedy():
    rare = Stages({0: PRETRAINING, 6: mixture({"web": 0.6995, "code": 0.3, "wiki": 0.0005})})
    made = table(rare, 6, 10)
    with pytest.raises(
        StarvedSource, match=r"wiki \(share 0.0500%\) gets none of the 64 sequences of the stage at step 6"
    ):
        must_be_drawable(made, end=10, max_epochs=9)
    with pytest.raises(StarvedSource, match=r"a share of about 1.56% .* allow_starved=\('wiki',\)"):
        must_be_drawable(made, end=10, max_epochs=9)
    must_be_drawable(made, end=10, max_epochs=9, allow_starved=("wiki",))
    with pytest.raises(StarvedSource, match="wiki holds 9 tokens, less than one sequence of 10"):
        table(rare, 6, 10, tokens={**TOKENS, "wiki": 9})


def test_too_many_epochs_name_every_source_its_number_and_the_remedy():
    made = table(Stages({0: mixture({"web": 0.2, "math": 0.4, "wiki": 0.4})}), 0, 8)
    with pytest.raises(
        TooManyEpochs, match=r"wiki is read 32\.00 times by step 8: it holds 19 tokens; math is read 4\."
    ):
        must_be_drawable(made, end=8, max_epochs=3)
    with pytest.raises(
        TooManyEpochs, match=r"At most 4 times is allowed: multiply its share by 0\.1\d, .* raise max_epochs"
    ):
        must_be_drawable(made, end=8, max_epochs=4)
    must_be_drawable(made, end=8, max_epochs=40)


def test_shares_by_tokens_give_the_factors_as_epochs():
    """Read in proportion to what each holds, a source of factor 10 is repeated ten times as often."""
    rows = table(Stages({0: ByTokens({"web": 1, "math": 10})}), 0, 8, block=1).total
    epochs = {row.name: row.epochs for row in rows}
    assert epochs["math"] == pytest.approx(10 * epochs["web"], rel=0.1)
