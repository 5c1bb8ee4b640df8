import dataclasses
import json

import numpy as np
import pytest

from marin.errors import BadField, CorruptOutput
from marin.evaluation.comparison import NOTE, compare, report
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
    rows = {row.metric: row for row in compare({"bison": BASE, "mantis": shifted(5, correct=True)}, "bison", {})}
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
    back = {row.metric: row for row in compare({"bison": BASE, "mantis": shifted(5)}, "mantis", {})}
    assert back["gsm/olmes/bpb"].differences["bison"].verdict == "worse by 0.1000 on these items"


def test_a_small_difference_in_noise_is_not_shown_and_says_what_would_be():
    rows = {row.metric: row for row in compare({"a": BASE, "b": shifted(0.01)}, "a", {})}
    difference = rows["gsm/olmes/bpb"].differences["b"]
    assert not difference.shown
    assert difference.detectable == pytest.approx(2.8 * difference.estimate.se, rel=0.01)
    assert f"{difference.detectable:.4f}" in difference.verdict


BETTER = {"bison": BASE, "mantis": shifted(5, correct=True)}


def test_the_report_answers_first_and_ends_with_what_it_cannot_say():
    made, headline = report(BETTER, "bison", {"leak": "bison was flagged."}, {}, ["gsm/olmes/bpb"], ["bpb/"])
    assert json.loads(json.dumps(made, allow_nan=False))["arms"] == ["bison", "mantis"]
    assert headline == [
        "mantis is better than bison on all that it is judged on: gsm/olmes/bpb (−0.100 bits/byte).",
        "Guards (bpb, bits/byte): no difference shown on web for mantis.",
        "leak: bison was flagged.",
        NOTE,
    ]
    assert made["answer"] == headline[:2]
    assert (made["primary"], made["guard"]) == (["gsm/olmes/bpb"], ["bpb/web"])


def test_without_primary_metrics_all_of_them_are_judged():
    _, headline = report(BETTER, "bison", {}, {})
    assert headline[0].startswith("mantis is better in part against bison: better on gsm/olmes/bpb (−0.100), ")
    assert headline[0].endswith("no difference shown on bpb/web, gsm/olmes/final_bpb.")


def test_an_arm_that_wins_and_loses_is_no_winner():
    mixed = Results(
        {("gsm", Format.OLMES): shifted(5).items["gsm", Format.OLMES]},
        {"web": [dataclasses.replace(one, bits=one.bits + 20 + i) for i, one in enumerate(DOCUMENTS)]},
    )
    _, headline = report({"bison": BASE, "mantis": mixed}, "bison", {}, {}, ["gsm/olmes/bpb", "bpb/web"])
    assert headline[0].startswith("No clear winner: mantis against bison is worse on bpb/web (+0.0")


def test_metrics_that_were_not_measured_are_refused():
    with pytest.raises(BadField, match=r"primary names 'gsm/olme/bpb'.*did you mean 'gsm/olmes/bpb'.*bpb/web"):
        report(BETTER, "bison", {}, {}, ["gsm/olme/bpb"])
    with pytest.raises(BadField, match="guard names 'mmlu/'"):
        report(BETTER, "bison", {}, {}, (), ["mmlu/"])


def test_a_contaminated_arm_wins_nothing_on_the_items_it_saw():
    arms = {"bison": shifted(5, correct=True), "mantis": BASE}
    made, headline = report(arms, "bison", {}, {"bison": ["gsm"]}, ["gsm/olmes/bpb"])
    verdicts = {row["metric"]: row["differences"]["mantis"]["verdict"] for row in made["rows"]}
    assert verdicts["gsm/olmes/bpb"] == "not comparable, trained on these items: bison"
    assert verdicts["bpb/web"].startswith("no difference shown")
    assert headline[0] == ("mantis and bison are not comparable on gsm/olmes/bpb (bison was trained on these items).")


def test_arms_scored_on_different_texts_are_refused():
    fewer = Results({("gsm", Format.OLMES): BASE.items["gsm", Format.OLMES][:9]}, BASE.documents)
    with pytest.raises(CorruptOutput, match=r"different texts \(9 and 64\)"):
        compare({"a": BASE, "b": fewer}, "a", {})
    with pytest.raises(CorruptOutput, match="b was not scored on web"):
        compare({"a": BASE, "b": Results(BASE.items, {})}, "a", {})
