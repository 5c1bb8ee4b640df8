"""Test token stores in a bucket: a reader fetches only the requested ranges, and copies nothing."""

from __future__ import annotations

import dataclasses
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from marin.data.token_store import MASK, TokenStore, write_token_store
from marin.errors import TruncatedShard
from marin.store.files.directory import Directory
from marin.training.metrics import TIMINGS, read_metrics
from tests.support.servers import StoreServer
from tests.training.runs import SEQ_LEN, VOCABULARY, small_spec, train_here

LENGTHS = np.random.default_rng(7).integers(1, 400, 5000)  # documents; their tokens take two megabytes in all


def written(out: Directory) -> TokenStore:
    rng = np.random.default_rng(8)
    texts = (rng.integers(1, 300, length) for length in LENGTHS)
    meta = write_token_store(out, texts, vocabulary=300, tokenizer="t" * 64, eos=0)
    out.write_bytes(MASK, rng.integers(0, 2, meta.tokens).astype(np.uint8).tobytes())
    return TokenStore.open(out)


def test_a_reader_gets_what_a_local_one_gets_and_no_more_bytes(
    server: StoreServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MARIN_CACHE", str(tmp_path / "copies"))
    here = written(Directory(str(tmp_path / "here")))
    prefix = server.new_prefix()
    written(Directory(prefix))
    server.obey()
    there = TokenStore.open(Directory(prefix))
    assert sum(server.bytes_read(prefix).values()) < 140_000  # meta.json, and the offsets' first and last block

    wanted = np.random.default_rng(9).integers(0, here.sequences(64), 100)
    server.obey()
    assert np.array_equal(there.read(wanted, 64), here.read(wanted, 64))
    read = server.bytes_read(prefix)
    assert len(np.unique(wanted)) * 64 * 2 <= read["tokens.bin"] < 100_000 < here.meta.tokens * 2
    assert np.array_equal(there.counts(wanted, 64), here.counts(wanted, 64))

    # For distant sequences, the reader fetches exactly the requested bytes, once each.
    apart = np.arange(0, here.sequences(64), 400)
    server.obey()
    assert np.array_equal(there.read(np.append(apart[::-1], apart), 64)[: len(apart)], here.read(apart[::-1], 64))
    assert server.bytes_read(prefix) == {"tokens.bin": len(apart) * 64 * 2}

    positions = np.random.default_rng(10).integers(0, here.meta.tokens, (3, 500))
    assert np.array_equal(there.document_of(positions.ravel()), here.document_of(positions.ravel()))
    for start, stop in ((0, 7), (32_760, 32_780), (100_000, 250_000), (here.meta.tokens - 5, here.meta.tokens), (9, 9)):
        assert np.array_equal(there.tokens[start:stop], here.tokens[start:stop])
    assert [int(there.offsets[number]) for number in (0, 17, -1)] == [int(here.offsets[n]) for n in (0, 17, -1)]
    with pytest.raises(IndexError, match="there are"):
        there.read([here.sequences(64)], 64)
    assert not (tmp_path / "copies").exists()


def test_a_store_that_was_cut_short_in_a_bucket_is_refused(server: StoreServer) -> None:
    whole = Directory(server.new_prefix())
    store = written(whole)
    tokens, offsets = whole.read_bytes("tokens.bin"), whole.read_bytes("offsets.npy")
    whole.write_bytes("offsets.npy", offsets[:-8])
    with pytest.raises(TruncatedShard, match=r"offsets\.npy cannot be read"):
        TokenStore.open(whole)
    whole.write_bytes("offsets.npy", offsets)
    whole.write_bytes("tokens.bin", tokens[:-2])
    with pytest.raises(TruncatedShard, match=r"tokens\.bin: .* promises"):
        TokenStore.open(whole)
    with pytest.raises(TruncatedShard, match="cut short or replaced"):  # replaced while a reader has the store open
        _ = store.tokens[-40_000:]
    whole.write_bytes("tokens.bin", tokens)
    with pytest.raises(TruncatedShard, match="never finished"):
        TokenStore.open(whole / "none")


@pytest.mark.slow
@pytest.mark.parametrize("server", ["gs"], indirect=True)
def test_a_training_reads_the_rows_of_its_batches(server: StoreServer, tmp_path: Path) -> None:
    prefix = server.new_prefix()
    spec = small_spec(tmp_path / "here", end_step=6)
    for source in spec.sources:
        store = TokenStore.open(Directory(source.store))
        ends = [int(end) for end in store.offsets[:]]
        repeated = [np.array(store.tokens[start:end]) for start, end in pairwise(ends)] * 100
        for folder in (source.store, f"{prefix}/{source.name}"):
            write_token_store(Directory(folder), repeated, vocabulary=VOCABULARY, tokenizer="counting", eos=0)
    remote = dataclasses.replace(
        spec,
        sources=tuple(dataclasses.replace(source, store=f"{prefix}/{source.name}") for source in spec.sources),
        state=str(tmp_path / "there" / "state"),
    )
    server.obey()
    for each in (spec, remote):
        train_here(each)
    rows = [
        [
            {name: held for name, held in row.items() if name not in TIMINGS}
            for row in read_metrics(Directory(each.state))
        ]
        for each in (spec, remote)
    ]
    assert rows[0] == rows[1]
    read = server.bytes_read(prefix)["tokens.bin"]
    batches = spec.end_step * 8 * SEQ_LEN * 2  # each token once, or twice where a sequence is drawn twice
    gaps = spec.end_step * 8 * (1 << 12)
    assert batches <= read < batches + gaps < 2 * 400 * 100 * 20 * 2
