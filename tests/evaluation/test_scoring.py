import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marin.errors import BadField, NonFiniteLoss
from marin.evaluation.encoder import OffsetEncoder
from marin.evaluation.scoring import Scoring, Windows, bits_per_byte, windows, windows_from_end
from marin.store.files.directory import Directory
from tests.evaluation.models import Bytes, NGram, Pairs, Rows, unigram
from tests.shared_data import shared

LOGITS = np.random.default_rng(0).normal(size=257)
LOGPROBS = LOGITS - np.log(np.exp(LOGITS).sum())


def by_hand(text: str) -> float:
    return float(-sum(LOGPROBS[b] for b in text.encode()) / math.log(2))


def scoring(model=None, encoder=None, window: int = 16, stride: int = 12) -> Scoring:
    return Scoring(model or unigram(LOGITS), encoder or Bytes(), window, stride)


def test_documents_match_the_sum_of_token_probabilities_at_any_length():
    texts = ["a", "two words", "x" * 15, "y" * 16, "a longer text, of many windows, é and 漢字 too. " * 7]
    for text, scored in zip(texts, scoring().documents(texts), strict=True):
        assert scored.bytes == len(text.encode())
        assert scored.bits == pytest.approx(by_hand(text), rel=1e-6)


def test_stripped_text_is_scored_as_if_it_had_never_had_the_whitespace():
    model = NGram(4).train(["the cat sat on the mat \n", "a dog sat "])
    texts = ["the cat sat on the mat and the dog sat \n\n", "no space", "short "]
    raw, alone = scoring(model).documents(texts), scoring(model).documents([t.rstrip() for t in texts])
    for with_space, without in zip(raw, alone, strict=True):
        assert with_space.stripped_bits == pytest.approx(without.bits, rel=1e-6)
        assert with_space.stripped_bytes == without.bytes
    assert raw[1].bits == raw[1].stripped_bits
    # Also where stripping changes the last token, not only drops some.
    text = "abc "
    pairs = Scoring(unigram(np.arange(Pairs.vocabulary) / 1000), Pairs(), 8, 4)
    assert pairs.documents([text])[0].stripped_bits == pytest.approx(pairs.documents(["abc"])[0].bits, rel=1e-6)


def test_a_window_gives_every_token_the_context_that_the_stride_promises():
    """A model that answers with its position in the window shows what each token saw."""

    def positions(tokens: np.ndarray) -> np.ndarray:
        return -np.broadcast_to(np.arange(1, tokens.shape[1]), (tokens.shape[0], tokens.shape[1] - 1)).astype(float)

    asked = Scoring(Rows(positions), Bytes(), 16, 12).continuations([("", "z" * 50), ("y" * 45, "z" * 5)])
    whole, tail = (np.round(one.bits * math.log(2)).astype(int) for one in asked)
    assert list(whole[:2]) == [1, 2]
    assert whole[4:].min() == 16 - 12
    assert len(whole) == 50
    # Laid from the end, the last tokens see all that fits, and in one window.
    assert list(tail) == [11, 12, 13, 14, 15] == list(whole[-5:])


@pytest.mark.parametrize("laid", [windows, windows_from_end])
@given(st.integers(1, 200), st.integers(0, 199), st.integers(2, 40), st.data())
def test_windows_score_every_wanted_prediction_once(laid: Windows, tokens: int, first: int, window: int, data):
    stride = data.draw(st.integers(1, window - 1))
    first = min(first, tokens - 1)
    scored: list[int] = []
    for left, begin, end in laid(tokens, first, window, stride):
        assert left <= begin < end <= left + window - 1
        assert left == 0 or begin - left + 1 >= window - stride
        scored += range(begin, end)
    assert sorted(scored) == list(range(first, tokens - 1))


def test_a_continuation_is_what_the_whole_text_costs_more_than_its_prompt():
    model = NGram(5).train(["Question: how many? Answer: 12 apples."] * 3)
    asked = scoring(model, window=64, stride=32)
    prompt, gold = "Question: how many? Answer:", " 12 apples."
    (scored,) = asked.continuations([(prompt, gold)])
    whole, head = asked.documents([prompt + gold, prompt])
    assert scored.total == pytest.approx(whole.bits - head.bits, rel=1e-6)
    assert scored.total < 3 < asked.continuations([(prompt, " 99 pears..")])[0].total


