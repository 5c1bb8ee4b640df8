"""Test the plain words above the evidence: findings, absent findings, and questions that the evidence leaves open."""

from typing import Any

import pytest

from marin.evaluation.verdict import contamination_verdict
from marin.training.health.shuffle_verdict import shuffle_verdict


def sign(kind: str, z: float) -> dict[str, Any]:
    held = {"sign": kind, "name": "member gap", "unit": "bits/byte", "value": z / 100, "z": z, "flagged": abs(z) > 5}
    return {**held, "detectable": 0.07}


def arm(contamination: float, fragility: float) -> dict[str, Any]:
    return {"findings": [sign("contamination", contamination), sign("format fragility", fragility)], "contrast": []}


def made(contaminated: tuple[float, float], clean: tuple[float, float], **exposure: int) -> dict[str, Any]:
    read = {name: {"items": items, "of": 128, "copies": items + 1} for name, items in exposure.items()}
    return {
        "clean": "mantis",
        "threshold": 5.0,
        "arms": {"bison": arm(*contaminated), "mantis": arm(*clean)},
        "exposure": read,
    }


def test_fragility_of_both_arms_is_no_contamination():
    finding, verdict = contamination_verdict(made((1.9, 30.0), (0.1, 50.0), bison=0, mantis=0))
    assert finding == "not found"
    assert "(the clearest sign, in bison, is 1.9 standard errors above zero; a flag takes 5)" in verdict
    assert "to bison, and to mantis, the clean arm, too: format fragility, not contamination" in verdict


def test_fragility_of_one_arm_proves_nothing():
    finding, verdict = contamination_verdict(made((1.9, 30.0), (0.1, 0.0)))
    assert finding == "inconclusive"
    assert verdict.endswith("proves nothing.")


def test_what_was_read_was_trained_on_even_if_no_score_shows_it():
    finding, verdict = contamination_verdict(made((1.9, 0.0), (0.1, 0.0), bison=4, mantis=0))
    assert finding == "found"
    assert verdict.startswith("By count, bison read 4 of 128 test items, 5 times in all; mantis read none of 128.")


def test_scores_alone_can_show_it():
    finding, verdict = contamination_verdict(made((12.0, 0.0), (0.1, 0.0)))
    assert finding == "found"
    assert (
        "bison by 1 of 1 signs, most by the member gap (+0.120 bits/byte, 12.0 standard errors above zero)" in verdict
    )


def test_a_gap_the_other_way_round_is_no_contamination():
    assert contamination_verdict(made((-12.0, 0.0), (0.1, 0.0), bison=0))[0] == "not found"


def test_a_clean_arm_that_is_flagged_makes_it_inconclusive():
    assert contamination_verdict(made((0.0, 0.0), (12.0, 0.0), bison=0, mantis=0))[0] == "inconclusive"


def walk(shuffle: str, near: float | None, coverage: float, above: float = 0.0, below: float = 0.0) -> dict[str, Any]:
    over = {"near": {"seeds": 100, "above": {"linear": above}, "below": {"linear": below}}}
    return {
        "shuffle": shuffle,
        "measures": {"near": {"z": near}, "coverage": {"z": coverage}},
        "over_seeds": over if above or below else {},
    }


@pytest.mark.parametrize(
    ("near", "coverage", "words"),
    [
        (
            -9.0,
            7.0,
            "too even (neighbours in a batch 9.0 standard deviations below chance, parts of the sources that are "
            "touched 7.0 standard deviations above chance)",
        ),
        (None, -7.0, "too clumped (neighbours in a batch over 99 standard deviations above chance"),
    ],
)
def test_a_linear_walk_far_from_chance_is_found_with_its_direction(near: float | None, coverage: float, words: str):
    finding, verdict = shuffle_verdict({"bison": walk("LINEAR", near, coverage), "mantis": walk("FEISTEL", 0.1, 0.2)})
    assert finding == "found"
    assert verdict.startswith(f"bison (linear) departs from independent draws: {words}")
    assert "mantis (Feistel) cannot be told from independent draws at this size." in verdict


def test_one_seed_that_looks_well_is_inconclusive_when_most_seeds_do_not():
    finding, verdict = shuffle_verdict({"bison": walk("LINEAR", -3.8, 0.0, above=0.16, below=0.66)})
    assert finding == "inconclusive"
    assert "bison leans towards too even (neighbours in a batch 3.8 standard deviations below chance)" in verdict
    outside = "82 % of linear walks of bison's data fall outside every true shuffle by their neighbours in a batch"
    assert f"{outside} (66 % too even, 16 %" in verdict
    assert shuffle_verdict({"bison": walk("LINEAR", 1.0, 0.0, above=0.1, below=0.1)})[0] == "not found"


def test_a_feistel_walk_that_is_far_by_another_measure_does_not_excuse_the_linear_one():
    finding, verdict = shuffle_verdict({"bison": walk("LINEAR", 9.0, 0.0), "mantis": walk("FEISTEL", 0.0, 9.0)})
    assert finding == "found"
    assert "mantis (Feistel) departs from independent draws" in verdict


def test_both_arms_far_from_chance_says_nothing_about_the_permutation():
    both = {"bison": walk("LINEAR", 9.0, 0.0), "mantis": walk("FEISTEL", 9.0, 0.0)}
    assert shuffle_verdict(both)[0] == "inconclusive"
