import dataclasses
import json

import numpy as np
import pytest

from marin.errors import BadField, CorruptOutput
from marin.evaluation.comparison import compare, report
from marin.evaluation.difference import Difference, Row
from marin.evaluation.formats import Format
from marin.evaluation.results import DocumentResult, ItemResult, Results

NOISE = np.random.default_rng(7).normal(0, 0.5, 64)
NOISE -= NOISE.mean()


def item(number: int, bits: float, correct: bool | None) -> ItemResult:
    return ItemResult("gsm", "olmes", str(number), bits, 50, bits / 5, 2, 0.0, 0, 0.0, 0, correct, None)


DOCUMENTS = [
    DocumentResult("web", str(i), 1000.0 + 100 * i, 500 + 50 * i, 990.0 + 100 * i, 499 + 50 * i) for i in range(12)
]
BASE = Results({("gsm", Format.OLMES): [item(i, 60 + i % 7, i % 4 == 0) for i in range(64)]}, {"web": DOCUMENTS})


def shifted(bits: float, correct: bool | None = None) -> Results:
    """The baseline with so many bits less on every item, a little different on each."""
    items = [
        dataclasses.replace(one, bits=one.bits - bits + noise, correct=one.correct if correct is None else correct)
        for one, noise in zip(BASE.items["gsm", Format.OLMES], NOISE, strict=True)
    ]
    return Results({("gsm", Format.OLMES): items}, BASE.documents)


def test_a_better_arm_is_called_better_on_what_it_is_better_at():
    rows = {row.metric: row for row in compare({"bison": [BASE], "mantis": [shifted(5, correct=True)]}, "bison", {})}
    assert list(rows) == ["bpb/web", "gsm/olmes/bpb", "gsm/olmes/final_bpb", "gsm/olmes/accuracy"]
    bits = rows["gsm/olmes/bpb"].differences["mantis"]
    assert bits.estimate.value == pytest.approx(-5 / 50, abs=0.005)
    assert bits.estimate.low < -0.1 + 0.005
    assert bits.verdict == "better by 0.1000 on these items"
    accuracy = rows["gsm/olmes/accuracy"]
    assert accuracy.values == {"bison": 0.25, "mantis": 1.0}
    assert accuracy.differences["mantis"].verdict == "better by 0.7500 on these items"
    same = rows["bpb/web"].differences["mantis"]
    assert not same.shown
    assert same.verdict.startswith("no difference shown")
    # The other way round it is worse.
    back = {row.metric: row for row in compare({"bison": [BASE], "mantis": [shifted(5)]}, "mantis", {})}
    assert back["gsm/olmes/bpb"].differences["bison"].verdict == "worse by 0.1000 on these items"


def test_a_small_difference_in_noise_is_not_shown_and_says_what_would_be():
    rows = {row.metric: row for row in compare({"a": [BASE], "b": [shifted(0.01)]}, "a", {})}
    difference = rows["gsm/olmes/bpb"].differences["b"]
    assert not difference.shown
    assert difference.detectable == pytest.approx(2.84 * difference.estimate.se, rel=0.01)  # t of 63 at .975, z at .8
    assert f"{difference.detectable:.4f}" in difference.verdict


BETTER = {"bison": [BASE], "mantis": [shifted(5, correct=True)]}


def test_the_report_answers_first_and_ends_with_what_it_cannot_say():
    made, headline = report(BETTER, "bison", {"leak": "bison was flagged."}, {}, ["gsm/olmes/bpb"], ["bpb/"])
    assert json.loads(json.dumps(made, allow_nan=False))["arms"] == ["bison", "mantis"]
    assert headline == [
        "mantis is better than bison on all that it is judged on: gsm (OLMES prompts) (−0.100 bits/byte).",
        "Guards (bits per byte): no difference shown on web text for mantis.",
        "leak: bison was flagged.",
        "One seed an arm: intervals (95 %, each metric by itself) are over documents and items and say nothing about "
        "other seeds, so no difference here is conclusive.",
    ]
    assert made["answer"] == headline[:2]
    assert (made["primary"], made["guard"]) == (["gsm/olmes/bpb"], ["bpb/web"])


def test_a_difference_that_is_shown_is_never_written_as_nothing():
    bits = [dataclasses.replace(one, bits=one.bits - 0.001 * (1 + i % 3)) for i, one in enumerate(DOCUMENTS)]
    _, headline = report({"a": [BASE], "b": [Results(BASE.items, {"web": bits})]}, "a", {}, {}, ["bpb/web"])
    assert headline[0].startswith("b is better than a on all that it is judged on: web text (−0.000003 bits/byte).")


