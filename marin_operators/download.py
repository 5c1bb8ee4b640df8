"""Data from outside: the Hugging Face hub by pinned commit, HTTP by checksum, any fsspec URL; and reading it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from marin import Context, Directory, Documents, ExecutorStep, Items, RawFiles, Size, execution, value
from marin.data.http_file import HttpFile
from marin.errors import BadField, GarbledDocument, InputError, MissingRevision

if TYPE_CHECKING:
    from marin.data.documents import Document
    from marin.data.outside_files import OutsideFile

COMMIT = re.compile(r"[0-9a-f]{40}")
SHA256 = re.compile(r"[0-9a-f]{64}")


class HuggingFace(ExecutorStep[RawFiles], op="download-hf", version=1):
    """Files of a dataset on the Hugging Face hub, at one commit.

    revision: 40 hex digits; a branch or tag moves, so it is refused. patterns: globs over paths in the
    repository, ``**`` crosses folders. size: as published, where somebody counted; plans go by it.
    Raises MissingRevision at construction for anything but a commit.
    """

    repo: str
    revision: str
    patterns: tuple[str, ...] = ("**",)
    size: Size | None = execution(default=None)

    def expected_size(self, inputs: Mapping[ExecutorStep[Any], Size]) -> Size | None:
        return self.size

    def check(self) -> None:
        if not COMMIT.fullmatch(self.revision):
            given = f"{self.revision!r} is not a commit" if self.revision else "no revision is given"
            raise MissingRevision(
                f"{self.repo}: {given}; pin the 40 hex digits of one, which the dataset's page shows under "
                "Files → History (a branch or tag can move under you)"
            )
        if not self.patterns:
            raise BadField(f"HuggingFace({self.repo}).patterns is empty; wanted at least one glob")

    def run(self, ctx: Context) -> RawFiles:
        from marin.data.fetching import list_hub_files

        files = list_hub_files(self.repo, self.revision, self.patterns)
        work = [(self.repo, self.revision, *file, ctx.out, ctx.state) for file in files]
        sizes = ctx.map(_fetch_hub_file, work)
        return RawFiles(files=len(sizes), bytes=sum(sizes))


def _fetch_hub_file(work: tuple[str, str, str, int, str, Directory, Directory]) -> int:
    from marin.data.fetching import fetch_hub_file

    return fetch_hub_file(*work)


class HttpFiles(ExecutorStep[RawFiles], op="download-http", version=1):
    """Files by URL, each with its checksum; an interrupted download goes on where it stopped."""

    files: tuple[HttpFile, ...]

    def check(self) -> None:
        _check_files("HttpFiles", self.files)

    def run(self, ctx: Context) -> RawFiles:
        sizes = ctx.map(_fetch_http, [(file, ctx.out, ctx.state) for file in self.files])
        return RawFiles(files=len(sizes), bytes=sum(sizes))


class HttpIndex(ExecutorStep[RawFiles], op="download-http-index", version=1):
    """The files that a pinned listing names, filtered by globs over its paths: how Common Crawl publishes.

    base: what each path is appended to. The listing's checksum pins names, not contents; the output's
    manifest has the checksum of every file that came. size: as published, where somebody counted.
    """

    index: HttpFile
    base: str
    patterns: tuple[str, ...]
    size: Size | None = execution(default=None)

    def expected_size(self, inputs: Mapping[ExecutorStep[Any], Size]) -> Size | None:
        return self.size

    def check(self) -> None:
        _check_files("HttpIndex", (self.index,))
        if not self.patterns:
            raise BadField(f"HttpIndex({self.index.url}).patterns is empty; wanted at least one glob")

    def run(self, ctx: Context) -> RawFiles:
        from marin.data.fetching import matches, read_index

        paths = read_index(self.index, ctx.state / "index", ctx.state)
        chosen = [path for path in paths if matches(path, self.patterns)]
        if not chosen:
            raise InputError(
                f"{self.index.url}: none of its {len(paths)} paths matches {', '.join(self.patterns)}; "
                f"they look like {paths[0] if paths else 'nothing'}"
            )
        work = [(HttpFile(self.base + path, "", path), ctx.out, ctx.state) for path in chosen]
        sizes = ctx.map(_fetch_http, work)
        return RawFiles(files=len(sizes), bytes=sum(sizes))


def _fetch_http(work: tuple[HttpFile, Directory, Directory]) -> int:
    from marin.data.fetching import fetch_http

    return fetch_http(*work)


def _check_files(operator: str, files: tuple[HttpFile, ...]) -> None:
    if not files:
        raise BadField(f"{operator}.files is empty; wanted at least one HttpFile")
    for file in files:
        if not file.url.startswith(("http://", "https://")):
            raise BadField(f"{operator}: {file.url!r} is not an http(s) URL; use FsspecFiles for others")
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
    """Files of any fsspec URL, glob or folder (``gs://…/*.parquet``, ``/data/part-*``); names below the fixed part.

    A file that is added, removed or changed later is drift; the bytes that come are those that were planned.
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

        sizes = ctx.map(_copy_file, [(file, ctx.out) for file in list_files(self.urls)])
        return RawFiles(files=len(sizes), bytes=sum(sizes))


def _copy_file(work: tuple[OutsideFile, Directory]) -> int:
    from marin.data.outside_files import copy_file

    return copy_file(*work)


@value("keep")
class Keep:
    """Only records whose field (dotted: ``metadata.extension``) holds one of these values."""

    field: str
    values: tuple[str, ...]


class ReadDocuments(ExecutorStep[Documents], op="read-documents", version=1):
    """Documents out of downloaded files: JSON lines (plain, gzip, zstd) or Parquet; one shard a file.

    text_field: dotted name of the text. template: instead, ``str.format`` over the record's fields,
    for question/answer tables. keep: conditions that a record must meet; others are dropped, counted by field.
    """

    files: ExecutorStep[RawFiles]
    text_field: str = "text"
    template: str = ""
    keep: tuple[Keep, ...] = ()

    def expected_size(self, inputs: Mapping[ExecutorStep[Any], Size]) -> Size | None:
        return inputs.get(self.files)  # both are compressed

    def run(self, ctx: Context) -> Documents:
        from marin.data.raw_records import is_readable

        raw = ctx[self.files].directory
        names = [name for name in raw.names() if is_readable(name)]
        if not names:
            raise GarbledDocument(
                f"{raw.url}: no .parquet or JSON-lines file among {', '.join(raw.names()[:5]) or 'none'}"
            )
        wanted = (self.text_field, self.template, self.keep)
        work = [(raw, name, *wanted, ctx.out, index, len(names)) for index, name in enumerate(names)]
        made = ctx.map(_read_file, work)
        dropped: dict[str, int] = {}
        for _, _, reasons in made:
            for reason, count in reasons.items():
                dropped[reason] = dropped.get(reason, 0) + count
        return Documents(
            documents=sum(count for count, _, _ in made),
            bytes=sum(size for _, size, _ in made),
            shards=len(names),
            dropped=dict(sorted(dropped.items())),
        )


type _Reading = tuple[Directory, str, str, str, tuple[Keep, ...], Directory, int, int]


def _read_file(work: _Reading) -> tuple[int, int, dict[str, int]]:
    from marin.data.documents import Document, write_shard
    from marin.data.raw_records import look_up, read_records

    raw, name, text_field, template, keep, out, index, shards = work
    dropped: dict[str, int] = {}

    def documents() -> Iterator[Document]:
        for where, record in read_records(raw, name):
            reason = next((rule.field for rule in keep if str(look_up(record, rule.field)) not in rule.values), None)
            text = _fill(template, record, where) if template else look_up(record, text_field)
            if reason is None and isinstance(text, str) and not text.strip():
                reason = "empty"
            if reason is not None:
                dropped[reason] = dropped.get(reason, 0) + 1
            elif isinstance(text, str):
                yield Document(text, name)
            else:
                found = "missing" if text is None else f"a {type(text).__name__}"
                raise GarbledDocument(
                    f"{where}: the field {text_field!r} is {found}, "
                    f"wanted a string; the record has {', '.join(sorted(record))}: set text_field or template"
                )

    count, size = write_shard(out, index, shards, documents())
    return count, size, dropped


def _fill(template: str, record: dict[str, Any], where: str) -> str:
    try:
        return template.format(**record)
    except (KeyError, IndexError) as error:
        raise GarbledDocument(
            f"{where}: the template asks for {error}, the record has {', '.join(sorted(record))}"
        ) from error


class ReadItems(ExecutorStep[Items], op="read-items", version=1):
    """Evaluation items out of downloaded files with the fields ``question`` and ``answer``, GSM8K style."""

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
