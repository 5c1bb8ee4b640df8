import pytest

from marin.report.page.drawing import units


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (0, "0 s"),
        (0.01, "< 0.1 s"),
        (0.42, "0.4 s"),
        (9.96, "10 s"),
        (59.7, "1 m 00 s"),
        (125, "2 m 05 s"),
        (11_220, "3 h 07 m"),
    ],
)
def test_seconds(value: float | None, text: str) -> None:
    assert units.seconds(value).replace(units.NARROW, " ") == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (0, "0"),
        (9999, "9,999"),
        (12_345, "12.3 k"),
        (6_389_760, "6.39 M"),
        (1.074e12, "1.07 T"),
        (3.2e21, "3.20e+21"),
    ],
)
def test_count(value: float | None, text: str) -> None:
    assert units.count(value).replace(units.NARROW, " ") == text


def test_signs() -> None:
    assert units.signed(0.5, 2) == "+0.50"
    assert units.signed(-0.001, 2) == "0.00"
    assert units.signed(-1.25, 1) == "−1.2"
    assert units.fixed(-3, 0) == "−3"


def test_storage() -> None:
    assert units.storage(512).replace(units.NARROW, " ") == "512 B"
    assert units.storage(3 << 30).replace(units.NARROW, " ") == "3.0 GiB"


def test_facts() -> None:
    assert units.fact({"too_short": 31_000, "note": None}) == "too_short 31,000, note none"
    assert units.fact([True, 0.25, "x"]) == "yes, 0.25, x"


def test_ticks() -> None:
    values = (0, 0.5, 9000, 25_000, 5_400_000, 6e9, -0.25)
    assert [units.tick(v).replace(units.NARROW, " ") for v in values] == [
        "0", "0.5", "9,000", "25 k", "5.4 M", "6 B", "−0.25",
    ]  # fmt: skip
