"""Mixtures, stages and the batch schedule: algebra, refusals, and the 32B's published numbers."""

import math
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marin.data.mixture import (
    BatchSchedule,
    ByTokens,
    Interpolation,
    Mixture,
    Stages,
    blend,
    mixture,
    nested,
    source_name,
)
from marin.errors import BadField, StarvedSource
from marin.steps.value import encode

SCHEDULE_32B = BatchSchedule({0: 8192, 18_500: 7680, 21_010: 8192})
WEIGHTS = st.dictionaries(st.text(min_size=1), st.floats(1e-6, 1e6), min_size=1, max_size=20)


@given(WEIGHTS)
def test_a_mixture_is_normalised_and_keeps_ratios(weights: dict[str, float]):
    made = mixture(weights)
    assert math.isclose(math.fsum(made.weights.values()), 1)
    heaviest = max(weights, key=lambda name: weights[name])
    for name, weight in weights.items():
        assert math.isclose(made.weights[name] / made.weights[heaviest], weight / weights[heaviest], rel_tol=1e-9)


@given(WEIGHTS)
def test_the_order_of_writing_changes_nothing(weights: dict[str, float]):
    backwards = dict(reversed(weights.items()))
    assert encode(mixture(weights), "m", []) == encode(mixture(backwards), "m", [])
    assert mixture(weights) == mixture(backwards)


@given(WEIGHTS, WEIGHTS, st.floats(0.01, 0.99))
def test_a_blend_gives_each_source_the_sum_of_its_shares(one: dict[str, float], two: dict[str, float], share: float):
    a, b = mixture(one), mixture(two)
    made = blend((share, a), (1 - share, b))
    assert set(made.weights) == set(one) | set(two)
    for name, weight in made.weights.items():
        wanted = share * a.weights.get(name, 0) + (1 - share) * b.weights.get(name, 0)
        assert math.isclose(weight, wanted, rel_tol=1e-9)


@pytest.mark.parametrize("weight", [0.0, -0.5, math.nan, math.inf, True])
def test_a_senseless_weight_is_refused_by_name(weight: float):
    with pytest.raises(BadField, match="code"):
        mixture({"web": 1.0, "code": weight})
    with pytest.raises(BadField, match="code"):
        Mixture({"web": 1.0, "code": weight})


def test_empty_and_unnormalised_are_refused():
    with pytest.raises(BadField, match="no sources"):
        mixture({})
    with pytest.raises(BadField, match=r"sum to 0\.9"):
        Mixture({"a": 0.4, "b": 0.5})
    a = mixture({"a": 1.0})
    with pytest.raises(BadField, match=r"shares sum to 1\.1"):
        blend((0.7, a), (0.4, a))
    with pytest.raises(BadField, match="positive"):
        blend((-0.5, a), (1.5, a))


def test_names_come_from_labels():
    @dataclass(frozen=True)
    class Step:
        label: str
        name: str = "tokenize/0123"

    assert [source_name(s) for s in (Step("web"), Step(""), "code")] == ["web", "tokenize/0123", "code"]
    assert mixture({Step("code"): 1, Step("web"): 3}).by_name() == {"web": 0.75, "code": 0.25}


def test_stages_say_which_mixture_is_active():
    a, b = mixture({"a": 1.0}), mixture({"b": 1.0})
    stages = Stages({0: a, 160: b, 174: a})
    assert [stages.active(step) for step in (0, 159, 160, 173, 174, 10_000)] == [a, a, b, b, a, a]
    assert stages.sources == ("a", "b")
    assert Stages({0: a, 174_000: b}).scaled(steps=1000) == Stages({0: a, 174: b})


def test_stages_are_ascending_however_they_were_written():
    a, b = mixture({"a": 1.0}), mixture({"b": 1.0})
    stages = Stages({1000: a, 0: a, 999: b, 5: b})
    assert stages.starts == (0, 5, 999, 1000)
    assert [stages.active(step) for step in (4, 5, 999, 1000)] == [a, b, b, a]


def test_stages_and_schedules_that_cannot_be_meant():
    a = mixture({"a": 1.0})
    with pytest.raises(BadField, match="empty"):
        Stages({})
    with pytest.raises(BadField, match="first entry is for step 5"):
        Stages({5: a})
    with pytest.raises(BadField, match="not an optimizer step"):
        Stages({-1: a})
    with pytest.raises(BadField, match="from step 3 is 0"):
        BatchSchedule({0: 8, 3: 0})
    with pytest.raises(BadField, match="steps start at 0"):
        SCHEDULE_32B.batch(-1)
    with pytest.raises(BadField, match="already has an entry"):
        SCHEDULE_32B.scaled(steps=20_000, batch=512)
    with pytest.raises(BadField, match="is 0"):
        SCHEDULE_32B.scaled(steps=1000, batch=100_000)


@given(
    st.lists(st.tuples(st.integers(1, 20), st.integers(1, 9)), min_size=1, max_size=5),
    st.integers(0, 120),
)
def test_the_schedule_adds_up_batch_by_batch(entries: list[tuple[int, int]], step: int):
    starts = [0]
    for length, _ in entries[:-1]:
        starts.append(starts[-1] + length)
    schedule = BatchSchedule({start: size for start, (_, size) in zip(starts, entries, strict=True)})
    before = sum(schedule.batch(s) for s in range(step))
    assert schedule.sequences_before(step) == before
    assert schedule.step_of(before) == step
    assert schedule.step_of(before + schedule.batch(step) - 1) == step


