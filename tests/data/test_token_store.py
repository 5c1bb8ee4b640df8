"""Test token stores: they return the written tokens, keep boundaries, and name damage."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marin.data.token_store import MASK, TokenStore, before_texts, one_tokenizer, write_token_store
from marin.errors import CorruptOutput, GarbledDocument, StarvedSource, TokenizerMismatch, TruncatedShard
from marin.store.files.directory import Directory

DOCUMENTS = [[5, 6, 7], [8], [], [9, 0], [1, 2, 3, 4, 5, 6]]


def written(folder: Path, documents: list[list[int]] = DOCUMENTS, vocabulary: int = 300) -> Directory:
    out = Directory(str(folder))
    write_token_store(out, documents, vocabulary=vocabulary, tokenizer="t" * 64, eos=0)
    return out


def test_documents_come_back_and_end_with_eos(tmp_path: Path):
    store = TokenStore.open(written(tmp_path))
    assert store.tokens.tolist() == [5, 6, 7, 0, 8, 0, 0, 9, 0, 1, 2, 3, 4, 5, 6, 0]
    assert store.offsets.tolist() == [0, 4, 6, 7, 9, 16]
    assert store.document_of(np.array([0, 3, 4, 6, 8, 15])).tolist() == [0, 0, 1, 2, 3, 4]
    assert (store.meta.tokens, store.meta.documents, store.meta.eos, store.meta.dtype) == (16, 5, 0, "uint16")


@given(st.lists(st.lists(st.integers(1, 70_000), max_size=9), min_size=1, max_size=9), st.integers(1, 7))
def test_windows_are_slices_of_the_stream(tmp_path_factory: pytest.TempPathFactory, documents, seq_len: int):
    store = TokenStore.open(written(tmp_path_factory.mktemp("store"), documents, vocabulary=70_001))
    stream = [token for document in documents for token in (*document, 0)]
    assert store.meta.dtype == "uint32"
    assert store.sequences(seq_len) == len(stream) // seq_len
    wanted = [stream[i * seq_len : (i + 1) * seq_len] for i in range(len(stream) // seq_len)]
    order = list(reversed(range(len(wanted))))
    read = store.read(order, seq_len)
    assert read.dtype == np.int32
    assert read.tolist() == [wanted[i] for i in order]


def test_the_bytes_are_a_function_of_the_documents(tmp_path: Path):
    one, two = written(tmp_path / "one"), written(tmp_path / "two")
    assert [one.read_bytes(name) for name in one.names()] == [two.read_bytes(name) for name in two.names()]
    assert one.names() == ["meta.json", "offsets.npy", "tokens.bin"]


def test_a_store_that_was_cut_short_is_refused(tmp_path: Path):
    out = written(tmp_path)
    whole = out.read_bytes("tokens.bin")
    out.write_bytes("tokens.bin", whole[:-2])
    with pytest.raises(TruncatedShard, match=r"tokens.bin: 30 bytes.*16 tokens = 32 bytes"):
        TokenStore.open(out)
    out.write_bytes("tokens.bin", whole)
    offsets = out.read_bytes("offsets.npy")
    out.write_bytes("offsets.npy", offsets[:-8])
    with pytest.raises(TruncatedShard, match=r"offsets\.npy"):
        TokenStore.open(out)
    (tmp_path / "offsets.npy").unlink()
    with pytest.raises(TruncatedShard, match=r"offsets\.npy is missing"):
        TokenStore.open(out)
    (tmp_path / "meta.json").unlink()
    with pytest.raises(TruncatedShard, match="never finished"):
        TokenStore.open(out)


def test_offsets_of_another_store_are_refused(tmp_path: Path):
    one, two = written(tmp_path / "one"), written(tmp_path / "two", DOCUMENTS[:3])
    one.write_bytes("offsets.npy", two.read_bytes("offsets.npy"))
    with pytest.raises(TruncatedShard, match="promises 5 documents"):
        TokenStore.open(one)


def test_a_garbled_description_is_refused(tmp_path: Path):
    out = written(tmp_path)
    good = json.loads(out.read_bytes("meta.json"))
    for bad in ("{", "[]", json.dumps({**good, "extra": 1}), json.dumps({**good, "dtype": "int8"})):
        out.write_text("meta.json", bad)
        with pytest.raises(CorruptOutput, match=r"meta\.json"):
            TokenStore.open(out)


def test_ids_that_cannot_be_written(tmp_path: Path):
    with pytest.raises(GarbledDocument, match="document 1 holds token id 300"):
        written(tmp_path, [[1], [2, 300, 3]])
    with pytest.raises(GarbledDocument, match="token id -1"):
        written(tmp_path, [[-1]])
    with pytest.raises(StarvedSource, match="no documents"):
        written(tmp_path, [])
    with pytest.raises(GarbledDocument, match="eos id is 0"):
        written(tmp_path, [[1]], vocabulary=0)


def test_windows_that_are_not_there(tmp_path: Path):
    store = TokenStore.open(written(tmp_path))
    assert store.sequences(5) == 3
    for index in (3, -1):
        with pytest.raises(IndexError, match="there are 3 of 5"):
            store.read([index], 5)


def test_one_mixture_has_one_tokenizer():
    assert one_tokenizer({"web": "aa", "code": "aa"}) == "aa"
    with pytest.raises(TokenizerMismatch, match="web, code: aa; math: bb"):
        one_tokenizer({"web": "aa", "code": "aa", "math": "bb"})


def test_what_stands_before_texts_is_one_token_of_all_stores(tmp_path: Path) -> None:
    """Scorers begin each text with it, so a run whose stores differ is refused."""
    plain, begun, other = (Directory(str(tmp_path / name)) for name in ("plain", "begun", "other"))
    write_token_store(plain, [[5, 6]], vocabulary=9, tokenizer="t" * 64, eos=0)
    for store in (begun, other):
        write_token_store(store, [[1, 5, 6]], vocabulary=9, tokenizer="t" * 64, eos=0, bos=1)
    assert before_texts({"plain": plain}) == 0
    assert before_texts({"begun": begun, "other": other}) == 1
    with pytest.raises(TokenizerMismatch, match="begin with token 0 in plain and with token 1 in begun; tokenize all"):
        before_texts({"plain": plain, "begun": begun})
    chats = Directory(str(tmp_path / "chats"))
    write_token_store(chats, [[7, 8]], vocabulary=9, tokenizer="t" * 64, eos=0)
    chats.write_bytes(MASK, b"\1\1\1")
    assert before_texts({"chats": chats}) is None
    assert before_texts({"chats": chats, "begun": begun}) == 1