def test_without_primary_metrics_all_of_them_are_judged():
    _, headline = report(BETTER, "bison", {}, {})
    assert headline[0].startswith("mantis is better in part against bison: better on gsm (OLMES prompts) (−0.100), ")
    assert headline[0].endswith("no difference shown on web text, gsm final answers (OLMES prompts).")


def test_an_arm_that_wins_and_loses_is_no_winner():
    mixed = Results(
        {("gsm", Format.OLMES): shifted(5).items["gsm", Format.OLMES]},
        {"web": [dataclasses.replace(one, bits=one.bits + 20 + i) for i, one in enumerate(DOCUMENTS)]},
    )
    _, headline = report({"bison": [BASE], "mantis": [mixed]}, "bison", {}, {}, ["gsm/olmes/bpb", "bpb/web"])
    assert headline[0].startswith("No clear winner: mantis against bison is worse on web text (+0.0")


def test_guards_are_corrected_for_their_number():
    """A difference on one domain of five that by itself would pass."""
    names = ["code", "math", "prose", "reference", "web"]
    noise = np.random.default_rng(10).normal(0, 25, len(DOCUMENTS))
    worse = [dataclasses.replace(one, bits=one.bits + 18 + luck) for one, luck in zip(DOCUMENTS, noise, strict=True)]
    base = Results({}, dict.fromkeys(names, DOCUMENTS))
    arms = {"a": [base], "b": [Results({}, {**base.documents, "web": worse})]}
    alone, _ = report(arms, "a", {}, {}, ["bpb/code"], ["bpb/web"])
    five, headline = report(arms, "a", {}, {}, ["bpb/code"], ["bpb/"])
    one, all_five = (
        next(row for row in made["rows"] if row["metric"] == "bpb/web")["differences"]["b"] for made in (alone, five)
    )
    assert one["shown"]
    assert one["corrected"] == one["p"]
    assert all_five["corrected"] == pytest.approx(5 * one["p"])
    assert all_five["verdict"] == "no difference shown among 5 metrics"
    assert headline[1].startswith("Guards (bits per byte, corrected for 5 metrics): no difference sho")


READ = {"bison": {"gsm": "4 of its 64 test items"}}


def test_a_contaminated_arm_that_wins_proves_nothing():
    arms = {"bison": [shifted(5, correct=True)], "mantis": [BASE]}
    made, headline = report(arms, "bison", {}, READ, ["gsm/olmes/bpb"])
    row = next(row for row in made["rows"] if row["metric"] == "gsm/olmes/bpb")
    assert row["contaminated"] == ["bison"]
    assert row["differences"]["mantis"]["verdict"] == "worse by 0.1000 on these items*"
    assert next(row for row in made["rows"] if row["metric"] == "bpb/web")["contaminated"] == []
    assert headline[0] == (
        "At gsm, bison is better than mantis, which is no evidence of ability, because bison had read 4 of its 64 test "
        "items*: bits per byte with OLMES prompts (bison 1.159, mantis 1.259)."
    )
    assert made["star"] == headline[-1]
    assert headline[-1].startswith("* At gsm, bison was trained on 4 of its 64 test items: ")


def test_an_arm_that_beats_a_contaminated_one_has_won():
    """The retrospective's finding: 54.7 % for Bison, which read the items in another format, 69.1 % for Mantis."""
    arms = {"bison": [BASE], "mantis": [shifted(0, correct=True)]}
    _, headline = report(arms, "bison", {}, READ, ["gsm/olmes/accuracy", "gsm/olmes/bpb"])
    assert headline[0].startswith(
        "At gsm, mantis is better than bison, although bison had read 4 of its 64 test items*: accuracy with OLMES "
        "prompts (bison 25.0 %, mantis 100.0 %); no difference shown in bits per byte"
    )


def test_a_contaminated_arm_that_wins_and_loses_is_said_metric_by_metric():
    arms = {"bison": [BASE], "mantis": [shifted(-5, correct=True)]}
    _, headline = report(arms, "bison", {}, READ, ["gsm/olmes/accuracy", "gsm/olmes/bpb"])
    assert headline[0] == (
        "At gsm, mantis is better than bison in accuracy with OLMES prompts (bison 25.0 %, mantis 100.0 %), and worse "
        "in bits per byte with OLMES prompts (bison 1.259, mantis 1.359); bison had read 4 of its 64 test items*."
    )


def test_metrics_that_were_not_measured_are_refused():
    with pytest.raises(BadField, match=r"primary names 'gsm/olme/bpb'.*did you mean 'gsm/olmes/bpb'.*bpb/web"):
        report(BETTER, "bison", {}, {}, ["gsm/olme/bpb"])
    with pytest.raises(BadField, match="guard names 'mmlu/'"):
        report(BETTER, "bison", {}, {}, (), ["mmlu/"])


