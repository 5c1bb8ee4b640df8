"""Exact duplicates found over shards and buckets equal the result of one pass over everything in order."""

import re

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from marin.text.exact import keys, long_paragraphs, repeats, whole, without_repeats

TEXTS = st.lists(st.lists(st.sampled_from("abcdef"), max_size=12), min_size=1, max_size=6)


@settings(max_examples=60, deadline=None)
@given(TEXTS, st.integers(1, 5))
def test_whole_texts_repeat_where_one_came_before(shards: list[list[str]], buckets: int) -> None:
    found = [keys(shard, whole, buckets) for shard in shards]
    again = [repeats([shard[bucket] for shard in found]) for bucket in range(buckets)]
    seen: set[str] = set()
    for at, shard in enumerate(shards):
        places = sorted(np.concatenate([bucket[at] for bucket in again]).tolist())
        expected: list[int] = []
        for place, text in enumerate(shard):
            expected += [place] if text in seen else []
            seen.add(text)
        assert places == expected


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.sampled_from(["a b", "c d", "a", "", "e f g"]), max_size=6).map("\n\n".join), max_size=8))
def test_long_paragraphs_are_taken_out_where_one_came_before(texts: list[str]) -> None:
    [gone] = repeats(keys(texts, lambda text: long_paragraphs(text, 2), 1))
    seen: set[str] = set()
    place, held = 0, set(gone.tolist())
    for text in texts:
        kept: list[str] = []
        for each in re.split(r"\n{2,}", text):
            if len(each.split()) < 2 or each not in seen:
                kept.append(each)
            if len(each.split()) >= 2:
                seen.add(each)
        shorter, removed, place = without_repeats(text, held, place, 2)
        assert shorter == "\n\n".join(kept)
        assert removed == len(re.split(r"\n{2,}", text)) - len(kept)


def test_paragraphs_of_few_words_stay() -> None:
    texts = ["A paragraph of five words.\n\nTitle", "Title\n\nA paragraph of five words.\n\nNew: a third one here."]
    [gone] = repeats(keys(texts, lambda text: long_paragraphs(text, 5), 1))
    assert gone.tolist() == [1]
    assert without_repeats(texts[1], {1}, 1, 5) == ("Title\n\nNew: a third one here.", 1, 3)
