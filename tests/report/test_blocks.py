"""Blocks of a section as they are drawn: numbers to the right, what wraps, and where in its cell an interval lies."""

import pytest

from marin.report import words
from marin.report.page.render import DrawnCell, drawn_table
from marin.report.section import Cell, Column, Difference, Heading, Interval, Share, Table, Tag, Tone


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (["1", "−0.25", "+1.2e-3", ""], "number"),
        (["12 %", "3%", "1,234"], "number"),
        (["0.096 ± 0.0011", "—"], "number"),
        (["1.2 k", "3 s"], "number"),
        (["beyond measure", "+3.1"], "short"),
        (["bison", "mantis"], "short"),
        (["3 of 6 sequences"], "short"),
        (["3 of 6 sequences of all_math between steps"], "long"),
        (["0.2344*", "0.2031"], "number"),
        (["", ""], "short"),
    ],
)
def test_kind_of_a_column(cells: list[str], kind: str) -> None:
    assert drawn_table(Table(title="t", columns=[Column("a")], rows=[[cell] for cell in cells])).kinds == [kind]


def test_negative_numbers_get_a_real_minus_and_words_keep_their_hyphens() -> None:
    assert words.minus("z -3.5 (without tags -0.490), 160-192, top-1, gpt-4") == (
        "z −3.5 (without tags −0.490), 160-192, top-1, gpt-4"
    )


def column(*cells: Cell, **about: object) -> list[DrawnCell]:
    table = Table(title="t", columns=[Column("a", **about)], rows=[[cell] for cell in cells])  # type: ignore[arg-type]
    return [row[0] for row in drawn_table(table).rows if not isinstance(row, Heading)]


def places(cell: DrawnCell) -> dict[str, float]:
    return {
        name.strip("-"): float(value) for name, _, value in (each.partition(":") for each in cell.places.split(";"))
    }


def test_intervals_of_one_scale_share_an_axis_that_holds_zero_and_the_band() -> None:
    first, second, other = column(
        Interval(value=2.0, low=1.0, high=3.0, scale="bits"),
        Interval(value=4.0, scale="bits"),
        Interval(value=200.0, low=100.0, high=300.0, scale="share"),
        band=1.0,
    )
    at = places(first)
    assert at["z"] == places(second)["z"]
    assert at["m"] < at["z"] < at["n"] == at["a"] < at["v"] < at["b"] < places(second)["v"] < 100
    assert (first.text, first.more) == ("+2.000", "[+1.000, +3.000]")
    assert second.more == ""
    assert places(other)["b"] == pytest.approx(98, abs=1)


def test_lower_is_better_is_drawn_with_better_to_the_right_and_printed_as_it_is() -> None:
    better, worse = column(
        Interval(value=-0.5, low=-0.6, high=-0.4, mirrored=True), Interval(value=0.1, low=0.0, high=0.2, mirrored=True)
    )
    assert places(better)["v"] > places(better)["z"] > places(worse)["v"]
    assert (better.text, better.more) == ("−0.500", "[−0.600, −0.400]")


def test_shares_and_differences_are_bars_and_tags_have_a_tone() -> None:
    half, whole = column(Share(value=0.25), Share(value=0.5), digits=1)
    assert (half.text, places(half)["w"], places(whole)["w"]) == ("25.0", 50.0, 100.0)
    less, more = column(Difference(value=-1.0), Difference(value=3.0))
    assert places(less)["a"] < places(less)["b"] == places(more)["a"] == places(more)["z"]
    assert column(Tag("worse", Tone.BAD))[0].kind == "told tone-bad"


def test_what_nobody_knows_draws_nothing() -> None:
    [unknown, endless] = column(Interval(value=float("nan")), Interval(value=1.0, low=float("-inf"), high=2.0))
    assert (unknown.text, unknown.places) == ("–", "")
    assert endless.more == ""
    with pytest.raises(ValueError, match="a row of 't' has 2 cells; wanted 1"):
        drawn_table(Table(title="t", columns=[Column("a")], rows=[["1", "2"]]))