def test_arms_scored_on_different_texts_are_refused():
    fewer = Results({("gsm", Format.OLMES): BASE.items["gsm", Format.OLMES][:9]}, BASE.documents)
    with pytest.raises(CorruptOutput, match=r"different texts \(9 and 64\)"):
        compare({"a": [BASE], "b": [fewer]}, "a", {})
    with pytest.raises(CorruptOutput, match="b was not scored on web"):
        compare({"a": [BASE], "b": [Results(BASE.items, {})]}, "a", {})


def runs(shift: float, seeds: list[float]) -> list[Results]:
    """An arm of several runs: better by ``shift`` bits an item, and each run by its own luck."""
    return [shifted(shift + luck) for luck in seeds]


def bits_of(rows: list[Row]) -> Difference:
    return next(row for row in rows if row.metric == "gsm/olmes/bpb").differences["mantis"]


def test_what_seeds_alone_can_do_is_no_difference():
    """Each run is far from the next, so that one run an arm shows a difference that several take back."""
    one = bits_of(compare({"bison": [shifted(0)], "mantis": [shifted(3)]}, "bison", {}))
    assert one.verdict == "better by 0.0600 on these items"
    arms = {"bison": runs(0, [0, 4, -4]), "mantis": runs(3, [0, 4, -4])}
    several = bits_of(compare(arms, "bison", {}))
    assert several.estimate.value == pytest.approx(-0.06)
    assert several.verdict.startswith("no difference shown (one of 0.")
    assert several.detectable > 0.06


def test_what_seeds_cannot_do_is_a_difference_over_seeds():
    made, headline = report(
        {"bison": runs(0, [0.1, -0.1]), "mantis": runs(3, [0, 0.1, -0.1])}, "bison", {}, {}, ["gsm/olmes/bpb"]
    )
    row = next(row for row in made["rows"] if row["metric"] == "gsm/olmes/bpb")
    assert row["differences"]["mantis"]["verdict"] == "better by 0.0600 over seeds and items"
    assert made["runs"] == {"bison": 2, "mantis": 3}
    assert [len(row["runs"][arm]) for arm in ("bison", "mantis")] == [2, 3]
    assert row["values"]["mantis"] == pytest.approx(sum(row["runs"]["mantis"]) / 3)
    assert headline[-1] == (
        "2 to 3 seeds an arm: intervals (95 %, each metric by itself) are over documents, items and seeds, with the "
        "spread of each arm's own seeds."
    )


def test_an_arm_of_one_run_borrows_the_spread_of_the_others_and_the_note_says_so():
    arms = {"bison": runs(0, [0, 2, -2]), "mantis": [shifted(3)]}
    wide = bits_of(compare(arms, "bison", {})).estimate
    narrow = bits_of(compare({"bison": [shifted(0)], "mantis": [shifted(3)]}, "bison", {})).estimate
    assert wide.se > 3 * narrow.se
    _, headline = report(arms, "bison", {}, {})
    assert headline[-1].endswith("mantis has one: how far its seeds spread is taken from the others.")


def test_accuracy_is_a_mean_over_runs():
    rows = compare({"bison": [BASE, shifted(0, correct=True)], "mantis": [shifted(0, correct=False)]}, "bison", {})
    accuracy = next(row for row in rows if row.metric == "gsm/olmes/accuracy")
    assert accuracy.values == {"bison": pytest.approx(0.625), "mantis": 0}
    assert accuracy.runs == {"bison": [0.25, 1.0]}


@pytest.mark.parametrize(("first", "second", "times"), [(2, 2, 1), (3, 3, 1), (5, 2, 1), (3, 3, 6)])
def test_the_interval_holds_the_truth_as_often_as_it_says(first: int, second: int, times: float):
    """300 experiments in which the arms differ by nothing but the luck of items and seeds, one in six times as much."""
    random = np.random.default_rng(first * 10 + second)
    covered = 0
    for _ in range(300):
        arms = {
            name: [
                Results(
                    {},
                    {"web": [
                        dataclasses.replace(one, bits=one.bits * (1 + luck) + random.normal(0, 20)) for one in DOCUMENTS
                    ]},
                )
                for luck in random.normal(0, spread, count)
            ]
            for name, count, spread in (("bison", first, 0.02), ("mantis", second, 0.02 * times))
        }  # fmt: skip
        estimate = compare(arms, "bison", {})[0].differences["mantis"].estimate
        covered += estimate.low <= 0 <= estimate.high
    assert 0.91 <= covered / 300 <= 1
