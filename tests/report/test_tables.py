"""Small tables: numbers to the right, texts to the left."""

import pytest

from marin.report.page import tables, units
from marin.report.page.model import Table


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (["1", "−0.25", "+1.2e-3", ""], "number"),
        (["12 %", "3%", "1,234"], "number"),
        (["0.096 ± 0.0011", "—"], "number"),
        (["1.2 k", "3 s"], "number"),
        (["beyond measure", "+3.1"], ""),
        (["bison", "mantis"], ""),
        (["3 of 6 sequences"], ""),
        (["3 of 6 sequences of all_math between steps"], "long"),
        (["", ""], ""),
    ],
)
def test_kind_of_a_column(cells: list[str], kind: str) -> None:
    assert tables.kinds(Table(title="t", columns=["a"], rows=[[cell] for cell in cells])) == [kind]


def test_negative_numbers_get_a_real_minus_and_words_keep_their_hyphens() -> None:
    assert units.minus("z -3.5 (without tags -0.490), 160-192, top-1, gpt-4") == (
        "z −3.5 (without tags −0.490), 160-192, top-1, gpt-4"
    )
