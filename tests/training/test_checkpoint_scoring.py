"""The scorer against Levanter's own loss, on small random checkpoints."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from marin.errors import InputError, UnreadableCheckpoint
from marin.store.files.directory import Directory
from marin.training.model import ModelShape
from tests.training.runs import LLAMA, QWEN3, VOCABULARY

# Levanter's own imports warn.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module", params=[LLAMA, QWEN3], ids=["llama", "qwen3"])
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Directory:
    from marin.training.scoring import random_checkpoint

    model: ModelShape = request.param
    directory = Directory(str(tmp_path_factory.mktemp("checkpoint")))
    random_checkpoint(directory, model, VOCABULARY, seed=1)
    return directory


TOKENS = np.random.default_rng(0).integers(0, VOCABULARY, (3, 20), dtype=np.int32)


def test_probabilities_sum_to_one_over_the_vocabulary(written: Directory) -> None:
    from marin.training.scoring import load_scorer

    every = np.repeat(TOKENS[:1, :6], VOCABULARY, axis=0)
    every[:, -1] = np.arange(VOCABULARY)
    scored = load_scorer(written)(every)
    assert scored.dtype == np.float32
    assert np.exp(scored[:, -1].astype(float)).sum() == pytest.approx(1, abs=1e-5)
    assert np.ptp(scored[:, 0]) < 1e-6


def test_neither_padding_nor_company_changes_a_score(written: Directory) -> None:
    from marin.training.scoring import load_scorer

    score = load_scorer(written)
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
    from marin.training.scoring import load_scorer

    facts = checkpoint.read_facts(written)
    model = build_model(facts.model, facts.vocabulary, jax.random.PRNGKey(0))
    model = load_checkpoint(model, written.url, subpath="model", axis_mapping={}, mesh=jax.make_mesh((1,), ("data",)))
    padded = np.zeros((1, 32), np.int32)
    padded[0] = np.resize(TOKENS[0], 32)
    named = haliax.named(padded, ("batch", "position"))
    example = LmExample(tokens=named, loss_weight=haliax.ones(named.axes))
    loss = float(model.compute_next_token_loss(example, key=None).item())
    assert -load_scorer(written)(padded).mean() == pytest.approx(loss, rel=1e-5)


def test_what_the_model_cannot_score_is_refused(written: Directory) -> None:
    from marin.training.scoring import load_scorer

    score = load_scorer(written)
    with pytest.raises(InputError, match="33 tokens"):
        score(np.zeros((1, 33), np.int32))
    with pytest.raises(InputError, match="knows 0 to 63"):
        score(np.full((1, 4), 64, np.int32))


def test_a_directory_without_checkpoint_is_an_error_of_ours(tmp_path: Path) -> None:
    from marin.training.scoring import load_scorer

    with pytest.raises(UnreadableCheckpoint, match="no complete checkpoint"):
        load_scorer(Directory(str(tmp_path)))
