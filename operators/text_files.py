"""TextFiles: read a folder of your own text as documents."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from marin import Context, Directory, Documents, ExecutorStep, execution
from marin.errors import BadField, InputError
from operators.download import FsspecFiles, check_max_bad

if TYPE_CHECKING:
    from marin.data.dropped import Dropped, Sieved
    from marin.data.outside_files import OutsideFile

WHERE = re.compile(r"/|~|[a-z0-9]+://")
SHARD_BYTES = 64 << 20  # small files share a shard
ENDINGS = ".txt, .md, .jsonl, .json, .ndjson (each also with .gz, .zst or .zstd) and .parquet"


class TextFiles(ExecutorStep[Documents], op="text-files", version=2):
    """Documents read in place from a folder, glob or URL: .txt and .md files, and JSON-lines and Parquet records.

    path: absolute, a URL (``gs://…/*.jsonl.gz``), or relative to the file ``beside`` (``__file__``), so that a project
    can move. A folder includes all folders below it. text_field: dotted name of the text in records; their other fields
    become metadata. The step leaves out files with other endings and empty documents, and counts both in the artifact's
    ``dropped``. A file that is added, removed or changed later shows as drift. max_bad: the number of records and files
    that may be unusable, as in ReadDocuments.
    Raises InputError if there is no file that it can read; GarbledDocument, naming the file, for a damaged one.
    """

    path: str
    text_field: str = "text"
    max_bad: int = 0
    beside: str = execution(default="")

    def check(self) -> None:
        if not self.beside:
            must_be_absolute("TextFiles.path", self.path, "with beside=__file__ it is relative to that file")
        check_max_bad("TextFiles", self.max_bad)

    def outside(self) -> dict[str, str]:
        from marin.data.outside_files import list_files, outside_files

        if self.place == self.path:
            return outside_files(self.path)
        folder = os.path.dirname(os.path.abspath(self.beside))
        files = list_files((self.place,))
        return {os.path.relpath(file.written, folder): f"{file.size:,} bytes, {file.mark}" for file in files}

    def outside_bytes(self) -> dict[str, int]:
        return FsspecFiles(urls=(self.place,)).outside_bytes()

    @property
    def place(self) -> str:
        """Return the place of ``path`` on this machine."""
        if WHERE.match(self.path):
            return self.path
        return os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(self.beside)), self.path))

    def run(self, ctx: Context) -> Documents:
        from marin.data.dropped import Sieved
        from marin.data.outside_files import list_files
        from marin.data.raw_records import documents_of, is_readable, is_text

        files = list_files((self.place,))
        known = [file for file in files if is_readable(file.name) or is_text(file.name)]
        if not known:
            raise InputError(
                f"{self.place}: none of its {len(files)} files can be read, such as {files[0].name}; wanted {ENDINGS}"
            )
        shards = list(_together(known))
        work = [(shard, self.text_field, self.max_bad, at, len(shards)) for at, shard in enumerate(shards)]
        others = len(files) - len(known)
        return documents_of(self.name, ctx.write_shards(_read_shard, work, Sieved), others, self.max_bad, ctx.out)


def must_be_absolute(field: str, path: str, remedy: str) -> None:
    """Check that a path or URL means the same in every working folder. Raises BadField."""
    if not WHERE.match(path):
        raise BadField(
            f"{field} is {path!r}; wanted an absolute path or a URL, because a relative path depends on the folder of "
            f"the command; {remedy}"
        )


def _together(files: list[OutsideFile]) -> Iterator[list[OutsideFile]]:
    """Group neighbouring files into shards of up to SHARD_BYTES."""
    shard: list[OutsideFile] = []
    size = 0
    for file in files:
        if shard and size + file.size > SHARD_BYTES:
            yield shard
            shard, size = [], 0
        shard.append(file)
        size += file.size
    yield shard


type _Shard = tuple[list[OutsideFile], str, int, int, int]


def _read_shard(work: _Shard, out: Directory) -> Sieved:
    from marin.data.documents import Document
    from marin.data.raw_records import read_texts, write_readable

    files, text_field, max_bad, index, shards = work

    def texts() -> Iterator[Document | Dropped]:
        for file in files:
            folder, _, name = file.url.removeprefix("file://").rpartition("/")
            for text in read_texts(Directory(folder), name, text_field=text_field, strict=max_bad == 0):
                # The source is the name in the folder, so that the folder can move.
                yield replace(text, source=file.name) if isinstance(text, Document) else text

    return write_readable(out, index, shards, texts())
