"""TrainTokenizer and Tokenize: documents in, a tokenizer and a token store out."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from marin import Tokenizer, Tokens
from marin.data.documents import Document
from marin.data.token_store import TokenStore
from marin.data.tokenizer import load_tokenizer
from marin.errors import BadField, GarbledDocument, StarvedSource, TokenizerMismatch
from marin.store.files.directory import Directory
from marin_operators.pretrained_tokenizer import PretrainedTokenizer
from marin_operators.tokenize import Tokenize
from marin_operators.train_tokenizer import TrainTokenizer
from tests.marin_operators.running import Given, given_documents, run_step
from tests.shared_data import shared

TEXTS = [
    "The quick brown fox jumps over the lazy dog.",
    "def f(x):\n    return x + 12345\n",
    "Ünïcödé, 漢字 and 🦊🦊 too.",
    "a text that spells <|eos|> out",
    "",
] * 2
WEB, BPE = Given(name_of_input="web"), Given(name_of_input="tokenizer")


def trained(tmp_path: Path, vocabulary: int = 400, texts: list[str] = TEXTS) -> Tokenizer:
    documents = given_documents([Document(text) for text in texts], tmp_path / "documents", shards=2)
    return run_step(TrainTokenizer(documents=(WEB,), vocabulary=vocabulary), {WEB: documents}, tmp_path)


def test_tokens_decode_to_the_documents(tmp_path: Path):
    tokenizer = trained(tmp_path)
    documents = given_documents([Document(text) for text in TEXTS], tmp_path / "web", shards=3)
    step = Tokenize(documents=WEB, tokenizer=BPE)
    tokens = run_step(step, {WEB: documents, BPE: tokenizer}, tmp_path)
    store, loaded = TokenStore.open(tokens.directory), load_tokenizer(tokenizer.directory)
    spans = zip(store.offsets[:-1], store.offsets[1:], strict=True)
    assert [loaded.decode(store.tokens[start:end]) for start, end in spans] == [text + "<|eos|>" for text in TEXTS]
    assert (store.tokens == 1).sum() == len(TEXTS)  # <|eos|> spelt out in a text ends nothing
    assert tokens == Tokens(
        tokens=len(store.tokens), documents=len(TEXTS), vocabulary=tokenizer.vocabulary, tokenizer=tokenizer.digest
    )


def test_digits_are_single_tokens_and_bytes_are_all_there(tmp_path: Path):
    loaded = load_tokenizer(trained(tmp_path).directory)
    digits = next(loaded.encode(["12345"]))
    assert len(digits) == 5
    assert {loaded.tokenizer.token_to_id(token) for token in ("<|bos|>", "<|eos|>", "<|pad|>")} == {0, 1, 2}
    strange = "\x00\x7f\u2028\U0010ffff"
    assert loaded.decode(next(loaded.encode([strange]))) == strange


def test_equal_bytes_in_another_process(tmp_path: Path):
    """Hash seeds and thread counts must not show in the vocabulary."""
    here = trained(tmp_path / "here", texts=[Path(__file__).read_text(), *TEXTS], vocabulary=600)
    program = (
        "from pathlib import Path; from tests.marin_operators.test_tokenize import *; "
        f"made = trained(Path({str(tmp_path / 'there')!r}), 600, [Path({__file__!r}).read_text(), *TEXTS]); "
        "print(made.digest)"
    )
    environment = {"PYTHONHASHSEED": "77", "TOKENIZERS_PARALLELISM": "false"}
    root = Path(__file__).resolve().parents[2]
    there = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment, cwd=root
    )
    assert there.stdout.strip() == here.digest
    assert here.vocabulary == 600


def test_pinned_tokenizer(tmp_path: Path):
    """Raise TrainTokenizer's version when this digest must change."""
    assert trained(tmp_path).digest == "2d59d283b0eb80a956f3af28de15d654d80a1fe734d5f9b02c52b5dcb082b880"


def test_transformers_reads_it_from_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    from transformers import AutoTokenizer

    tokenizer = trained(tmp_path)
    theirs = AutoTokenizer.from_pretrained(str(tokenizer.directory.path))
    ours = load_tokenizer(tokenizer.directory)
    for text in TEXTS[:3]:
        assert theirs(text)["input_ids"] == next(ours.encode([text])).tolist()
        assert theirs.decode(theirs(text)["input_ids"]) == text
    assert (theirs.bos_token_id, theirs.eos_token_id, theirs.pad_token_id) == (0, 1, 2)
    assert len(theirs) == tokenizer.vocabulary


def test_gpt2_ids(tmp_path: Path):
    """The published tokenizer.json through our path: "Hello world" is 15496 995 in GPT-2."""
    folder = Directory(str(tmp_path / "gpt2"))
    folder.write_bytes("tokenizer.json", (shared("gpt2-tokenizer") / "tokenizer.json").read_bytes())
    folder.write_text("tokenizer_config.json", json.dumps({"eos_token": {"content": "<|endoftext|>"}}))
    loaded = load_tokenizer(folder)
    assert next(loaded.encode(["Hello world"])).tolist() == [15496, 995]
    assert (loaded.vocabulary, loaded.eos) == (50257, 50256)


def test_a_tokenizer_that_changed_after_its_record(tmp_path: Path):
    tokenizer = trained(tmp_path)
    other = trained(tmp_path / "other", vocabulary=500, texts=[*TEXTS, "more and more and more text"])
    mixed: Tokenizer = other.at(tokenizer.directory)  # type: ignore[assignment]
    documents = given_documents([Document("x")], tmp_path / "web")
    with pytest.raises(TokenizerMismatch, match="changed after it was committed"):
        run_step(Tokenize(documents=WEB, tokenizer=BPE), {WEB: documents, BPE: mixed}, tmp_path)


def test_bad_input(tmp_path: Path):
    with pytest.raises(BadField, match="vocabulary is 259"):
        TrainTokenizer(documents=(WEB,), vocabulary=259)
    with pytest.raises(BadField, match="documents is empty"):
        TrainTokenizer(documents=(), vocabulary=1000)
    with pytest.raises(BadField, match="40 hex digits"):
        PretrainedTokenizer(repository="meta-llama/Meta-Llama-3.1-8B", revision="main")
    with pytest.raises(BadField, match="owner/name"):
        PretrainedTokenizer(repository="llama", revision="0" * 40)
    with pytest.raises(StarvedSource, match="no text"):
        trained(tmp_path, texts=["", ""])
    folder = Directory(str(tmp_path / "broken"))
    with pytest.raises(GarbledDocument, match=r"tokenizer\.json is missing"):
        load_tokenizer(folder)
    folder.write_text("tokenizer.json", "{")
    with pytest.raises(GarbledDocument, match="is no tokenizer"):
        load_tokenizer(folder)
    good = trained(tmp_path).directory
    good.write_text("tokenizer_config.json", json.dumps({"eos_token": "</s>"}))
    with pytest.raises(GarbledDocument, match="eos_token is '</s>'"):
        load_tokenizer(good)
