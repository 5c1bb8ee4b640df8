"""TextFiles: a folder of one's own text, as documents."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from marin import Context, Directory, Documents, ExecutorStep
from marin.errors import BadField, GarbledDocument, InputError
from marin_operators.download import FsspecFiles

if TYPE_CHECKING:
    from marin.data.documents import Document
    from marin.data.outside_files import OutsideFile

WHERE = re.compile(r"/|~|[a-z0-9]+://")
SHARD_BYTES = 64 << 20  # small files share a shard
ENDINGS = ".txt, .md, .jsonl, .json, .ndjson (each also with .gz, .zst or .zstd) and .parquet"


class TextFiles(ExecutorStep[Documents], op="text-files", version=1):
    """The text of a folder, glob or URL, where it is: a document is a .txt or .md file, or a record of a JSON-lines or
    Parquet file.

    path: absolute, or a URL (``gs://…/*.jsonl.gz``); a folder is read with all folders below it. text_field: dotted
    name of the text in records. Files with other endings are left out and counted in the artifact's ``dropped``, as
    are empty documents. A file that is added, removed or changed later is drift.
    Raises InputError if there is no file that it can read, GarbledDocument naming one that is damaged.
    """

    path: str
    text_field: str = "text"

    def check(self) -> None:
        must_be_absolute("TextFiles.path", self.path)

    def outside(self) -> dict[str, str]:
        return FsspecFiles(urls=(self.path,)).outside()

    def outside_bytes(self) -> dict[str, int]:
        return FsspecFiles(urls=(self.path,)).outside_bytes()

    def run(self, ctx: Context) -> Documents:
        from marin.data.outside_files import list_files
        from marin.data.raw_records import is_readable, is_text

        files = list_files((self.path,))
        known = [file for file in files if is_readable(file.name) or is_text(file.name)]
        if not known:
            raise InputError(
                f"{self.path}: none of its {len(files)} files can be read, {files[0].name} for one; wanted {ENDINGS}"
            )
        shards = list(_together(known))
        work = [(shard, self.text_field, ctx.out, index, len(shards)) for index, shard in enumerate(shards)]
        written = ctx.map(_read_shard, work)
        left_out = {"empty": sum(empty for _, _, empty in written), "another ending": len(files) - len(known)}
        return Documents(
            documents=sum(count for count, _, _ in written),
            bytes=sum(size for _, size, _ in written),
            shards=len(shards),
            dropped={reason: count for reason, count in left_out.items() if count},
        )


def must_be_absolute(field: str, path: str) -> None:
    """Raises BadField, unless a path or URL means the same in every folder."""
    if not WHERE.match(path):
        raise BadField(
            f"{field} is {path!r}; wanted an absolute path or a URL, because a relative one is another folder wherever "
            "the command is given: str(Path(__file__).parent / ...) is beside the experiment"
        )


def _together(files: list[OutsideFile]) -> Iterator[list[OutsideFile]]:
    """What makes one shard: neighbours, up to SHARD_BYTES."""
    shard: list[OutsideFile] = []
    size = 0
    for file in files:
        if shard and size + file.size > SHARD_BYTES:
            yield shard
            shard, size = [], 0
        shard.append(file)
        size += file.size
    yield shard


type _Shard = tuple[list[OutsideFile], str, Directory, int, int]


def _read_shard(work: _Shard) -> tuple[int, int, int]:
    """Documents, UTF-8 bytes and empty documents of one shard."""
    from marin.data.documents import Document, write_shard

    files, text_field, out, index, shards = work
    empty = 0

    def documents() -> Iterator[Document]:
        nonlocal empty
        for file in files:
            for text in _texts(file, text_field):
                if text.strip():
                    yield Document(text, file.name)
                else:
                    empty += 1

    return (*write_shard(out, index, shards, documents()), empty)


def _texts(file: OutsideFile, text_field: str) -> Iterator[str]:
    from marin.data.raw_records import is_text, look_up, read_records, read_text

    folder, _, name = file.url.removeprefix("file://").rpartition("/")
    directory = Directory(folder)
    if is_text(name):
        yield read_text(directory, name)
        return
    for where, record in read_records(directory, name):
        text = look_up(record, text_field)
        if not isinstance(text, str):
            found = "missing" if text is None else f"of type {type(text).__name__}"
            raise GarbledDocument(
                f"{where}: the field {text_field!r} is {found}, wanted a string; the record has "
                f"{', '.join(sorted(record))}: set TextFiles.text_field"
            )
        yield text
