"""The scorer against Levanter's own loss, on small random checkpoints."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from marin.errors import InputError, UnreadableCheckpoint
from marin.evaluation.prefix_tree import Wanted
from marin.store.files.directory import Directory
from marin.training.model import Llama3Rope, ModelShape
from tests.training.runs import LLAMA, QWEN3, VOCABULARY, random_checkpoint

# Levanter's own imports warn.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


LONG_QWEN3 = dataclasses.replace(QWEN3, seq_len=128)
# Tied embeddings, stretched positions and heads of a width of their own.
OTHER = dataclasses.replace(
    LLAMA, rope=Llama3Rope(original=16), rope_theta=1e4, tied_embeddings=True, head_width=16, seq_len=128
)


@pytest.fixture(scope="module", params=[OTHER, LONG_QWEN3], ids=["llama", "qwen3"])
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Directory:
    model: ModelShape = request.param
    directory = Directory(str(tmp_path_factory.mktemp("checkpoint")))
    random_checkpoint(directory, model, VOCABULARY, seed=1)
    return directory


TOKENS = np.random.default_rng(0).integers(0, VOCABULARY, (3, 20), dtype=np.int32)


def test_probabilities_sum_to_one_over_the_vocabulary(written: Directory) -> None:
    from marin.training.scoring import load_model

    every = np.repeat(TOKENS[:1, :6], VOCABULARY, axis=0)
    every[:, -1] = np.arange(VOCABULARY)
    scored = load_model(written)(every)
    assert scored.dtype == np.float32
    assert np.exp(scored[:, -1].astype(float)).sum() == pytest.approx(1, abs=1e-5)
    assert np.ptp(scored[:, 0]) < 1e-6


def test_neither_padding_nor_company_changes_a_score(written: Directory) -> None:
    from marin.training.scoring import load_model

    score = load_model(written)
    together = score(TOKENS)
    assert together.shape == (3, 19)
    for row in range(3):
        assert np.allclose(score(TOKENS[row : row + 1, :11]), together[row, :10], atol=1e-5)


def test_the_mean_is_levanters_loss(written: Directory) -> None:
    import haliax
    import jax
    from levanter.checkpoint import load_checkpoint
    from levanter.models.lm_model import LmExample

    from marin.training import checkpoint
    from marin.training.levanter_model import build_model
    from marin.training.scoring import load_model

    facts = checkpoint.read_facts(written)
    model = build_model(facts.model, facts.vocabulary, jax.random.PRNGKey(0))
    model = load_checkpoint(model, written.url, subpath="model", axis_mapping={}, mesh=jax.make_mesh((1,), ("data",)))
    padded = np.zeros((1, 32), np.int32)
    padded[0] = np.resize(TOKENS[0], 32)
    named = haliax.named(padded, ("batch", "position"))
    example = LmExample(tokens=named, loss_weight=haliax.ones(named.axes))
    loss = float(model.compute_next_token_loss(example, key=None).item())
    assert -load_model(written)(padded).mean() == pytest.approx(loss, rel=1e-5)


def test_sequences_that_share_a_row_and_beginnings_are_scored_as_if_each_were_alone(written: Directory) -> None:
    from marin.training.scoring import load_model

    batches: list[None] = []
    model = load_model(written, batch_tokens=512, worked=lambda: batches.append(None))
    rng = np.random.default_rng(5)
    examples, wanted = rng.integers(0, VOCABULARY, 9), list[Wanted]()
    for _ in range(40):
        question = np.concatenate([examples, rng.integers(0, VOCABULARY, rng.integers(1, 9))])
        for _ in range(4):
            tokens = np.concatenate([question, rng.integers(0, VOCABULARY, rng.integers(1, 7))]).astype(np.int32)
            wanted.append(Wanted(tokens, len(question)))
    for one, scored in zip(wanted, model.continuations(wanted), strict=True):
        alone = model(one.tokens[None])[0, one.first - 1 :]
        assert np.allclose(scored.logprobs, alone, atol=2e-5)
    assert 1 < len(batches) < 10, "told once a batch"
    (best,) = model.continuations([Wanted(np.append(TOKENS[0, :9], greedy(model, TOKENS[0, :9])).astype(np.int32), 9)])
    assert best.greedy.all()
    assert not all(scored.greedy.all() for scored in model.continuations(wanted))


def greedy(model: Any, prompt: np.ndarray) -> int:
    """The likeliest token after a prompt, by asking for each in the vocabulary."""
    every = np.repeat(np.append(prompt, 0).astype(np.int32)[None], VOCABULARY, axis=0)
    every[:, -1] = np.arange(VOCABULARY)
    return int(model(every)[:, -1].argmax())


def test_generation_with_a_cache_says_token_for_token_what_it_says_without(written: Directory) -> None:
    from marin.training.scoring import load_model

    model, rng, most = load_model(written), np.random.default_rng(6), 12
    shared = rng.integers(0, VOCABULARY, 40)  # of which 32 are computed once
    alike = [np.append(shared, rng.integers(0, VOCABULARY, extra)).astype(np.int32) for extra in (1, 9, 4)]
    for prompts in (alike, [*alike, TOKENS[0, :7]]):
        made = model.generate(prompts, most, -1, lambda tokens: False)
        for prompt, tokens in zip(prompts, made, strict=True):
            assert len(tokens) == most
            for known in range(most):
                assert greedy(model, np.append(prompt, tokens[:known])) == tokens[known]
    end = made[0][3]
    assert model.generate(prompts[:1], most, end, lambda tokens: False) == [made[0][: made[0].index(end)]]


def test_what_is_drawn_follows_the_probabilities_and_the_seed(written: Directory) -> None:
    from marin.training.scoring import load_model

    model, count = load_model(written), 2000
    prompts, every = [TOKENS[0, :9]] * count, np.repeat(TOKENS[:1, :10], VOCABULARY, axis=0)
    every[:, -1] = np.arange(VOCABULARY)
    logprobs = model(every)[:, -1].astype(float)
    for temperature in (0.25, 1.0):
        wanted = np.exp(logprobs / temperature)
        wanted /= wanted.sum()
        drawn = model.generate(prompts, 1, -1, lambda _: False, temperature=temperature)
        shares = np.bincount(np.ravel(drawn), minlength=VOCABULARY) / count
        assert abs(shares - wanted).max() < 5 * np.sqrt(wanted.max() / count), "five standard errors"
    few = model.generate(prompts[:5], 12, -1, lambda _: False, temperature=1.0)
    assert len(set(map(tuple, few))) == 5
    assert model.generate(prompts[:5], 12, -1, lambda _: False, temperature=1.0) == few
    assert model.generate(prompts[:5], 12, -1, lambda _: False, temperature=1.0, seed=1) != few
    cold = model.generate(prompts[:2], 12, -1, lambda _: False, temperature=1e-5)
    assert cold == model.generate(prompts[:2], 12, -1, lambda _: False)


def test_no_text_attends_to_a_separator_that_none_attended_to_in_training(written: Directory, tmp_path: Path) -> None:
    """Against the whole model with the mask that trains it."""
    import haliax
    import jax
    from levanter.layers.attention import AttentionMask

    from marin.training import checkpoint
    from marin.training.batches import segments
    from marin.training.scoring import load_model

    eos = 3
    text = np.where(TOKENS[0] == eos, eos + 1, TOKENS[0])
    tokens = np.concatenate([[eos], text]).astype(np.int32)
    facts = dataclasses.replace(checkpoint.read_facts(written), settings={"separate_documents": True})
    apart = copied(written, tmp_path / "apart")
    checkpoint.complete(apart, facts)
    model = load_model(apart, eos=eos)
    [scored] = model.continuations([Wanted(tokens, 1)])
    named = haliax.named(tokens[None], ("batch", "position"))
    mask = AttentionMask.causal().with_segment_ids(haliax.named(segments(tokens[None], eos), ("batch", "position")))
    logits = model._model(named, mask).rearrange(("batch", "position", "vocab")).array[0, :-1]
    wanted = jax.nn.log_softmax(logits)[np.arange(len(text)), text]
    assert np.allclose(scored.logprobs, wanted, atol=1e-5)
    [attending] = load_model(written, eos=eos).continuations([Wanted(tokens, 1)])
    assert abs(attending.logprobs - scored.logprobs)[1:].max() > 1e-3, "the mask shows"
    [answer] = model.generate([tokens], 3, eos, lambda _: False)
    [alone] = model.generate([text.astype(np.int32)], 3, eos, lambda _: False)
    assert answer == alone


def copied(directory: Directory, folder: Path) -> Directory:
    shutil.copytree(directory.path, folder)
    return Directory(str(folder))


def test_what_the_model_cannot_score_is_refused(written: Directory) -> None:
    from marin.training.scoring import load_model

    score = load_model(written)
    long = score.length + 1
    with pytest.raises(InputError, match=f"{long} tokens"):
        score(np.zeros((1, long), np.int32))
    with pytest.raises(InputError, match=f"{long} tokens"):
        score.continuations([Wanted(np.zeros(long + 1, np.int32), 1)])
    with pytest.raises(InputError, match=f"{long} tokens"):
        score.generate([np.zeros(long - 4, np.int32)], 4, 0, lambda tokens: False)
    with pytest.raises(InputError, match="knows 0 to 63"):
        score(np.full((1, 4), 64, np.int32))


def test_a_directory_without_checkpoint_is_an_error_of_ours(tmp_path: Path) -> None:
    from marin.training.scoring import load_model

    with pytest.raises(UnreadableCheckpoint, match="no complete checkpoint"):
        load_model(Directory(str(tmp_path)))
