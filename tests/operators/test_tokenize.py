"""TrainTokenizer and Tokenize: documents in, a tokenizer and a token store out."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer as Tokenizers

from marin import Tokenizer, Tokens
from marin.data import quick_bpe
from marin.data.documents import Document
from marin.data.quick_bpe import Compared, QuickBpe, Unequal, can_be_quick
from marin.data.token_store import TokenStore
from marin.data.tokenizer import load_tokenizer
from marin.errors import BadField, GarbledDocument, InputError, StarvedSource, TokenizerMismatch
from marin.store.files.directory import Directory
from operators.pretrained_tokenizer import PretrainedTokenizer
from operators.tokenize import Tokenize
from operators.train_tokenizer import TrainTokenizer
from tests.operators.running import Given, file_bytes, given_documents, run_step
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


def test_with_bos_every_document_begins_with_it_and_without_none_does(tmp_path: Path):
    tokenizer = trained(tmp_path)
    texts = [*TEXTS, "and <|bos|> spelt out"]
    documents = given_documents([Document(text) for text in texts], tmp_path / "web", shards=3)
    made = {
        bos: run_step(Tokenize(documents=WEB, tokenizer=BPE, bos=bos), {WEB: documents, BPE: tokenizer}, tmp_path)
        for bos in (False, True)
    }
    plain, begun = (TokenStore.open(made[bos].directory) for bos in (False, True))
    assert (plain.tokens == 0).sum() == 0
    assert list(np.flatnonzero(begun.tokens == 0)) == list(begun.offsets[:-1])
    assert list(np.flatnonzero(begun.tokens == 1)) == list(begun.offsets[1:] - 1)
    assert list(begun.tokens[begun.tokens != 0]) == list(plain.tokens)
    assert made[True].tokens == made[False].tokens + len(texts)


def test_one_token_may_begin_and_end_documents(tmp_path: Path):
    """As GPT-2's does."""
    tokenizer = trained(tmp_path)
    config = json.loads(tokenizer.directory.read_text("tokenizer_config.json"))
    tokenizer.directory.write_text("tokenizer_config.json", json.dumps(config | {"bos_token": "<|eos|>"}))
    documents = given_documents([Document("one"), Document("")], tmp_path / "web")
    step = Tokenize(documents=WEB, tokenizer=BPE, bos=True)
    store = TokenStore.open(run_step(step, {WEB: documents, BPE: tokenizer}, tmp_path).directory)
    loaded = load_tokenizer(tokenizer.directory)
    assert loaded.decode(store.tokens) == "<|eos|>one<|eos|><|eos|><|eos|>"


def test_bos_of_a_tokenizer_without_one_is_an_error(tmp_path: Path):
    tokenizer = trained(tmp_path)
    tokenizer.directory.write_text("tokenizer_config.json", json.dumps({"eos_token": "<|eos|>"}))
    documents = given_documents([Document("one")], tmp_path / "web")
    with pytest.raises(InputError, match=r"bos is True, but given/.* names no bos_token"):
        run_step(Tokenize(documents=WEB, tokenizer=BPE, bos=True), {WEB: documents, BPE: tokenizer}, tmp_path)


def test_an_eos_inside_a_document_is_found_in_what_was_written(tmp_path: Path):
    """The tokenizer's eos is no special token, so text can become the eos."""
    tokenizer = trained(tmp_path)
    config = json.dumps({"eos_token": "e"})
    tokenizer.directory.write_text("tokenizer_config.json", config)
    documents = given_documents([Document("none of it"), Document("here")], tmp_path / "web")
    with pytest.raises(GarbledDocument, match="is misplaced in document 0"):
        run_step(Tokenize(documents=WEB, tokenizer=BPE), {WEB: documents, BPE: tokenizer}, tmp_path)


def test_the_sample_shows_documents_as_a_model_reads_them(tmp_path: Path):
    tokenizer = trained(tmp_path)
    long = "".join(f"{number} " for number in range(200))
    documents = given_documents([Document("short"), Document(long)], tmp_path / "web")
    step = Tokenize(documents=WEB, tokenizer=BPE, bos=True)
    sample = run_step(step, {WEB: documents, BPE: tokenizer}, tmp_path).directory.read_text("sample.txt")
    first, _, second = sample.partition("\n\n")
    assert first == "<|bos|>short<|eos|>"
    assert second.startswith("<|bos|>0 1 2 3")
    assert second.endswith("198 199 <|eos|>\n")
    assert re.search(r" … \d+ tokens … ", second)


def test_shards_are_joined_to_the_bytes_of_one_and_only_missing_ones_are_made(tmp_path: Path):
    tokenizer = trained(tmp_path)
    step = Tokenize(documents=WEB, tokenizer=BPE)
    made: dict[int, dict[str, bytes]] = {}
    for shards in (1, 4, 12):  # of twelve, two hold nothing
        web = given_documents([Document(text) for text in TEXTS], tmp_path / f"web-{shards}", shards=shards)
        tokens = run_step(step, {WEB: web, BPE: tokenizer}, tmp_path / str(shards))
        made[shards] = file_bytes(tokens.directory)
    assert made[1] == made[4] == made[12]
    state = next((tmp_path / "4").glob("tokenize-*/state/parts"))
    parts = sorted(state.iterdir())
    assert len(parts) == 4
    (parts[2] / "meta.json").unlink()
    before = {part: (part / "tokens.bin").stat().st_mtime_ns for part in parts}
    web = given_documents([Document(text) for text in TEXTS], tmp_path / "web-4", shards=4)
    again = run_step(step, {WEB: web, BPE: tokenizer}, tmp_path / "4")
    assert file_bytes(again.directory) == made[1]
    after = {part: (part / "tokens.bin").stat().st_mtime_ns for part in parts}
    assert [part for part in parts if before[part] != after[part]] == [parts[2]]


