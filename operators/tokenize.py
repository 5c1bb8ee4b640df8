"""Tokenize: write documents as a token store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from marin import Checkpoint, Context, Directory, Documents, ExecutorStep, Size, Tokenizer, Tokens, since
from marin.errors import BadField, InputError, TokenizerMismatch

if TYPE_CHECKING:
    from marin.data.tokenizer import LoadedTokenizer

BYTES_PER_ID = 4  # 2 with a vocabulary of at most 65,536
SHOWN, HEAD, TAIL = 5, 100, 20  # documents in the sample, and tokens shown of the start and the end of each


class Tokenize(ExecutorStep[Tokens], op="tokenize", version=1):
    """Token store of a document set, one tokenizer; every document ends with the tokenizer's eos.

    bos: whether every document begins with the tokenizer's bos. The step checks that the written store has eos and bos
    in these places and nowhere else. ``sample.txt`` shows the first documents as a model reads them.

    Each shard is a task, and finished shards stay when the step is killed. Memory: 8 bytes a document. tiktoken encodes
    the shards for which it gives equal ids (marin.data.quick_bpe), the tokenizer itself the others; the log counts
    both. Raises InputError for bos with a tokenizer that has none.
    """

    documents: ExecutorStep[Documents]
    tokenizer: ExecutorStep[Tokenizer]
    bos: bool = since(2, default=False)

    def expected_size(self, inputs: Mapping[ExecutorStep[Any], Size]) -> Size | None:
        documents = inputs.get(self.documents)
        if documents is None or documents.tokens is None:
            return None
        return Size(bytes=BYTES_PER_ID * documents.tokens, tokens=documents.tokens)

    def run(self, ctx: Context) -> Tokens:
        from marin.data.documents import shard_names
        from marin.data.token_store import join_token_stores
        from marin.data.tokenizer import load_tokenizer

        documents, made = ctx[self.documents].directory, ctx[self.tokenizer]
        tokenizer = load_tokenizer(made.directory)
        if self.bos and tokenizer.bos is None:
            raise InputError(f"{self.name}: bos is True, but {self.tokenizer.name} names no bos_token that it has")
        bos = tokenizer.bos if self.bos else None
        names, parts = shard_names(documents), ctx.state / "parts"
        work = [(documents, name, made.directory, made.digest, bos, parts / name) for name in names]
        compared = [found for found in ctx.map(_tokenize_shard, work) if found is not None]
        ctx.log(
            f"tiktoken encoded {len(compared)} of {len(names)} shards; {sum(compared):,} of their documents were "
            "compared with tokenizers and are equal. tokenizers encoded the other shards"
        )
        meta = join_token_stores([parts / name for name in names], ctx.out)
        ctx.out.write_text("sample.txt", _sample(ctx.out, tokenizer))
        return Tokens(
            tokens=meta.tokens, documents=meta.documents, vocabulary=meta.vocabulary, tokenizer=meta.tokenizer
        )


def must_begin_alike(sources: Iterable[ExecutorStep[Tokens]], training: str) -> None:
    """Check that either all or no text of a training begins with bos, as far as Tokenize steps made the text.

    Raises BadField.
    """
    begins = {source.bos: source.name for source in sources if isinstance(source, Tokenize)}
    if len(begins) > 1:
        raise BadField(
            f"{training}: {begins[True]} has bos=True and {begins[False]} has not; wanted the same for all text of a "
            "run, because scorers begin each text as in training"
        )


def token_before_texts(
    ctx: Context, sources: Iterable[ExecutorStep[Tokens]], start: ExecutorStep[Checkpoint] | None
) -> int | None:
    """Return the id that stands before each text of a training. start: the checkpoint that the training begins with.

    A training on chats alone takes the id of this checkpoint. Raises TokenizerMismatch if the stores differ, or if a
    published model reads another token before each text.
    """
    from marin.data.token_store import before_texts
    from marin.training.checkpoint import read_facts

    before = before_texts({source.name: ctx[source].directory for source in sources})
    if start is None:
        return before
    facts = read_facts(ctx[start].directory)
    if before is None:
        return facts.before
    if facts.origin is not None and facts.before not in (None, before):
        raise TokenizerMismatch(
            f"{start.name} reads token {facts.before} before each text, and the training's texts begin after token "
            f"{before}; tokenize them with bos=True"
        )
    return before


def _sample(out: Directory, tokenizer: LoadedTokenizer) -> str:
    """Return the first documents with special tokens spelt out; a long document without its middle."""
    from marin.data.token_store import TokenStore

    store = TokenStore.open(out)
    shown: list[str] = []
    for number in range(min(SHOWN, store.meta.documents)):
        first, end = (int(place) for place in store.offsets[number : number + 2])
        middle = max(first, end - TAIL)
        head = tokenizer.decode(store.tokens[first : min(first + HEAD, middle)])
        gap = "" if first + HEAD >= middle else f" … {middle - first - HEAD:,} tokens … "
        shown.append(f"{head}{gap}{tokenizer.decode(store.tokens[middle:end])}\n")
    return "\n".join(shown)


def _tokenize_shard(work: tuple[Directory, str, Directory, str, int | None, Directory]) -> int | None:
    """Tokenize one shard. Return the number of documents that tiktoken was compared on, all with equal ids.

    None if some document differed, or if tiktoken cannot encode for this tokenizer.
    """
    import json

    import numpy as np

    from marin.data.documents import read_shard
    from marin.data.quick_bpe import Compared, QuickBpe, Unequal, can_be_quick
    from marin.data.token_store import META, check_ends, write_token_store
    from marin.data.tokenizer import TOKENIZER, check_digest, load_tokenizer

    documents, name, made, digest, bos, part = work
    if part.exists(META):
        return 0
    tokenizer = load_tokenizer(made)
    check_digest(tokenizer, digest, made)
    content = json.loads(made.read_bytes(TOKENIZER))
    quick = Compared(tokenizer, QuickBpe(content)) if can_be_quick(content) else None

    begin, end = np.array([] if bos is None else [bos], np.uint32), np.array([tokenizer.eos], np.uint32)

    def texts() -> Iterator[str]:
        return (document.text for document in read_shard(documents, name))

    def write(encode: Callable[[Iterator[str]], Iterator[Any]]) -> None:
        write_token_store(
            part,
            (np.concatenate([begin, ids, end]) for ids in encode(texts())),
            vocabulary=tokenizer.vocabulary,
            tokenizer=tokenizer.digest,
            eos=tokenizer.eos,
            bos=bos,
            may_be_empty=True,
        )
        check_ends(part, bos)

    if quick is not None:
        try:
            write(quick.encode)
            return quick.documents
        except Unequal:
            pass
    write(tokenizer.encode)
    return None
