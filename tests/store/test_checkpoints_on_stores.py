"""Checkpoints in object stores: Levanter writes and reads their arrays with a client of its own."""

from __future__ import annotations

import numpy as np
import pytest

from marin.store.files.directory import Directory
from tests.training.runs import LLAMA, VOCABULARY, random_checkpoint

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # Levanter's own imports warn


def test_a_checkpoint_is_written_and_read_where_a_bucket_is_no_host(remote_prefix: str) -> None:
    from marin.training import checkpoint
    from marin.training.scoring import load_model

    directory = Directory(f"{remote_prefix}/checkpoint")
    random_checkpoint(directory, LLAMA, VOCABULARY, seed=1)
    assert checkpoint.read_facts(directory).vocabulary == VOCABULARY
    scored = load_model(directory)(np.zeros((2, 20), np.int32))
    assert np.isfinite(scored).all()
    assert not np.allclose(scored, -np.log(VOCABULARY), atol=1e-6)
