import pytest

from marin.report import words
from marin.store.numbers import write_count


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (999, "999"), (9999, "9.999K"), (12_345, "12.35K"), (6_389_760, "6.39M"), (1.074e12, "1.074T")],
)
def test_count(value: float, text: str) -> None:
    assert write_count(value) == text


def test_signs() -> None:
    assert words.signed(0.5, 2) == "+0.50"
    assert words.signed(-0.001, 2) == "0.00"
    assert words.signed(-1.25, 1) == "−1.2"
    assert words.fixed(-3, 0) == "−3"


def test_facts() -> None:
    assert words.fact({"too_short": 31_000, "note": None}) == "too_short 31,000, note none"
    assert words.fact([True, 0.25, "x"]) == "yes, 0.25, x"


def test_ticks() -> None:
    values = (0, 0.5, 9000, 25_000, 5_400_000, 6e9, -0.25)
    assert [words.tick(v) for v in values] == [
        "0", "0.5", "9,000", "25K", "5.4M", "6B", "−0.25",
    ]  # fmt: skip
