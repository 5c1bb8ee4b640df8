"""Download data from the Hugging Face hub by pinned commit, HTTP by checksum, or any fsspec URL; and read the files."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from marin import Context, Directory, Documents, ExecutorStep, Items, RawFiles, Size, execution, since, value
from marin.data.http_file import HttpFile
from marin.errors import BadField, GarbledDocument, MissingRevision

if TYPE_CHECKING:
    from marin.data.dropped import Sieved
    from marin.data.fetching import Fetched
    from marin.data.hub import HubFile
    from marin.data.outside_files import OutsideFile

COMMIT = re.compile(r"[0-9a-f]{7,40}")
SHA256 = re.compile(r"[0-9a-f]{64}")


class HuggingFace(ExecutorStep[RawFiles], op="download-hf", version=1):
    """Files of a dataset on the Hugging Face hub, at one commit.

    revision: a commit of 40 hex digits. If only the first digits were published, give at least seven; the files are
    then of the one commit that begins with them, and the log has its full digits. A branch or tag can move, so marin
    refuses it.
    patterns: globs over paths in the repository; ``**`` crosses folders. excludes: globs over matching files to leave
    out; each must fit a file. most: the most files, spread evenly over the remaining files. size: the published size,
    which plans use. Raises MissingRevision at construction for anything but a commit.
    """

    repo: str
    revision: str
    patterns: tuple[str, ...] = ("**",)
    excludes: tuple[str, ...] = since(1, default=())
    most: int | None = since(1, default=None)
    size: Size | None = execution(default=None)

    def expected_size(self, inputs: Mapping[ExecutorStep[Any], Size]) -> Size | None:
        return self.size

    def check(self) -> None:
        _check_most(f"HuggingFace({self.repo})", self.most)
        if not COMMIT.fullmatch(self.revision):
            given = f"{self.revision!r} is not a commit" if self.revision else "no revision is given"
            raise MissingRevision(
                f"{self.repo}: {given}; pin the 40 hex digits of a commit, which the dataset's page shows under "
                "Files → History (a branch or tag can move)"
            )
        if not self.patterns:
            raise BadField(f"HuggingFace({self.repo}).patterns is empty; wanted at least one glob")

    def hub_repository(self) -> str:
        return self.repo

    def run(self, ctx: Context) -> RawFiles:
        from marin.data.chosen_files import spread
        from marin.data.hub import list_hub_files

        commit, files = list_hub_files(self.repo, self.revision, self.patterns, self.excludes)
        work = [(self.repo, commit, file, ctx.out, ctx.state) for file in spread(files, self.most)]
        return _came(ctx, ctx.map(_fetch_hub_file, work))


def _fetch_hub_file(work: tuple[str, str, HubFile, Directory, Directory]) -> Fetched:
    from marin.data.hub import fetch_hub_file

    return fetch_hub_file(*work)


class HttpFiles(ExecutorStep[RawFiles], op="download-http", version=1):
    """Files by URL, each with its checksum. An interrupted download resumes at the byte where it stopped."""

    files: tuple[HttpFile, ...]

    def check(self) -> None:
        _check_files("HttpFiles", self.files)

    def run(self, ctx: Context) -> RawFiles:
        return _came(ctx, ctx.map(_fetch_http, [(file, ctx.out, ctx.state) for file in self.files]))


class HttpIndex(ExecutorStep[RawFiles], op="download-http-index", version=1):
    """The files that a pinned listing names, filtered by globs over its paths; see ``common_crawl``.

    base: the beginning of every file's URL; a path in the listing may leave it out. excludes: globs over matching paths
    to leave out; each must fit a path. most: the most files, spread evenly over the remaining paths. size: the
    published size. The listing's checksum pins names, not contents; the output's manifest has the checksum of every
    file.
    """

    index: HttpFile
    base: str
    patterns: tuple[str, ...]
    excludes: tuple[str, ...] = since(1, default=())
    most: int | None = since(1, default=None)
    size: Size | None = execution(default=None)

    def expected_size(self, inputs: Mapping[ExecutorStep[Any], Size]) -> Size | None:
        return self.size

    def check(self) -> None:
        _check_files("HttpIndex", (self.index,))
        _check_most(f"HttpIndex({self.index.url})", self.most)
        if not self.patterns:
            raise BadField(f"HttpIndex({self.index.url}).patterns is empty; wanted at least one glob")

    def run(self, ctx: Context) -> RawFiles:
        from marin.data.chosen_files import chosen, spread
        from marin.data.fetching import read_index

        listed = [path.removeprefix(self.base) for path in read_index(self.index, ctx.state)]
        paths = chosen(listed, self.patterns, self.excludes, self.index.url)
        files = [HttpFile(self.base + path, "", path) for path in spread(paths, self.most)]
        return _came(ctx, ctx.map(_fetch_http, [(file, ctx.out, ctx.state) for file in files]))


def common_crawl(
    crawl: str,
    sha256: str,
    *,
    prefixes: tuple[str, ...] = ("",),
    most: int | None = None,
    base: str = "https://data.commoncrawl.org/",
    label: str = "",
) -> HttpIndex:
    """Return a step with the WARC files of one crawl (``CC-MAIN-2024-10``).

    sha256: the checksum of its ``warc.paths.gz``. prefixes: beginnings of the paths below ``segments/``; the prefix of
    one segment is ``1707947473360.9/``. most: the most files, spread evenly.
    """
    folder = f"crawl-data/{crawl}"
    patterns = tuple(f"{folder}/segments/{prefix}**" for prefix in prefixes)
    index = HttpFile(f"{base}{folder}/warc.paths.gz", sha256)
    return HttpIndex(index=index, base=base, patterns=patterns, most=most, label=label or crawl.lower())


def _fetch_http(work: tuple[HttpFile, Directory, Directory]) -> Fetched:
    from marin.data.fetching import fetch_http

    return fetch_http(*work)


def _came(ctx: Context, files: Sequence[Fetched]) -> RawFiles:
    """Return the artifact, and log each file's origin and the publisher's checksum that it passed."""
    ctx.log("\n".join(["files that came:", *(f"  {file.line()}" for file in files)]))
    return RawFiles(files=len(files), bytes=sum(file.bytes for file in files))


def _check_most(operator: str, most: int | None) -> None:
    if most is not None and most < 1:
        raise BadField(f"{operator}.most is {most}; wanted at least 1, or None for all")


def _check_files(operator: str, files: tuple[HttpFile, ...]) -> None:
    if not files:
        raise BadField(f"{operator}.files is empty; wanted at least one HttpFile")
    for file in files:
        if not file.url.startswith(("http://", "https://")):
            raise BadField(f"{operator}: {file.url!r} is not an http(s) URL; use FsspecFiles for other URLs")
        if not SHA256.fullmatch(file.sha256):
            raise BadField(
                f"{operator}: the sha256 of {file.url} is {file.sha256!r}; wanted 64 hex digits "
                "(`sha256sum` prints them; the publisher often does too)"
            )
    names = [file.path for file in files]
    for name in names:
        if names.count(name) > 1 or name.startswith("/") or ".." in name.split("/"):
            raise BadField(
                f"{operator}: the file name {name!r} is taken twice or leaves the output; give HttpFile.name"
            )


class FsspecFiles(ExecutorStep[RawFiles], op="download-files", version=1):
    """Files of any fsspec URL, glob or folder (``gs://…/*.parquet``, ``/data/part-*``), named below the fixed part.

    A file that is added, removed or changed later shows as drift. The step copies the same bytes that the plan saw.
    """

    urls: tuple[str, ...]

    def check(self) -> None:
        if not self.urls:
            raise BadField("FsspecFiles.urls is empty; wanted at least one URL or path")

    def outside(self) -> dict[str, str]:
        from marin.data.outside_files import outside_files

        return outside_files(*self.urls)

    def outside_bytes(self) -> dict[str, int]:
        from marin.data.outside_files import list_files

        remote = tuple(url for url in self.urls if url.startswith(("gs://", "gcs://", "s3://")))
        return {file.url: file.size for file in list_files(remote)} if remote else {}

    def run(self, ctx: Context) -> RawFiles:
        from marin.data.outside_files import list_files

        sizes = ctx.map(_copy_file, [(file, ctx.out, ctx.state) for file in list_files(self.urls)])
        return RawFiles(files=len(sizes), bytes=sum(sizes))


def _copy_file(work: tuple[OutsideFile, Directory, Directory]) -> int:
    from marin.data.outside_files import copy_file

    return copy_file(*work)


@value("keep")
class Keep:
    """A condition that keeps only records whose field (dotted: ``metadata.extension``) holds one of these values."""

    field: str
    values: tuple[str, ...]


class ReadDocuments(ExecutorStep[Documents], op="read-documents", version=2):
    """Documents out of downloaded files: JSON lines (plain, gzip, zstd) or Parquet; one shard a file.

    text_field: dotted name of the text. template: instead, ``str.format`` over the record's fields, for tables of
    questions and answers. All other fields of a record become the document's metadata. keep: conditions that a record
    must meet; other records are dropped and counted by field. max_bad: the number of unusable records (no JSON, no
    text, no Unicode) and damaged files, together, that the step tolerates. ``dropped`` counts them, and the sidecar
    lists them with file, line and reason. With 0 the first one stops the step.
    Raises GarbledDocument for more than max_bad, or if there is no document at all.
    """

    files: ExecutorStep[RawFiles]
    text_field: str = "text"
    template: str = ""
    keep: tuple[Keep, ...] = ()
    max_bad: int = 0

    def check(self) -> None:
        check_max_bad("ReadDocuments", self.max_bad)

    def expected_size(self, inputs: Mapping[ExecutorStep[Any], Size]) -> Size | None:
        return inputs.get(self.files)  # both are compressed

    def run(self, ctx: Context) -> Documents:
        from marin.data.dropped import Sieved
        from marin.data.raw_records import documents_of, is_readable

        raw = ctx[self.files].directory
        there = raw.names()
        names = [name for name in there if is_readable(name)]
        if not names:
            raise GarbledDocument(f"{raw.url}: no .parquet or JSON-lines file among {', '.join(there[:5]) or 'none'}")
        wanted = (self.text_field, self.template, self.keep, self.max_bad)
        work = [(raw, name, *wanted, index, len(names)) for index, name in enumerate(names)]
        others = len(there) - len(names)
        return documents_of(self.name, ctx.write_shards(_read_file, work, Sieved), others, self.max_bad, ctx.out)


def check_max_bad(operator: str, most: int) -> None:
    """Check that max_bad is a number of records. Raises BadField."""
    if most < 0:
        raise BadField(f"{operator}.max_bad is {most}; wanted a number of records, 0 for none")


type _Reading = tuple[Directory, str, str, str, tuple[Keep, ...], int, int, int]


def _read_file(work: _Reading, out: Directory) -> Sieved:
    from marin.data.raw_records import read_texts, write_readable

    raw, name, text_field, template, keep, max_bad, index, shards = work
    texts = read_texts(
        raw,
        name,
        text_field=text_field,
        template=template,
        keep=[(rule.field, rule.values) for rule in keep],
        strict=max_bad == 0,
    )
    return write_readable(out, index, shards, texts)


class ReadItems(ExecutorStep[Items], op="read-items", version=1):
    """Evaluation items out of downloaded files with the fields ``question`` and ``answer``, in the style of GSM8K."""

    files: ExecutorStep[RawFiles]

    def run(self, ctx: Context) -> Items:
        from marin.data.raw_records import is_readable, read_records
        from marin.evaluation.formats import split_answer
        from marin.evaluation.items import Item, write_items

        raw, items = ctx[self.files].directory, list[Item]()
        for name in filter(is_readable, raw.names()):
            for where, record in read_records(raw, name):
                question, answer = record.get("question"), record.get("answer")
                if not isinstance(question, str) or not isinstance(answer, str):
                    raise GarbledDocument(f"{where}: wanted the strings question and answer, found {', '.join(record)}")
                items.append(Item(f"{name}-{len(items)}", question, answer, split_answer(answer)[1]))
        return Items(items=write_items(ctx.out, items))
