"""Tokenize: the token store of a document set."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from marin import Checkpoint, Context, Directory, Documents, ExecutorStep, Size, Tokenizer, Tokens, since
from marin.errors import BadField, InputError, TokenizerMismatch

if TYPE_CHECKING:
    from marin.data.tokenizer import LoadedTokenizer

BYTES_PER_ID = 4  # 2 with a vocabulary of at most 65,536
SHOWN, HEAD, TAIL = 5, 100, 20  # documents of the sample, and tokens of each


class Tokenize(ExecutorStep[Tokens], op="tokenize", version=1):
    """Token store of a document set, one tokenizer; every document ends with the tokenizer's eos.

    bos: whether every document begins with the tokenizer's bos. Both are looked for in what was written: there, and
    nowhere else. ``sample.txt`` shows the first documents as a model reads them.

    A task a shard; the shards that are done stay done when the step is killed. Memory: 8 bytes a document. Encoded by
    tiktoken where that gives equal ids (marin.data.quick_bpe), else by the tokenizer itself; the log says which.
    Raises InputError for bos with a tokenizer that has none.
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
            f"{len(compared)} of {len(names)} shards by tiktoken, {sum(compared):,} of their documents compared with "
            "tokenizers: equal; the others by tokenizers"
        )
        meta = join_token_stores([parts / name for name in names], ctx.out)
        ctx.out.write_text("sample.txt", _sample(ctx.out, tokenizer))
        return Tokens(
            tokens=meta.tokens, documents=meta.documents, vocabulary=meta.vocabulary, tokenizer=meta.tokenizer
        )


def must_begin_alike(sources: Iterable[ExecutorStep[Tokens]], training: str) -> None:
    """Raises BadField where some text of a training begins with bos and some does not, as far as those are steps."""
    begins = {source.bos: source.name for source in sources if isinstance(source, Tokenize)}
    if len(begins) > 1:
        raise BadField(
            f"{training}: {begins[True]} has bos=True and {begins[False]} has not; wanted the same for all text of a "
            "run, because scorers begin each text as in training"
        )


def token_before_texts(
    ctx: Context, sources: Iterable[ExecutorStep[Tokens]], start: ExecutorStep[Checkpoint] | None
) -> int | None:
    """Return the id that stands before each text of a training. start: the model that it goes on from.

    A training on chats alone takes that of the model. Raises TokenizerMismatch where stores differ, and where a
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
    """The first documents, special tokens spelt out, a long one without its middle."""
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
    """Returns how many documents had equal ids both ways; None if not all had, or there is one way only."""
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
