"""Token store: the tokens of a document set as one flat array on disk, ready to train from.

Files: ``tokens.bin`` (little-endian uint16, or uint32 for vocabularies above 65536), every document
ended by the end-of-sequence token; ``offsets.npy`` (int64, document starts and the total);
``meta.json``, written last, so its presence means that the rest was written.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from marin.errors import CorruptOutput, GarbledDocument, StarvedSource, TokenizerMismatch, TruncatedShard
from marin.store.files.directory import Directory

TOKENS, OFFSETS, META = "tokens.bin", "offsets.npy", "meta.json"
UINT16_VOCABULARY = 1 << 16


@dataclass(frozen=True, kw_only=True)
class StoreMeta:
    """dtype: "uint16" or "uint32". tokens counts the separators. tokenizer: digest of its tokenizer.json.

    eos: id that ends every document. sha256: of tokens.bin, so that equal content is known as equal.
    """

    dtype: str
    tokens: int
    documents: int
    vocabulary: int
    tokenizer: str
    eos: int
    sha256: str


def write_token_store(
    out: Directory,
    documents: Iterable[Sequence[int] | NDArray[np.integer[Any]]],
    *,
    vocabulary: int,
    tokenizer: str,
    eos: int,
) -> StoreMeta:
    """Stream documents (token ids) into a store; a missing eos is appended. Memory: 8 bytes a document.

    vocabulary: ids are below it. Raises GarbledDocument for an id outside it, StarvedSource if there
    is no document at all.
    """
    if not 0 <= eos < vocabulary:
        raise GarbledDocument(f"{out.url}: the eos id is {eos}, outside the vocabulary of {vocabulary}")
    dtype = np.dtype("<u2" if vocabulary <= UINT16_VOCABULARY else "<u4")
    lengths: list[int] = []
    checksum = hashlib.sha256()
    with out.open(TOKENS, "wb") as handle:
        for document in documents:
            ids = np.asarray(document, dtype=np.int64)
            if not len(ids) or ids[-1] != eos:
                ids = np.append(ids, eos)
            if ids.min() < 0 or ids.max() >= vocabulary:
                bad = int(ids.min()) if ids.min() < 0 else int(ids.max())
                raise GarbledDocument(
                    f"{out.url}: document {len(lengths)} holds token id {bad}, outside the vocabulary of "
                    f"{vocabulary}; was it encoded by another tokenizer?"
                )
            encoded = ids.astype(dtype).tobytes()
            checksum.update(encoded)
            handle.write(encoded)
            lengths.append(len(ids))
    if not lengths:
        raise StarvedSource(f"{out.url}: no documents to write; a store without tokens could never be sampled")
    offsets = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64))).astype("<i8")
    with out.open(OFFSETS, "wb") as handle:
        np.lib.format.write_array(handle, offsets, allow_pickle=False)
    meta = StoreMeta(
        dtype="uint16" if dtype.itemsize == 2 else "uint32",
        tokens=int(offsets[-1]),
        documents=len(lengths),
        vocabulary=vocabulary,
        tokenizer=tokenizer,
        eos=eos,
        sha256=checksum.hexdigest(),
    )
    out.write_text(META, json.dumps(asdict(meta), indent=1, sort_keys=True) + "\n")
    return meta


class TokenStore:
    """Random access to a store on this machine. ``open`` it; nothing is read before it is asked for.

    tokens: (meta.tokens,) memory map. offsets: (meta.documents + 1,) int64 memory map.
    """

    def __init__(self, meta: StoreMeta, tokens: NDArray[Any], offsets: NDArray[np.int64], url: str) -> None:
        self.meta = meta
        self.tokens = tokens
        self.offsets = offsets
        self.url = url

    @classmethod
    def open(cls, directory: Directory) -> TokenStore:
        """Raises TruncatedShard when the files disagree with meta.json, CorruptOutput when that is garbled."""
        meta = _read_meta(directory)
        dtype = np.dtype("<u2" if meta.dtype == "uint16" else "<u4")
        folder = directory.path
        for name in (TOKENS, OFFSETS):
            if not (folder / name).exists():
                raise TruncatedShard(f"{directory.url}/{name} is missing; the store is incomplete, tokenize again")
        found, wanted = (folder / TOKENS).stat().st_size, meta.tokens * dtype.itemsize
        if found != wanted:
            raise TruncatedShard(
                f"{directory.url}/{TOKENS}: {found} bytes, but meta.json promises {meta.tokens} tokens = {wanted} "
                "bytes; the store is incomplete, tokenize again"
            )
        try:
            offsets = np.load(folder / OFFSETS, mmap_mode="r", allow_pickle=False)
        except (ValueError, EOFError, OSError) as error:
            raise TruncatedShard(f"{directory.url}/{OFFSETS} cannot be read ({error}); tokenize again") from error
        if offsets.shape != (meta.documents + 1,) or offsets[0] != 0 or offsets[-1] != meta.tokens:
            raise TruncatedShard(
                f"{directory.url}/{OFFSETS}: {len(offsets) - 1} documents, last offset {offsets[-1:].tolist()}, but "
                f"meta.json promises {meta.documents} documents and {meta.tokens} tokens; tokenize again"
            )
        tokens = np.memmap(folder / TOKENS, dtype=dtype, mode="r", shape=(meta.tokens,))
        return cls(meta, tokens, cast(NDArray[np.int64], offsets), directory.url)

    def sequences(self, seq_len: int) -> int:
        """Whole windows of seq_len tokens; the tail is dropped."""
        return self.meta.tokens // seq_len

    def read(self, indices: NDArray[np.integer[Any]] | Sequence[int], seq_len: int) -> NDArray[np.int32]:
        """Windows by number: (n,) → (n, seq_len) int32. Raises IndexError outside 0 … sequences(seq_len) - 1."""
        wanted = np.asarray(indices, dtype=np.int64)
        count = self.sequences(seq_len)
        if wanted.size and (wanted.min() < 0 or wanted.max() >= count):
            raise IndexError(
                f"{self.url}: sequence {wanted.min()} … {wanted.max()}, but there are {count} of {seq_len}"
            )
        windows = self.tokens[: count * seq_len].reshape(count, seq_len)
        return windows[wanted].astype(np.int32)

    def document_of(self, positions: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
        """The document that holds each token position: (n,) → (n,) int64."""
        return np.searchsorted(self.offsets, positions, side="right").astype(np.int64) - 1


def one_tokenizer(digests: Mapping[str, str]) -> str:
    """The digest that all named stores share. Raises TokenizerMismatch naming the odd ones."""
    by_digest: dict[str, list[str]] = {}
    for name, digest in digests.items():
        by_digest.setdefault(digest, []).append(name)
    if len(by_digest) != 1:
        groups = "; ".join(f"{', '.join(names)}: {digest[:12]}" for digest, names in by_digest.items())
        raise TokenizerMismatch(
            f"one mixture, {len(by_digest)} tokenizers ({groups or 'no stores'}); token ids would mean different "
            "things, so tokenize every source with the same tokenizer"
        )
    return next(iter(by_digest))


def _read_meta(directory: Directory) -> StoreMeta:
    if not directory.exists(META):
        raise TruncatedShard(f"{directory.url} has no {META}; the store was never finished, tokenize again")
    try:
        meta = StoreMeta(**json.loads(directory.read_bytes(META)))
    except (ValueError, TypeError) as error:
        raise CorruptOutput(f"{directory.url}/{META} is not a token store's description: {error}") from error
    counts = (meta.tokens, meta.documents, meta.vocabulary, meta.eos)
    if meta.dtype not in ("uint16", "uint32") or any(type(n) is not int or n < 0 for n in counts):
        raise CorruptOutput(
            f"{directory.url}/{META}: dtype {meta.dtype!r}, tokens, documents, vocabulary, eos {counts}; "
            "wanted uint16 or uint32 and counts"
        )
    return meta
