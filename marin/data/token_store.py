"""Token store: the tokens of a document set as one flat array on disk, ready to train from.

Files: ``tokens.bin`` (little-endian uint16, or uint32 for vocabularies above 65536), where every document
ends with the end-of-sequence token; ``offsets.npy`` (int64, document starts and the total);
``meta.json``, written last, so its presence shows that the store is complete. A store of chats also has ``mask.bin``
(marin.data.chat): one byte per token, 1 where the loss counts the token.
"""

from __future__ import annotations

import hashlib
import io
import json
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marin.data.remote_array import RemoteArray
from marin.errors import CorruptOutput, GarbledDocument, StarvedSource, TokenizerMismatch, TruncatedShard
from marin.store.files.directory import Directory

TOKENS, OFFSETS, META, MASK = "tokens.bin", "offsets.npy", "meta.json", "mask.bin"
UINT16_VOCABULARY = 1 << 16
COPIED = 1 << 22  # bytes to copy at a time
HEADER = 1 << 12  # bytes that surely hold NumPy's header of the offsets

type Numbers = NDArray[Any] | RemoteArray


@dataclass(frozen=True, kw_only=True)
class StoreMeta:
    """The content of meta.json. dtype: "uint16" or "uint32". tokens: with the separators.

    tokenizer: digest of its tokenizer.json. eos: id that ends every document. bos: id that begins every document, or
    None. sha256: of tokens.bin, so that equal content can be recognised.
    """

    dtype: str
    tokens: int
    documents: int
    vocabulary: int
    tokenizer: str
    eos: int
    sha256: str
    bos: int | None = None

    @property
    def numpy_type(self) -> np.dtype[Any]:
        return np.dtype("<u2" if self.dtype == "uint16" else "<u4")