def added(serialised: str, **changes: Any) -> bytes:
    """A tokenizer.json with something else in it."""
    return json.dumps(json.loads(serialised) | changes).encode()


LLAMA_3 = {
    "type": "Sequence",
    "pretokenizers": [
        {
            "type": "Split",
            "pattern": {
                "Regex": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
                r"\s*[\r\n]+|\s+(?!\S)|\s+"
            },
            "behavior": "Isolated",
            "invert": False,
        },
        {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False},
    ],
}  # fmt: skip
SPACES = {
    "content": "    ",
    "single_word": False,
    "lstrip": False,
    "rstrip": False,
    "normalized": True,
    "special": False,
}
KINDS: dict[str, dict[str, Any]] = {
    "its own split": {},
    "the split of Llama 3": {"pre_tokenizer": LLAMA_3},
    "composed first": {"normalizer": {"type": "NFC"}},
}


@pytest.mark.parametrize("kind", [*KINDS, "spaces as tokens"])
def test_the_quick_way_gives_the_ids_of_the_tokenizer(kind: str, tmp_path: Path):
    text = Path(__file__).read_text() + " e\u0301 cafe\u0301\tI'LL  12 345   x'  \n\n \r\n\u2028 <|eos|>        end   "
    serialised = trained(tmp_path, 600, [text]).directory.read_text("tokenizer.json")
    tokens = [*json.loads(serialised)["added_tokens"], {**SPACES, "id": 600}]
    made = added(serialised, **KINDS.get(kind, {"added_tokens": tokens}))
    assert can_be_quick(json.loads(made))
    tokenizer = Tokenizers.from_buffer(made)
    tokenizer.encode_special_tokens = True
    pieces = [text[start : start + 97] for start in range(0, len(text), 97)] + [text, ""]
    by_tokenizers = [encoded.ids for encoded in tokenizer.encode_batch(pieces, add_special_tokens=False)]
    assert [ids.tolist() for ids in QuickBpe(json.loads(made)).encode(pieces)] == by_tokenizers


@pytest.mark.parametrize(
    "changes",
    [
        {"normalizer": {"type": "Lowercase"}},
        {"pre_tokenizer": {"type": "Whitespace"}},
        {"pre_tokenizer": None},
        {"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": True, "use_regex": True}},
        {"added_tokens": [{**SPACES, "id": 600, "rstrip": True}]},
    ],
    ids=str,
)
def test_what_tiktoken_cannot_do_has_no_quick_way(changes: dict[str, Any], tmp_path: Path):
    assert not can_be_quick(json.loads(added(trained(tmp_path).directory.read_text("tokenizer.json"), **changes)))


def test_a_document_with_other_ids_is_noticed_and_its_shard_encoded_by_the_tokenizer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A split of another tokenizer: words alone are as they were, those behind a space are not."""
    tokenizer = trained(tmp_path, 600, [Path(__file__).read_text()])
    documents = [Document("directory")] * 40 + [Document("the directory of the documents")] * 40
    web = given_documents(documents, tmp_path / "web", shards=2)
    step = Tokenize(documents=WEB, tokenizer=BPE)
    right = run_step(step, {WEB: web, BPE: tokenizer}, tmp_path / "right")
    monkeypatch.setattr(quick_bpe, "_WORDS_AND_DIGITS", r"\S+|\s+")
    quick = Compared(
        load_tokenizer(tokenizer.directory), QuickBpe(json.loads(tokenizer.directory.read_bytes("tokenizer.json")))
    )
    assert len(list(quick.encode(document.text for document in documents[:40]))) == 40
    assert quick.documents == 2
    with pytest.raises(Unequal):
        list(quick.encode(document.text for document in documents))
    there = run_step(step, {WEB: web, BPE: tokenizer}, tmp_path / "wrong")
    assert file_bytes(there.directory) == file_bytes(right.directory)


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
        "from pathlib import Path; from tests.operators.test_tokenize import *; "
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
    with pytest.raises(TokenizerMismatch, match="changed after its commit"):
        run_step(Tokenize(documents=WEB, tokenizer=BPE), {WEB: documents, BPE: mixed}, tmp_path)


def test_bad_input(tmp_path: Path):
    with pytest.raises(BadField, match="vocabulary is 259"):
        TrainTokenizer(documents=(WEB,), vocabulary=259)
    with pytest.raises(BadField, match="documents is empty"):
        TrainTokenizer(documents=(), vocabulary=1000)
    with pytest.raises(BadField, match="40 hex digits"):
        PretrainedTokenizer(repo="meta-llama/Meta-Llama-3.1-8B", revision="main")
    with pytest.raises(BadField, match="owner/name"):
        PretrainedTokenizer(repo="llama", revision="0" * 40)
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
