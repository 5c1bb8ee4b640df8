"""The check in the tests of operators (tests.operators.running) does see a missed function."""

from marin.text.normalize import light
from operators.datasets.rehearsal.math_problems import GenerateItems
from operators.datasets.rehearsal.problems import Split
from tests.fingerprint.traced import executed, unseen


def test_an_executed_function_outside_of_the_fingerprint_is_named():
    step = GenerateItems(count=3, seed=1, split=Split.TRAIN)
    with executed() as codes:
        light("A  text")
    assert "marin.text.normalize.light" in unseen(step, codes)
