"""Test near and exact duplicates against brute force over all pairs."""

import random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from marin.text.near import near_duplicates, similarity
from marin.text.near_keys import keys
from marin.text.near_pairs import COPY, LEADERS, first_copies, proposals
from marin.text.near_rule import NearDuplicates
from marin.text.normalize import light_words
from marin.text.shingles import shingle_set

VOCABULARY = [f"w{n}" for n in range(4000)]


def shingles_of(text: str, n: int) -> set[tuple[str, ...]]:
    words = light_words(text)
    n = min(n, len(words))
    return {tuple(words[start : start + n]) for start in range(len(words) - n + 1)} if words else set()


def brute_force(texts: list[str], rule: NearDuplicates) -> list[int | None]:
    """Return the first earlier kept text that each text copies, by real similarity with all kept texts."""
    kept: dict[int, set[tuple[str, ...]]] = {}
    copies: list[int | None] = []
    for position, text in enumerate(texts):
        mine = shingles_of(text, rule.words)
        found = None
        for earlier, theirs in kept.items():
            shared = len(mine & theirs)
            if shared and (shared / len(mine | theirs) >= rule.jaccard or shared / len(mine) >= rule.containment):
                found = earlier
                break
        if found is None:
            kept[position] = mine
        copies.append(found)
    return copies


def edited(words: list[str], edits: int, chance: random.Random) -> list[str]:
    words = list(words)
    for _ in range(edits):
        words[chance.randrange(len(words))] = chance.choice(VOCABULARY)
    return words


def test_near_duplicates_agree_with_brute_force() -> None:
    chance = random.Random(7)
    texts: list[str] = []
    for _ in range(60):
        words = chance.choices(VOCABULARY, k=chance.randrange(60, 400))
        texts += [" ".join(edited(words, edits, chance)) for edits in (0, 1, 2, 4, 8, 30)]
    chance.shuffle(texts)
    rule = NearDuplicates()
    expected = brute_force(texts, rule)
    found = [None if copy is None else copy.of for copy in near_duplicates(texts, rule)]
    removed = sum(copy is not None for copy in expected)
    agreed = sum(one == other for one, other in zip(found, expected, strict=True))
    assert removed > 80
    # A missed proposal (probability .002 at similarity .8) may change a few; nothing is removed wrongly.
    assert agreed >= len(texts) - 3
    for position, (copy, text) in enumerate(zip(near_duplicates(texts, rule), texts, strict=True)):
        if copy is not None:
            assert copy.of < position
            assert found[copy.of] is None  # only copies of kept texts: no closure
            mine, theirs = shingles_of(text, 5), shingles_of(texts[copy.of], 5)
            assert copy.jaccard == len(mine & theirs) / len(mine | theirs)
            assert copy.containment == len(mine & theirs) / len(mine)
            assert copy.jaccard >= rule.jaccard or copy.containment >= rule.containment


def test_a_chain_is_not_closed_over() -> None:
    """a~b and b~c, but a and c are unlike: b goes, c stays."""
    words = VOCABULARY[:300]
    a, b, c = (" ".join(VOCABULARY[1000 : 1000 + changed] + words[changed:]) for changed in (0, 28, 56))
    assert [copy and copy.of for copy in near_duplicates([a, b, c], NearDuplicates())] == [None, 0, None]
    assert [copy and copy.of for copy in near_duplicates([b, c], NearDuplicates())] == [None, 0]


def test_the_longer_later_text_stays() -> None:
    short, long = " ".join(VOCABULARY[:100]), " ".join(VOCABULARY[:150])
    assert [copy is None for copy in near_duplicates([short, long], NearDuplicates())] == [True, True]
    (_, copy) = near_duplicates([long, short], NearDuplicates())
    assert copy is not None
    assert copy.containment == 1.0


def test_texts_without_words_stay_and_short_ones_must_be_equal() -> None:
    texts = ["", "!!!", "", "two words", "Two words!", "two wards"]
    assert [copy and copy.of for copy in near_duplicates(texts, NearDuplicates())] == [None, None, None, None, 3, None]


