"""Tokenizers: train a byte-level BPE, load a tokenizer.json, encode documents in batches."""

# pyright: basic
from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from marin.errors import BadField, GarbledDocument, InputError, StarvedSource, TokenizerMismatch
from marin.store.files.directory import Directory

TOKENIZER, CONFIG = "tokenizer.json", "tokenizer_config.json"
BOS, EOS, PAD = "<|bos|>", "<|eos|>", "<|pad|>"
SPECIAL = (BOS, EOS, PAD)  # ids 0, 1, 2
# Names of the token that ends a document in published tokenizers.
ENDS = (EOS, "</s>", "<|endoftext|>", "<|end_of_text|>", "<eos>", "[EOS]")
# 256 bytes and the special tokens. A smaller vocabulary has no room to learn.
SMALLEST_VOCABULARY = 256 + len(SPECIAL)
DOCUMENTS_PER_BATCH = 256


class LoadedTokenizer:
    """A tokenizer of an artifact directory. Text that spells a special token is encoded as text.

    digest: SHA-256 of tokenizer.json. vocabulary: all ids are below. bos: None if the tokenizer names none.
    """

    def __init__(self, tokenizer: Tokenizer, digest: str, eos: int, bos: int | None = None) -> None:
        self.tokenizer = tokenizer
        self.digest = digest
        self.eos, self.bos = eos, bos
        self.vocabulary: int = max(tokenizer.get_vocab(with_added_tokens=True).values()) + 1

    @property
    def begins_with(self) -> int | None:
        """Return the id that the tokenizer itself puts before a text, as Llama's does, or None."""
        alone = self.tokenizer.encode("", add_special_tokens=True).ids
        return alone[0] if alone and alone[0] != self.eos else None

    def encode(self, texts: Iterable[str]) -> Iterator[NDArray[np.uint32]]:
        """Yield the token ids of each text in order, without special tokens. Batches are encoded on all cores."""
        remaining = iter(texts)
        while batch := list(islice(remaining, DOCUMENTS_PER_BATCH)):
            for encoded in self.tokenizer.encode_batch_fast(batch, add_special_tokens=False):
                yield np.array(encoded.ids, dtype=np.uint32)

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of token ids, with special tokens spelt out."""
        return self.tokenizer.decode([int(token) for token in ids], skip_special_tokens=False)


def train_bpe(out: Directory, texts: Iterable[str], vocabulary: int) -> tuple[int, str]:
    """Train a byte-level BPE and write tokenizer.json and tokenizer_config.json.

    vocabulary: the most entries, including special tokens and the 256 bytes. Small texts give fewer.
    Returns (entries, digest). The bytes are a function of the texts and their order. Raises
    BadField for a vocabulary without room, StarvedSource without text. Source: Sennrich 2016; GPT-2
    for bytes and the splitting pattern, with digits split one by one, as in Llama.
    """
    if vocabulary < SMALLEST_VOCABULARY:
        raise BadField(f"tokenizer: the vocabulary is {vocabulary}; wanted at least {SMALLEST_VOCABULARY}")
    seen = 0

    def counted() -> Iterator[str]:
        nonlocal seen
        for text in texts:
            seen += len(text)
            yield text

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=list(SPECIAL),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(counted(), trainer)
    if not seen:
        raise StarvedSource(f"{out.url}: no text to train a tokenizer on; are the documents empty?")
    serialised = tokenizer.to_str(pretty=True)
    config = {
        "add_bos_token": False,
        "add_eos_token": False,
        "bos_token": BOS,
        "clean_up_tokenization_spaces": False,
        "eos_token": EOS,
        "model_max_length": 1 << 30,
        "pad_token": PAD,
        "tokenizer_class": "PreTrainedTokenizerFast",
    }
    out.write_text(TOKENIZER, serialised)
    out.write_text(CONFIG, json.dumps(config, indent=1, sort_keys=True) + "\n")
    return tokenizer.get_vocab_size(), hashlib.sha256(serialised.encode()).hexdigest()


def load_tokenizer(directory: Directory) -> LoadedTokenizer:
    """Load the tokenizer of a directory with tokenizer.json and, for its eos token, tokenizer_config.json.

    Raises GarbledDocument if a file is missing or unreadable, or if the configuration names no eos token.
    """
    try:
        serialised = directory.read_bytes(TOKENIZER)
        tokenizer = Tokenizer.from_buffer(serialised)
        config = json.loads(directory.read_bytes(CONFIG))
    except FileNotFoundError as error:
        raise GarbledDocument(f"{directory.url} is no tokenizer: {Path(error.filename).name} is missing") from error
    except Exception as error:  # the library raises bare Exception for a garbled file
        raise GarbledDocument(f"{directory.url} is no tokenizer: {error}") from error
    eos = _token(tokenizer, config, "eos_token")
    if eos is None:
        named = config.get("eos_token") if isinstance(config, dict) else None
        raise GarbledDocument(
            f"{directory.url}/{CONFIG}: eos_token is {named!r}, wanted an entry of the vocabulary; without one, "
            "document boundaries would be lost"
        )
    tokenizer.encode_special_tokens = True
    tokenizer.no_truncation()
    tokenizer.no_padding()
    bos = _token(tokenizer, config, "bos_token")
    return LoadedTokenizer(tokenizer, hashlib.sha256(serialised).hexdigest(), eos, bos)


def write_config(directory: Directory, eos: str) -> str:
    """Write tokenizer_config.json beside a lone tokenizer.json. Returns the token that ends a document.

    eos: "" for the only token of ENDS among the special tokens. Raises GarbledDocument if the file is not a tokenizer,
    InputError if it lacks the token, or does not have exactly one of ENDS.
    """
    try:
        tokenizer = Tokenizer.from_buffer(directory.read_bytes(TOKENIZER))
    except Exception as error:  # the library raises bare Exception for a garbled file
        raise GarbledDocument(f"{directory.url} is no tokenizer: {error}") from error
    special = [token.content for token in tokenizer.get_added_tokens_decoder().values() if token.special]
    found = [eos] if eos else [token for token in ENDS if token in special]
    if len(found) != 1 or tokenizer.token_to_id(found[0]) is None:
        said = f"there is no token {eos!r}" if eos else "marin cannot tell which token ends a document"
        raise InputError(f"{directory.url}/{TOKENIZER}: {said}; give eos=, one of {', '.join(special) or 'its tokens'}")
    directory.write_text(
        CONFIG, json.dumps({"eos_token": found[0], "tokenizer_class": "PreTrainedTokenizerFast"}) + "\n"
    )
    return found[0]


def _token(tokenizer: Tokenizer, config: object, name: str) -> int | None:
    """Return the id of the token under this name in tokenizer_config.json, or None."""
    named = config.get(name) if isinstance(config, dict) else None
    token = named.get("content") if isinstance(named, dict) else named
    return tokenizer.token_to_id(token) if isinstance(token, str) else None


def check_digest(loaded: LoadedTokenizer, promised: str, directory: Directory) -> None:
    """Raise TokenizerMismatch if tokenizer.json is not the one that the artifact describes."""
    if loaded.digest != promised:
        raise TokenizerMismatch(
            f"{directory.url}/{TOKENIZER} has digest {loaded.digest[:12]}, but its record says {promised[:12]}; "
            "the file changed after its commit. Rebuild the tokenizer"
        )


def download_tokenizer(
    out: Directory, state: Directory, repository: str, revision: str, eos: str = ""
) -> LoadedTokenizer:
    """Fetch tokenizer.json and tokenizer_config.json of a Hugging Face model at a commit, with retries.

    eos: the token that ends documents, "" for the one in its configuration. Raises MissingRevision if the repository
    or revision does not exist, InputError if a file is missing or the hub refuses or does not answer.
    """
    from marin.data.hub import fetch_model_file

    for name in (TOKENIZER, CONFIG):
        content = fetch_model_file(repository, revision, name, state)
        if name == CONFIG and eos:
            content = json.dumps(json.loads(content) | {"eos_token": eos}, indent=1, sort_keys=True).encode()
        out.write_bytes(name, content)
    return load_tokenizer(out)