def write_token_store(
    out: Directory,
    documents: Iterable[Sequence[int] | NDArray[np.integer[Any]]],
    *,
    vocabulary: int,
    tokenizer: str,
    eos: int,
    bos: int | None = None,
    may_be_empty: bool = False,
) -> StoreMeta:
    """Stream documents (token ids) into a store, and append a missing eos. Memory: 8 bytes per document.

    bos: id that begins every document, or None. vocabulary: all ids must be below. may_be_empty: for a part of a
    store. Raises GarbledDocument for an id outside the vocabulary, StarvedSource if there is no document.
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
                    f"{vocabulary}; was the text encoded by another tokenizer?"
                )
            encoded = ids.astype(dtype).tobytes()
            checksum.update(encoded)
            handle.write(encoded)
            lengths.append(len(ids))
    if not lengths and not may_be_empty:
        raise _empty(out)
    offsets = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
    meta = StoreMeta(
        dtype="uint16" if dtype.itemsize == 2 else "uint32",
        tokens=int(offsets[-1]),
        documents=len(lengths),
        vocabulary=vocabulary,
        tokenizer=tokenizer,
        eos=eos,
        sha256=checksum.hexdigest(),
        bos=bos,
    )
    return _complete(out, meta, offsets)


def join_token_stores(parts: Sequence[Directory], out: Directory) -> StoreMeta:
    """Join the documents of all parts, in order, into one store. Its bytes equal those of a store written at once.

    parts: of one tokenizer, without a mask. Memory: 8 bytes per document. Raises the errors of ``TokenStore.open``, and
    StarvedSource if all parts are empty.
    """
    metas = [_read_meta(part) for part in parts]
    tokens = sum(meta.tokens for meta in metas)
    if not tokens:
        raise _empty(out)
    checksum, starts, before = hashlib.sha256(), [np.zeros(1, np.int64)], 0
    with out.open(TOKENS, "wb") as target:
        for part, meta in zip(parts, metas, strict=True):
            with part.open(TOKENS) as source:
                while chunk := source.read(COPIED):
                    checksum.update(chunk)
                    target.write(chunk)
            with part.open(OFFSETS) as source:
                starts.append(np.lib.format.read_array(source, allow_pickle=False)[1:] + before)
            before += meta.tokens
    offsets, documents = np.concatenate(starts), sum(meta.documents for meta in metas)
    return _complete(out, replace(metas[0], tokens=tokens, documents=documents, sha256=checksum.hexdigest()), offsets)


def check_ends(store: Directory, bos: int | None) -> None:
    """Check that every document ends with eos and begins with bos (if given), and that neither occurs elsewhere.

    Raises GarbledDocument, because the boundaries of documents would be lost. Memory: the store's tokens.
    """
    meta = _read_meta(store)
    tokens = np.frombuffer(store.read_bytes(TOKENS), meta.numpy_type)
    with store.open(OFFSETS) as source:
        offsets = np.lib.format.read_array(source, allow_pickle=False)
    places = [(meta.eos, offsets[1:] - 1), *([] if bos is None else [(bos, offsets[:-1])])]
    for token in {token for token, _ in places}:
        wanted = np.concatenate([where for each, where in places if each == token])
        wrong = np.setxor1d(np.flatnonzero(tokens == token), wanted)
        if len(wrong):
            document = bisect_right(offsets, int(wrong[0])) - 1
            raise GarbledDocument(
                f"{store.url}: token {token} is misplaced in document {document}; it may stand only where documents "
                "end or begin. Does the tokenizer encode text as its special token?"
            )


def before_texts(stores: Mapping[str, Directory]) -> int | None:
    """Return the id that stands before each text of these stores: their bos, or the previous document's eos.

    stores: by name. Chats have their own beginning and do not count. Returns None if all stores hold chats. Raises
    TokenizerMismatch if stores differ, because no scorer could then read text the way the model was trained.
    """
    metas = {name: _read_meta(store) for name, store in stores.items() if not store.exists(MASK)}
    begins = {name: meta.eos if meta.bos is None else meta.bos for name, meta in metas.items()}
    if len(set(begins.values())) > 1:
        (first, one), (second, other) = sorted({begin: name for name, begin in begins.items()}.items())[:2]
        raise TokenizerMismatch(
            f"documents begin with token {first} in {one} and with token {second} in {other}; tokenize all text of a "
            "run with bos=True, or all of it without"
        )
    return next(iter(begins.values()), None)


def _complete(out: Directory, meta: StoreMeta, offsets: NDArray[np.int64]) -> StoreMeta:
    with out.open(OFFSETS, "wb") as handle:
        np.lib.format.write_array(handle, offsets.astype("<i8"), allow_pickle=False)
    told = {name: held for name, held in asdict(meta).items() if name != "bos" or held is not None}
    out.write_text(META, json.dumps(told, indent=1, sort_keys=True) + "\n")
    return meta


def _empty(out: Directory) -> StarvedSource:
    return StarvedSource(f"{out.url}: no documents to write; a store without tokens could never be sampled")


class TokenStore:
    """Random access to a token store. Use ``open`` to make one. It reads only the requested data, when requested.

    tokens: (meta.tokens,) and offsets: (meta.documents + 1,) int64, memory maps. An object store is read by range.
    mask: (meta.tokens,) uint8, or None if the loss counts every token.
    """

    def __init__(
        self, meta: StoreMeta, tokens: Numbers, offsets: Numbers, url: str, mask: Numbers | None = None
    ) -> None:
        self.meta = meta
        self.mask = mask
        self.tokens = tokens
        self.offsets = offsets
        self.url = url

    @classmethod
    def open(cls, directory: Directory) -> TokenStore:
        """Open a store. Raises TruncatedShard if a file disagrees with meta.json, CorruptOutput if that is garbled."""
        meta = _read_meta(directory)
        dtype = meta.numpy_type
        sizes: dict[str, int] = {}
        for name in (TOKENS, OFFSETS, MASK):
            try:
                sizes[name] = directory.size(name)
            except FileNotFoundError:
                if name != MASK:
                    raise TruncatedShard(
                        f"{directory.url}/{name} is missing; the store is incomplete, tokenize again"
                    ) from None
        found, wanted = sizes[TOKENS], meta.tokens * dtype.itemsize
        if found != wanted:
            raise TruncatedShard(
                f"{directory.url}/{TOKENS}: {found} bytes, but meta.json promises {meta.tokens} tokens = {wanted} "
                "bytes; the store is incomplete, tokenize again"
            )
        try:
            offsets = _offsets(directory, sizes[OFFSETS])
        except (ValueError, EOFError, OSError) as error:
            raise TruncatedShard(f"{directory.url}/{OFFSETS} cannot be read ({error}); tokenize again") from error
        if len(offsets) != meta.documents + 1 or offsets[0] != 0 or offsets[-1] != meta.tokens:
            last = [int(offsets[-1])] if len(offsets) else []
            raise TruncatedShard(
                f"{directory.url}/{OFFSETS}: {len(offsets) - 1} documents, last offset {last}, but "
                f"meta.json promises {meta.documents} documents and {meta.tokens} tokens; tokenize again"
            )
        if sizes.get(MASK, meta.tokens) != meta.tokens:
            raise TruncatedShard(
                f"{directory.url}/{MASK}: {sizes[MASK]} bytes for the {meta.tokens} tokens of meta.json; tokenize again"
            )
        tokens = _numbers(directory, TOKENS, dtype, meta.tokens)
        mask = _numbers(directory, MASK, np.uint8, meta.tokens) if MASK in sizes else None
        return cls(meta, tokens, offsets, directory.url, mask)

    def sequences(self, seq_len: int) -> int:
        """Return the number of whole windows of seq_len tokens. The rest of the store is dropped."""
        return self.meta.tokens // seq_len

    def read(self, indices: NDArray[np.integer[Any]] | Sequence[int], seq_len: int) -> NDArray[np.int32]:
        """Return windows by number: (n,) → (n, seq_len) int32. Raises IndexError outside 0 … sequences(seq_len) - 1."""
        return self._windows(self.tokens, indices, seq_len).astype(np.int32)

    def counts(self, indices: NDArray[np.integer[Any]] | Sequence[int], seq_len: int) -> NDArray[np.bool_]:
        """Return whether the loss counts each token of these windows: (n,) → (n, seq_len)."""
        if self.mask is None:
            return np.ones((len(indices), seq_len), np.bool_)
        return self._windows(self.mask, indices, seq_len).astype(np.bool_)

    def _windows(self, held: Numbers, indices: NDArray[np.integer[Any]] | Sequence[int], seq_len: int) -> NDArray[Any]:
        wanted = np.asarray(indices, dtype=np.int64)
        count = self.sequences(seq_len)
        if wanted.size and (wanted.min() < 0 or wanted.max() >= count):
            raise IndexError(
                f"{self.url}: sequence {wanted.min()} … {wanted.max()}, but there are {count} of {seq_len} tokens"
            )
        if isinstance(held, RemoteArray):
            return held.windows(wanted, seq_len)
        return held[: count * seq_len].reshape(count, seq_len)[wanted]

    def document_of(self, positions: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
        """Return the document that holds each token position: (n,) → (n,) int64."""
        if isinstance(self.offsets, RemoteArray):
            unlike, places = np.unique(positions, return_inverse=True)  # in order, so that neighbours share reads
            return np.array([bisect_right(self.offsets, each) - 1 for each in unlike], np.int64)[places]
        return np.searchsorted(self.offsets, positions, side="right").astype(np.int64) - 1


def _numbers(directory: Directory, name: str, dtype: Any, length: int) -> Numbers:
    if directory.is_local:
        return np.memmap(directory.path / name, dtype=dtype, mode="r", shape=(length,))
    return RemoteArray(directory, name, dtype, length)


def _offsets(directory: Directory, size: int) -> Numbers:
    """Return the offsets. Raises ValueError, EOFError or OSError unless the file is a one-dimensional array."""
    if directory.is_local:
        held: NDArray[np.int64] = np.load(directory.path / OFFSETS, mmap_mode="r", allow_pickle=False)
        return held.reshape(-1)
    head = io.BytesIO(directory.read_ranges(OFFSETS, [(0, min(size, HEADER))])[0])
    np.lib.format.read_magic(head)
    (length,), _, dtype = np.lib.format.read_array_header_1_0(head)
    if size != head.tell() + length * dtype.itemsize:
        raise ValueError(f"{size} bytes for {length} offsets")
    return RemoteArray(directory, OFFSETS, dtype, length, head.tell())


def one_tokenizer(digests: Mapping[str, str]) -> str:
    """Return the digest that all named stores share. Raises TokenizerMismatch, which lists stores by tokenizer."""
    by_digest: dict[str, list[str]] = {}
    for name, digest in digests.items():
        by_digest.setdefault(digest, []).append(name)
    if len(by_digest) != 1:
        groups = "; ".join(f"{', '.join(names)}: {digest[:12]}" for digest, names in by_digest.items())
        raise TokenizerMismatch(
            f"one mixture, {len(by_digest)} tokenizers ({groups or 'no stores'}); token ids would mean different "
            "things. Tokenize every source with the same tokenizer"
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
