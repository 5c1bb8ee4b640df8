"""Test that the rows of a token tree predict as each sequence does alone, and hold a shared beginning once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marin.evaluation.prefix_tree import Wanted, lay

SEQUENCES = st.lists(st.tuples(st.lists(st.integers(0, 2), min_size=2, max_size=12), st.integers(1, 11)), max_size=12)


def seen_from(row, place: int) -> list[int]:
    """The tokens that the one at a place may look at, by the rule that the model is given."""
    return [int(token) for at, token in enumerate(row.tokens) if at <= place < row.ends[at]]


@given(SEQUENCES, st.integers(12, 30))
def test_each_prediction_is_made_once_after_exactly_its_own_context(drawn, length: int):
    wanted = [Wanted(np.asarray(tokens, np.int32), min(first, len(tokens) - 1)) for tokens, first in drawn]
    made: dict[tuple[int, int], tuple[list[int], int]] = {}
    for row in lay(wanted, length):
        assert 0 < len(row.tokens) <= length
        for place, position in enumerate(row.positions):
            assert len(seen_from(row, place)) == position + 1
        for at, target, of, offset in zip(row.at, row.targets, row.of, row.offsets, strict=True):
            assert (of, offset) not in made
            made[of, offset] = (seen_from(row, at), target)
    for index, one in enumerate(wanted):
        for offset in range(len(one.tokens) - one.first):
            context, target = made.pop((index, offset))
            assert context == one.tokens[: one.first + offset].tolist()
            assert target == one.tokens[one.first + offset]
    assert not made


def test_a_shared_beginning_is_held_once_for_all_choices_and_items():
    examples, questions = list(range(100, 140)), ([1, 2, 3], [4, 5, 6])
    choices = ([7], [8], [9, 9], [10])
    wanted = [
        Wanted(np.asarray(examples + question + choice, np.int32), 43) for question in questions for choice in choices
    ]
    (row,) = lay(wanted, 64)
    # The last token of a choice is predicted and never read.
    assert len(row.tokens) == 40 + 2 * (3 + 1)
    assert len(row.targets) == 2 * 5
    with pytest.raises(ValueError, match="46 tokens does not fit into a row of 45"):
        list(lay([Wanted(np.zeros(47, np.int32), 1)], 45))
