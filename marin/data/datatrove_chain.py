"""Run documents through blocks of datatrove, and record each dropped document with its reason."""

# pyright: basic
from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from marin.data.documents import Document
from marin.data.dropped import Dropped
from marin.errors import BadField

NEITHER = ("datatrove.pipeline.readers", "datatrove.pipeline.writers", "datatrove.pipeline.tokens")
# Warnings of a reader to ignore: a text without content (counted anyway), and a shard without a file.
EXPECTED = ("Found document without text", "No files found")
REASON = "filter_reason"  # the metadata key where a filter of datatrove writes its reason


class _KeptBack:
    """A stand-in for a filter's exclusion_writer that collects the reasons by document number."""

    def __init__(self) -> None:
        self.reasons: dict[str, str] = {}

    def __enter__(self) -> _KeptBack:
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing: there is no file to close."""

    def write(self, document: Any, rank: int) -> None:
        del rank
        self.reasons[document.id] = document.metadata.get(REASON, "")


def through(
    blocks: Sequence[Any], documents: Iterable[Document], shard: int, shards: int
) -> Iterator[Document | Dropped]:
    """Yield the documents that leave the last block, in its order, then the dropped ones in order of input.

    blocks: datatrove blocks that have not run yet. A document that a block creates has no source.
    Raises BadField for an object that is not a block, or for a block that reads or writes files.
    """
    from datatrove.data import Document as TheirDocument

    for block in blocks:
        _must_be_a_block(block)
    known: dict[str, tuple[str, str, int]] = {}  # by number: id, source and UTF-8 bytes
    entered: list[set[str]] = [set() for _ in range(len(blocks) + 1)]
    kept_back = [_KeptBack() for _ in blocks]

    def given() -> Iterator[Any]:
        for number, document in enumerate(documents):
            known[str(number)] = (document.id, document.source, len(document.text.encode()))
            yield TheirDocument(text=document.text, id=str(number), metadata=dict(document.metadata))

    def noted(data: Iterable[Any], number: int) -> Iterator[Any]:
        for document in data:
            entered[number].add(document.id)
            yield document

    data = noted(given(), 0)
    for number, (block, back) in enumerate(zip(blocks, kept_back, strict=True)):
        if hasattr(block, "exclusion_writer"):
            block.exclusion_writer = back
        data = noted(block.run(data, shard, shards), number + 1)
    for document in data:
        _, source, _ = known.get(document.id, ("", "", 0))
        yield Document(document.text, source, document.metadata)
    for number, (id, _, size) in known.items():
        if number in entered[-1]:
            continue
        last = max(place for place, seen in enumerate(entered) if number in seen)
        block = type(blocks[last]).__name__
        yield Dropped(id, kept_back[last].reasons.get(number) or block, {"block": block}, size)


def read_through(blocks: Sequence[Any], shard: int, shards: int) -> Iterator[Document | Dropped]:
    """Run the documents of the chain's own reader through its other blocks, like ``through``.

    Text that the reader could not read follows at the end. Raises BadField for a chain without a reader of files.
    """
    reader, *others = _with_reader(blocks)
    lost: list[Dropped] = []
    with _hearing(reader, lost):
        yield from through(others, _read(reader, shard, shards), shard, shards)
    yield from lost


def files_read(blocks: Sequence[Any]) -> str:
    """Return the folder or glob that the chain's reader reads. Raises BadField if the chain begins with no reader."""
    reader = _with_reader(blocks)[0]
    folder = reader.data_folder
    place = folder.path if "file" in folder.fs.protocol else folder.fs.unstrip_protocol(folder.path)
    return f"{place}/{reader.glob_pattern}" if reader.glob_pattern else place


def _with_reader(blocks: Sequence[Any]) -> Sequence[Any]:
    from datatrove.pipeline.readers.base import BaseDiskReader

    if not blocks or not isinstance(blocks[0], BaseDiskReader):
        named = type(blocks[0]).__name__ if blocks else "nothing"
        raise BadField(
            f"a chain of datatrove begins with {named}; without documents= it must begin with a reader of files, such "
            "as JsonlReader"
        )
    if blocks[0].paths_file is not None:
        raise BadField(f"{type(blocks[0]).__name__} has a paths_file; give data_folder and glob_pattern instead")
    return blocks


def _read(reader: Any, shard: int, shards: int) -> Iterator[Document]:
    for document in reader.run(None, shard, shards):
        path = document.metadata.pop("file_path", "")
        yield Document(document.text, path.removeprefix(reader.data_folder.path).lstrip("/"), document.metadata)


@contextmanager
def _hearing(reader: Any, lost: list[Dropped]) -> Iterator[None]:
    """Collect the text that a reader skips into ``lost``, because the reader only logs it.

    The reader logs empty text once, and each damaged line or file.
    """
    from datatrove.utils.logging import logger

    made = reader.adapter

    def adapter(data: Any, path: str, at: Any) -> Any:
        found = made(data, path, at)
        if not found.get("text"):
            lost.append(Dropped(f"{path}/{at}", "empty"))
        return found

    here = threading.get_ident()  # another thread may be reading another shard

    def warned(message: Any) -> None:
        text = message.record["message"]
        if message.record["thread"].id == here and not text.startswith(EXPECTED):
            lost.append(Dropped(f"warning {len(lost)}", "not read", {"why": text}))

    reader.adapter = adapter
    sink = logger.add(warned, level="WARNING", filter="datatrove")
    try:
        yield
    finally:
        logger.remove(sink)


def _must_be_a_block(block: Any) -> None:
    from datatrove.pipeline.base import PipelineStep

    if not isinstance(block, PipelineStep):
        raise BadField(f"a chain of datatrove holds {block!r}; wanted a block, such as GopherQualityFilter()")
    if type(block).__module__.startswith(NEITHER):
        raise BadField(
            f"a chain of datatrove holds {type(block).__name__}, which reads or writes files; marin does that itself. "
            "Give only the blocks between, or omit documents= and begin with the reader"
        )
    if getattr(block, "exclusion_writer", None) is not None:
        raise BadField(
            f"{type(block).__name__} has an exclusion_writer; remove it. marin keeps dropped documents with the output"
        )