@pytest.mark.parametrize(("window", "same_length"), [(64, False), (16, True)])
def test_candidates_of_one_prompt_are_scored_as_if_each_were_alone(window: int, same_length: bool):
    model = NGram(6).train(["Q: 2+2? A: 2+2=<<2+2=4>>4 so 4"] * 2)
    golds = [" 2+2=<<2+2=4>>4 so 4", " 2+2=<<2+2=5>>5 so 5", " 2+2=<<2+2=4>>4 so 4 and more", " none", ""]
    pairs = [("Q: 2+2? A:", gold) for gold in golds if len(gold) == len(golds[0]) or not same_length]
    asked = scoring(model, window=window)
    for pair, scored in zip(pairs, asked.continuations(pairs), strict=True):
        (alone,) = asked.continuations([pair])
        assert np.allclose(scored.bits, alone.bits)
        assert (scored.starts.tolist(), scored.ends.tolist()) == (alone.starts.tolist(), alone.ends.tolist())
        assert len(scored.bits) == len(pair[1])


def test_a_token_that_straddles_the_boundary_counts_for_the_continuation():
    asked = Scoring(unigram(np.arange(Pairs.vocabulary) / 1000), Pairs(), 8, 4)
    (scored,) = asked.continuations([("abc", "defg")])  # tokens ab|cd|ef|g
    assert len(scored.bits) == 3
    assert list(scored.starts) == [0, 1, 3]
    assert list(scored.ends) == [1, 3, 4]


@pytest.mark.parametrize("encoder", [Bytes(), Pairs()])
def test_bits_of_the_parts_add_up_to_the_bits_of_the_whole(encoder: Bytes | Pairs):
    logits = np.random.default_rng(1).normal(size=encoder.vocabulary)
    (scored,) = scoring(unigram(logits), encoder).continuations([("ab", "16-7=<<16-7=9>>9 eggs")])
    cuts = [0, 5, 15, 16, 21]
    parts = [scored.within(a, b) for a, b in itertools.pairwise(cuts)]
    assert sum(parts) == pytest.approx(scored.total)
    assert scored.within(3, 3) == 0


def test_several_tokens_of_one_character_all_count_for_it():
    (scored,) = scoring().continuations([("a", "b漢c")])
    assert scored.within(1, 2) == pytest.approx(by_hand("漢"), rel=1e-6)
    assert scored.within(0, 1) == pytest.approx(by_hand("b"), rel=1e-6)


def test_bits_per_byte_weighs_by_bytes():
    assert bits_per_byte([10, 1000], [10, 100]) == pytest.approx(1010 / 110)


def test_a_token_without_a_finite_probability_is_an_error_that_shows_the_text():
    def broken(tokens: np.ndarray) -> np.ndarray:
        return np.where(tokens[:, 1:] == ord("!"), -np.inf, -1.0)

    with pytest.raises(NonFiniteLoss, match="bang!"):
        scoring(Rows(broken)).documents(["fine", "bang!"])
    with pytest.raises(BadField, match="stride 16"):
        scoring(stride=16)


def test_a_real_tokenizer_covers_the_text_and_its_answer_tokens(tmp_path):
    where = Directory(str(tmp_path))
    where.write_bytes("tokenizer.json", (shared("gpt2-tokenizer") / "tokenizer.json").read_bytes())
    where.write_text("tokenizer_config.json", '{"eos_token": "<|endoftext|>"}')
    encoder = OffsetEncoder(where)
    assert encoder.start == 50256
    text = "Answer: It costs 80,000+50,000=$<<80000+50000=130000>>130,000 — naïve 漢字.\n#### 130000"
    (encoded,) = encoder.encode([text])
    assert encoded.ends[-1] == len(text)
    assert encoder.decode(encoded.ids.tolist()) == text
    uniform = Scoring(unigram(np.zeros(encoder.vocabulary)), encoder, 128, 64)
    (scored,) = uniform.continuations([("Answer:", text[7:])])
    gold = text[7:]
    start = gold.index("<<")
    parts = (scored.within(0, start), scored.within(start, start + 20), scored.within(start + 20, len(gold)))
    assert sum(parts) == pytest.approx(scored.total)
    assert all(part > 0 for part in parts)
    tokens = len(encoder.encode([text])[0].ids) - len(encoder.encode(["Answer:"])[0].ids)
    assert scored.total == pytest.approx(tokens * math.log2(encoder.vocabulary), rel=1e-6)
