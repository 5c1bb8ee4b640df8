"""The statistics of microannealing, by simulation where the truth is known."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from marin.errors import CorruptOutput
from marin.evaluation.adoption import LEVEL, Decision, Verdict, decide
from marin.evaluation.dunnett import dunnett_p
from marin.evaluation.gains import Gain, Measured, Values, gains
from tests.evaluation.synthetic import FOUND, NULLS, adopted
from tests.evaluation.synthetic import measured as synthetic

SEEDS, ITEMS = 3, 64


def measured(
    draw: np.random.Generator,
    *,
    arms: int = 2,
    seeds: int = SEEDS,
    items: int = ITEMS,
    of_seeds: float = 0.05,
    of_items: float = 0.2,
    of_both: float = 0.2,
    better: float = 0.0,
    metric: str = "gsm/olmes/choice_probability",
    chance: float | None = None,
) -> Measured:
    """Arms that differ from the control in luck alone, the first candidate by ``better`` too.

    The order of data of a seed and the items move all arms, by far more than any difference does.
    """
    shared = draw.normal(0, 0.3, (seeds, 1)) + draw.normal(0, 1.0, items)
    amounts: dict[str, Values] = {}
    for arm in range(arms):
        own = draw.normal(0, of_seeds, (seeds, 1)) + draw.normal(0, of_items, items)
        amounts[f"arm{arm}"] = shared + own + draw.normal(0, of_both, (seeds, items)) + (better if arm == 1 else 0.0)
    return Measured(
        metric=metric, unit="share", higher_is_better=True, amounts=amounts, sizes=np.ones(items), chance=chance
    )


def verdicts(primary: list[Measured], margin: float = 0.1, **flags: list[str]) -> list[Verdict]:
    return [one.verdict for one in decide(primary, "arm0", margin=margin, flags=flags, family={}).values()]


def test_dunnett_agrees_with_tables_and_with_scipy():
    for candidates, freedom, critical in ((2, 5, 3.03), (3, 10, 2.76), (3, 20, 2.54), (2, 6, 2.86)):  # Dunnett 1955
        assert dunnett_p(critical, candidates, freedom) == pytest.approx(0.05, abs=2e-4)
    draw = np.random.default_rng(1)
    arms, control = [draw.normal(0.5, 1, 5) for _ in range(3)], draw.normal(0, 1, 5)
    theirs = stats.dunnett(*arms, control=control, rng=np.random.default_rng(0))
    for t, p in zip(theirs.statistic, theirs.pvalue, strict=True):
        assert dunnett_p(t, 3, 16) == pytest.approx(p, abs=1e-3)
    assert dunnett_p(2.5, 1, 7) == pytest.approx(0.0410, abs=1e-4)  # Student


def test_an_interval_excludes_zero_where_holm_rejects_and_nowhere_else():
    draw = np.random.default_rng(13)
    shown = 0
    for _ in range(20):
        tasks = [measured(draw, arms=3, better=0.12 * n, metric=f"{n}/olmes/bpb") for n in range(3)]
        for decision in decide(tasks, "arm0", margin=0.1, flags={}, family={}).values():
            for task in decision.tasks:
                low, high = task.gain.interval(task.level)
                assert (low > 0 or high < 0) is task.shown
                assert LEVEL / 3 * 0.999 <= task.level <= LEVEL * 1.001
                shown += task.shown
    assert 10 < shown < 40


@pytest.mark.parametrize(
    ("of_seeds", "of_items", "of_both"), [(0.05, 0.2, 0.2), (0.3, 0.1, 0.05), (0.0, 0.3, 0.0), (0.02, 0.0, 0.3)]
)
def test_what_changes_nothing_is_adopted_or_rejected_at_most_once_in_twenty(
    of_seeds: float, of_items: float, of_both: float
):
    """Over three candidates and two primary tasks together."""
    draw = np.random.default_rng(2)
    times = 300
    counts: Counter[Verdict] = Counter()
    for _ in range(times):
        tasks = [
            measured(draw, arms=4, of_seeds=of_seeds, of_items=of_items, of_both=of_both, metric=f"{task}/olmes/bpb")
            for task in ("gsm", "mmlu")
        ]
        counts.update(set(verdicts(tasks)))
    assert counts[Verdict.ADOPT] <= 0.05 * times
    assert counts[Verdict.ADOPT] + counts[Verdict.REJECT] <= 0.05 * times + 2 * np.sqrt(0.05 * 0.95 * times)


def test_two_seeds_are_no_way_around_it():
    draw = np.random.default_rng(3)
    found = Counter(verdicts([measured(draw, seeds=2, of_seeds=0.2)])[0] for _ in range(600))
    assert found[Verdict.ADOPT] <= 0.05 * 600


@pytest.mark.parametrize("seeds", [3, 6])
def test_four_in_five_of_the_effects_that_are_promised_are_found(seeds: int):
    """The promised effect comes from the known parts of the experiment; each estimate varies around the promise."""
    promised = Gain(
        value=0.0, of_seeds=2 * 0.05**2, of_texts=2 * 0.2**2, of_both=2 * 0.05**2, seeds=seeds, texts=ITEMS,
        spread_freedom=seeds - 1, candidates=1,
    ).detectable(LEVEL)  # fmt: skip
    draw = np.random.default_rng(4)
    times = 400
    found = [verdicts([measured(draw, better=promised, seeds=seeds, of_both=0.05)])[0] for _ in range(times)]
    assert 0.75 <= found.count(Verdict.ADOPT) / times <= 0.9
    worse = [verdicts([measured(draw, better=-promised, seeds=seeds, of_both=0.05)])[0] for _ in range(times)]
    assert 0.75 <= worse.count(Verdict.REJECT) / times <= 0.9


def test_what_it_says_is_needed_is_enough():
    draw = np.random.default_rng(5)
    gain = gains(measured(draw, of_seeds=0.1), "arm0")["arm1"]
    needed = gain.needed(0.12, LEVEL)
    assert needed is not None
    seeds, items = needed
    assert seeds > SEEDS
    assert gain.with_more(seeds, items).detectable(LEVEL) <= 0.12 < gain.with_more(seeds - 1, items).detectable(LEVEL)
    assert gain.needed(1e-6, LEVEL) is None
    # If the items are too few, no number of seeds is enough.
    few = gains(measured(draw, of_seeds=0.0, of_items=0.5, of_both=0.01), "arm0")["arm1"].needed(0.1, LEVEL)
    assert few is not None
    assert few[1] > ITEMS


def test_equal_arms_are_equivalent_within_a_margin_that_the_data_can_tell():
    draw = np.random.default_rng(6)
    close = measured(draw, of_seeds=0.001, of_items=0.01, of_both=0.01)
    assert verdicts([close], margin=0.05) == [Verdict.EQUIVALENT]
    [unclear] = decide([close], "arm0", margin=0.001, flags={}, family={}).values()
    assert unclear.verdict is Verdict.INCONCLUSIVE
    assert unclear.needs is not None
    # Beyond the margin is never equivalent, nor is what may be.
    times = 300
    at_margin = [verdicts([measured(draw, better=0.3, of_seeds=0.05)], margin=0.3)[0] for _ in range(times)]
    assert at_margin.count(Verdict.EQUIVALENT) <= 0.05 * times


def test_one_seed_is_never_conclusive_however_large_the_effect():
    draw = np.random.default_rng(7)
    one = measured(draw, seeds=1, better=50.0)
    [decision] = decide([one], "arm0", margin=0.1, flags={}, family={}).values()
    assert decision.verdict is Verdict.INCONCLUSIVE
    assert decision.because == "one seed cannot tell a difference from the luck of that seed"
    assert decision.needs is not None
    assert decision.needs.seeds == 3
    # Not even where earlier experiments say how far seeds spread.
    block = np.random.default_rng(0).normal(0, 0.01, (4, 5))
    [lent] = decide([one], "arm0", margin=0.1, flags={}, family={one.metric: [block]}).values()
    assert lent.verdict is Verdict.INCONCLUSIVE


def test_earlier_experiments_of_the_family_lend_degrees_of_freedom():
    draw = np.random.default_rng(8)
    one = measured(draw, of_seeds=0.1)
    alone = gains(one, "arm0")["arm1"]
    lent = gains(one, "arm0", [draw.normal(0, 0.1, (4, 5))])["arm1"]
    assert (alone.spread_freedom, lent.spread_freedom) == (2, 8)  # half of the spread is the candidate's own
    assert lent.value == alone.value
    assert lent.detectable(LEVEL) < alone.detectable(LEVEL)
    assert lent.noise is not None
    assert lent.noise == pytest.approx(2.1 * np.sqrt(2 * 0.1**2 / SEEDS), rel=0.5)


def test_flags_veto():
    draw = np.random.default_rng(9)
    better, worse = measured(draw, better=3.0), measured(draw, better=-3.0)
    assert verdicts([better]) == [Verdict.ADOPT]
    assert verdicts([better], arm1=["contamination: read test items"]) == [Verdict.INCONCLUSIVE]
    assert verdicts([better], arm0=["contamination: the control read test items"]) == [Verdict.INCONCLUSIVE]
    # A candidate that is worse although it read test items is worse.
    assert verdicts([worse], arm1=["contamination: read test items"]) == [Verdict.REJECT]
    assert verdicts([worse], arm0=["contamination: the control read test items"]) == [Verdict.INCONCLUSIVE]
    [decision] = decide([better], "arm0", margin=0.1, flags={"arm1": ["contamination: x"]}, family={}).values()
    assert decision.because.startswith("it would be ADOPT (better on gsm choice probability (OLMES prompts) (+")
    assert decision.because.endswith("but the scores cannot be trusted: contamination: x")


def test_a_guard_that_lost_more_than_it_may_forbids_adoption():
    draw = np.random.default_rng(21)
    better, kept = measured(draw, better=3.0), measured(draw, metric="a/olmes/bpb")
    lost = measured(draw, better=-3.0, metric="b/olmes/bpb")

    def decided(primary: Measured, *guards: tuple[Measured, float]) -> Decision:
        [decision] = decide([primary], "arm0", margin=0.5, flags={}, family={}, guards=guards).values()
        return decision

    assert decided(better, (kept, 0.5)).verdict is Verdict.ADOPT
    broken = decided(better, (kept, 0.5), (lost, 0.5))
    assert broken.verdict is Verdict.REJECT
    assert broken.because.startswith("a guard lost more than it may: b (OLMES prompts) (−")
    assert "which may lose 0.5, though better on gsm choice probability" in broken.because
    assert decided(measured(draw), (lost, 0.5)).verdict is Verdict.REJECT
    # That a loss is not shown is not enough.
    unclear = decided(better, (kept, 0.01))
    assert unclear.verdict is Verdict.INCONCLUSIVE
    assert "; these guards are not shown to be kept: a (OLMES prompts)" in unclear.because
    assert unclear.needs is not None
    assert unclear.needs.shows == "that a (OLMES prompts) lost no more than 0.01"
    assert decided(measured(draw), (kept, 0.01)).verdict is Verdict.INCONCLUSIVE
    # An arm that is no better than chance cannot lose anything.
    centred = {arm: runs - runs.mean() for arm, runs in lost.amounts.items()}
    guessing = replace(lost, amounts=centred, chance=0.25)
    assert decided(better, (guessing, 1e-6)).verdict is Verdict.ADOPT


def test_a_candidate_whose_guard_lost_the_margin_is_adopted_at_most_once_in_twenty():
    adopted = 0
    for repetition in range(200):
        draw = np.random.default_rng((22, repetition))
        better, guard = measured(draw, better=3.0), measured(draw, better=-0.1, metric="guard/acc")
        decisions = decide([better], "arm0", margin=0.1, flags={}, family={}, guards=[(guard, 0.1)])
        adopted += decisions["arm1"].verdict is Verdict.ADOPT
    assert 0 < adopted <= 10


@pytest.mark.parametrize("name", [
    "one arm of eight", "the control, of four arms", "250 items in groups of 25",
    "250 items in groups of 1 to 60, 10 in the mean", "two seeds, two items", "4 of 50 items differ",
])  # fmt: skip
def test_what_changes_nothing_is_adopted_at_most_once_in_twenty_where_luck_is_unequal_or_shared(name: str):
    """benchmarks/evaluation/false_adoptions.py runs more experiments, of more kinds."""
    times = 200
    assert adopted(NULLS[name], times) * times <= 0.05 * times + 2 * np.sqrt(0.05 * 0.95 * times)


def test_three_in_four_of_the_gains_that_matter_are_found():
    assert adopted(FOUND["gain .1, one candidate"], 200) >= 0.7
    assert adopted(FOUND["gain .1, one of three candidates"], 200) >= 0.75


def test_few_items_that_carry_a_difference_are_named_as_the_reason():
    [decision] = decide(
        [synthetic(np.random.default_rng(1), NULLS["4 of 50 items differ"])], "arm0", margin=0.001, flags={}, family={}
    ).values()
    assert decision.verdict is Verdict.INCONCLUSIVE
    assert decision.because.startswith("only about 4 of 50 items make the difference: gsm choice probability")


def test_a_trade_is_no_verdict():
    draw = np.random.default_rng(10)
    tasks = [measured(draw, better=3.0, metric="a/olmes/bpb"), measured(draw, better=-3.0, metric="b/olmes/bpb")]
    [decision] = decide(tasks, "arm0", margin=0.1, flags={}, family={}).values()
    assert decision.verdict is Verdict.INCONCLUSIVE
    assert decision.because.startswith("a trade: better on a (OLMES prompts)")
    assert decision.needs is None


def test_a_task_that_nobody_is_above_chance_on_decides_nothing():
    draw = np.random.default_rng(11)

    def guessing(better: float) -> Measured:
        one = measured(draw, better=better, metric="gsm/olmes/accuracy")
        centred = {arm: runs - one.amounts["arm0"].mean() for arm, runs in one.amounts.items()}
        return Measured(
            metric=one.metric, unit="share", higher_is_better=True, amounts=centred, sizes=one.sizes, chance=0.25
        )

    [decision] = decide([guessing(-2.0)], "arm0", margin=0.1, flags={}, family={}).values()
    assert decision.verdict is Verdict.INCONCLUSIVE
    assert "no run of any arm is above chance on gsm accuracy (OLMES prompts)" in decision.because
    assert verdicts([guessing(2.0)]) == [Verdict.ADOPT]  # one arm is above it
    assert verdicts([guessing(-2.0), measured(draw, better=3.0, metric="b/olmes/bpb")]) == [Verdict.ADOPT]


def test_a_rate_is_all_bits_by_all_bytes_and_less_of_it_is_a_gain():
    draw = np.random.default_rng(12)
    sizes = draw.integers(10, 400, ITEMS).astype(float)
    control = sizes * 2 + draw.normal(0, 5, (SEEDS, ITEMS))
    arms = {"control": control, "hq": control - 0.1 * sizes}
    one = Measured(metric="gsm/olmes/bpb", unit="bits/byte", higher_is_better=False, amounts=arms, sizes=sizes)
    gain = gains(one, "control")["hq"]
    assert gain.value == pytest.approx(0.1)
    assert gain.se == pytest.approx(0.0, abs=1e-9)  # the same for each text by its size
    assert one.values("control")[0] == pytest.approx(control[0].sum() / sizes.sum())


def test_arms_of_unequally_many_runs_are_refused():
    arms = {"control": np.ones((3, 4)), "hq": np.ones((2, 4))}
    one = Measured(metric="m", unit="share", higher_is_better=True, amounts=arms, sizes=np.ones(4))
    with pytest.raises(CorruptOutput, match="arm hq has 2 runs, the control control 3"):
        gains(one, "control")