@pytest.mark.parametrize(
    ("first", "end", "trillions"), [(0, 80_000, 2.679), (80_000, 160_000, 2.684), (160_000, 192_000, 1.074)]
)
def test_the_32b_schedule_gives_the_published_tokens(first: int, end: int, trillions: float):
    """Marin 32B retrospective, "Tokens trained" of phases 1, 3 and 4."""
    assert round(SCHEDULE_32B.tokens(4096, first, end) / 1e12, 3) == trillions


def test_the_rehearsal_schedule():
    assert SCHEDULE_32B.scaled(steps=1000, batch=512) == BatchSchedule({0: 16, 18: 15, 21: 16})


WEB, CODE = mixture({"medium": 3, "high": 1}), mixture({"python": 1, "c": 1})


def test_groups_divide_what_they_get_by_their_own_shares():
    made = nested({WEB: 9, CODE: 1})
    assert made == Mixture({"medium": 0.675, "high": 0.225, "python": 0.05, "c": 0.05})
    deeper = nested({made: 0.5, mixture({"high": 1}): 0.5})
    assert math.isclose(deeper.weights["high"], 0.5 + 0.1125)
    with pytest.raises(BadField, match="nested: medium is not a mixture"):
        nested({"medium": 1.0})  # type: ignore[dict-item]
    with pytest.raises(BadField, match=r"the weight of c \+ python is -1"):
        nested({WEB: 1, CODE: -1})


def test_shares_by_tokens_are_known_when_the_sources_are_counted():
    """FLAN ten times, papers five times, as the 8B's Starling wrote its weights."""
    chosen = ByTokens({"flan": 10, "papers": 5, "code": 1})
    held = {"flan": 17, "papers": 58, "code": 250}
    assert chosen.resolved(held) == mixture({"flan": 170, "papers": 290, "code": 250})
    assert encode(chosen, "m", []) == encode(ByTokens({"code": 1, "papers": 5, "flan": 10}), "m", [])
    with pytest.raises(BadField, match="the tokens of code are not counted yet"):
        chosen.resolved({"flan": 17, "papers": 58})
    with pytest.raises(StarvedSource, match="papers holds no token"):
        chosen.resolved({**held, "papers": 0})
    for factor in (0, -1, math.inf):
        with pytest.raises(BadField, match="factor of code"):
            ByTokens({"code": factor})
    with pytest.raises(BadField, match="no sources"):
        ByTokens({})


@given(st.floats(0.1, 0.9), st.floats(0.1, 0.9))
def test_how_groups_are_nested_changes_no_share_and_no_identity(one: float, two: float):
    counted, held = ByTokens({"flan": 10, "papers": 5}), {"flan": 3, "papers": 4}
    deep = blend((one, WEB), (1 - one, blend((two, counted), (1 - two, CODE))))
    wide = blend((one, WEB), ((1 - one) * two, counted), ((1 - one) * (1 - two), CODE))
    assert {part: round(share, 12) for part, share in deep.shares.items() if isinstance(part, ByTokens)} == {
        part: round(share, 12) for part, share in wide.shares.items() if isinstance(part, ByTokens)
    }
    wanted = blend((one, WEB), ((1 - one) * two, counted.resolved(held)), ((1 - one) * (1 - two), CODE))
    for made in (deep, wide):
        assert set(made.sources) == set(wanted.sources)
        for source, weight in made.resolved(held).weights.items():
            assert math.isclose(weight, wanted.weights[source], rel_tol=1e-9)
    assert blend((0.7, WEB), (0.3, counted)) == blend((0.3, counted), (0.7, WEB))


def test_an_interpolation_goes_over_evenly():
    """The mixture of the middle of each step, and the one that it comes to from then on."""
    stages = Stages({0: mixture({"a": 1.0}), 100: Interpolation(mixture({"b": 1.0}), steps=4)})
    shares = [stages.active(step).resolved({}).weights.get("b", 0.0) for step in (99, 100, 101, 102, 103, 104, 9999)]
    assert shares == pytest.approx([0, 0.125, 0.375, 0.625, 0.875, 1, 1])
    assert stages.mixtures == {0: mixture({"a": 1.0}), 100: mixture({"b": 1.0})}
    assert stages.scaled(steps=50) == Stages({0: mixture({"a": 1.0}), 2: Interpolation(mixture({"b": 1.0}), steps=1)})


def test_interpolations_that_cannot_be_meant():
    a, b = mixture({"a": 1.0}), mixture({"b": 1.0})
    with pytest.raises(BadField, match="step 0 is an interpolation, with no mixture before it"):
        Stages({0: Interpolation(a, steps=5)})
    with pytest.raises(BadField, match="from step 10 takes 5 steps, but the next stage begins at step 14"):
        Stages({0: a, 10: Interpolation(b, steps=5), 14: a})
    with pytest.raises(BadField, match="it takes 0 optimizer steps"):
        Interpolation(a, steps=0)


def test_stages_say_which_shares_are_not_known_yet():
    stages = Stages({0: WEB, 5: blend((0.7, WEB), (0.3, ByTokens({"flan": 10, "papers": 1})))})
    assert stages.counted == {"flan", "papers"}
    with pytest.raises(BadField, match="from step 5 are not known"):
        stages.known()
    assert stages.resolved({"flan": 1, "papers": 10}).known()[5].weights["flan"] == pytest.approx(0.15)