def test_more_texts_than_a_chunk() -> None:
    texts = [" ".join(VOCABULARY[n : n + 20]) for n in range(0, 1500, 1)] + [" ".join(VOCABULARY[:20])]
    copies = list(near_duplicates(texts, NearDuplicates(jaccard=1.0, containment=1.0)))
    assert [position for position, copy in enumerate(copies) if copy] == [1500]
    assert copies[1500] is not None
    assert copies[1500].of == 0


def test_an_excerpt_of_an_earlier_text_goes() -> None:
    """An excerpt is much too unlike the whole text for MinHash."""
    chance = random.Random(11)
    texts = [" ".join(chance.choices(VOCABULARY, k=chance.randrange(600, 3000))) for _ in range(60)]
    lengths = [chance.randrange(100, 300) for _ in texts]
    starts = [chance.randrange(300) for _ in texts]
    excerpts = [
        " ".join(text.split()[start : start + length])
        for text, start, length in zip(texts, starts, lengths, strict=True)
    ]
    copies = list(near_duplicates(texts + excerpts, NearDuplicates()))
    assert not any(copies[:60])
    found = [copy for copy in copies[60:] if copy]
    assert len(found) >= 59  # .998 at 100 words
    assert {copy.containment for copy in found} == {1.0}
    assert all(copy is None for copy in near_duplicates(excerpts + texts, NearDuplicates()))
    bands_only = list(near_duplicates(texts + excerpts, NearDuplicates(containment=1.1)))
    assert not any(bands_only)


def test_what_is_in_all_texts_does_not_pair_all_of_them() -> None:
    chance = random.Random(12)
    footer = " ".join(chance.choices(VOCABULARY, k=200))
    texts = [" ".join(chance.choices(VOCABULARY, k=300)) + " " + footer for _ in range(150)]
    texts += [" ".join(text.split()[:320]) for text in texts[100:120]]  # longer ones hold all but a few of their words
    rule = NearDuplicates()
    sets = [shingle_set(text, rule.words) for text in texts]
    held = keys(sets, np.arange(len(sets), dtype=np.uint64), rule)
    [proposed] = proposals([held], 0, rule)
    shared = [int(count) - 1 for count in np.unique(held["key"], return_counts=True)[1]]
    assert proposed.crowded == sum(max(count - LEADERS, 0) for count in shared) > 100
    assert len(proposed.pairs) <= LEADERS * len(texts) * 2 < len(texts) ** 2 / 2
    copies = [copy and copy.of for copy in near_duplicates(texts, rule)]
    assert copies == [None] * 150 + list(range(100, 120))


def test_only_the_first_of_a_pair_that_stays_counts() -> None:
    """Test by shards: 1 copies 0; 2 copies 1, which goes, so 2 stays; 3 copies 1 and 2; 4 copies 2 and 3."""
    nothing = [0, 0]
    held = [(1, 0), (2, 1), (3, 1), (3, 2), (4, 2), (4, 3)]
    copies = np.array([(later, earlier, nothing, 1.0, 1.0) for later, earlier in held], COPY)
    for cuts in ([], [1], [2], [1, 2, 4]):
        removed = np.concatenate(list(first_copies(np.split(copies, cuts))))
        assert removed[["later", "earlier"]].tolist() == [(1, 0), (3, 2), (4, 2)]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sampled_from("abcdef"), max_size=40), st.lists(st.sampled_from("abcdef"), max_size=40))
def test_similarity_is_exact(one: list[str], other: list[str]) -> None:
    mine, theirs = shingles_of(" ".join(one), 2), shingles_of(" ".join(other), 2)
    jaccard = len(mine & theirs) / len(mine | theirs) if mine and theirs else 0.0
    containment = len(mine & theirs) / len(mine) if mine and theirs else 0.0
    assert similarity(shingle_set(" ".join(one), 2), shingle_set(" ".join(other), 2)) == (jaccard, containment)
