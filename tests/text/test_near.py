"""Near and exact duplicates against brute force over all pairs."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from marin.text.exact import Seen, duplicate_texts, without_seen_paragraphs
from marin.text.near import near_duplicates, similarity
from marin.text.near_rule import NearDuplicates
from marin.text.normalize import light_words
from marin.text.shingles import shingle_set

VOCABULARY = [f"w{n}" for n in range(4000)]


def shingles_of(text: str, n: int) -> set[tuple[str, ...]]:
    words = light_words(text)
    n = min(n, len(words))
    return {tuple(words[start : start + n]) for start in range(len(words) - n + 1)} if words else set()


def brute_force(texts: list[str], rule: NearDuplicates) -> list[int | None]:
    """The first earlier kept text that each copies, by real similarity with all of them."""
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
            assert found[copy.of] is None  # only copies of what stays: no closure
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


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sampled_from("abcdef"), max_size=40), st.lists(st.sampled_from("abcdef"), max_size=40))
def test_similarity_is_exact(one: list[str], other: list[str]) -> None:
    mine, theirs = shingles_of(" ".join(one), 2), shingles_of(" ".join(other), 2)
    jaccard = len(mine & theirs) / len(mine | theirs) if mine and theirs else 0.0
    containment = len(mine & theirs) / len(mine) if mine and theirs else 0.0
    assert similarity(shingle_set(" ".join(one), 2), shingle_set(" ".join(other), 2)) == (jaccard, containment)


def test_exact_duplicates() -> None:
    assert list(duplicate_texts(["a", "b", "a", "A", "b"])) == [False, False, True, False, True]
    seen = Seen()
    text = "A paragraph of five words.\n\nTitle\n\nAnother one of five words."
    assert without_seen_paragraphs(text, seen, 5) == (text, 0)
    again = "Title\n\nA paragraph of five words.\n\nNew: a third one here."
    assert without_seen_paragraphs(again, seen, 5) == ("Title\n\nNew: a third one here.", 1)
