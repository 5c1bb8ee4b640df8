"""Serve a plan's downloads in small: one server speaks the hub's protocol, one has the listings of other publishers.

The files have the names, formats and fields that the plan's readers want. Their text comes from this Python
installation, or is generated problems if a step wants items. The plan's own filters keep most of the text.
"""

# pyright: basic
from __future__ import annotations

import functools
import gzip
import hashlib
import io
import json
import re
import string
from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count, cycle, islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from marin import Directory, Experiment
from marin.data.http_file import HttpFile
from marin.data.tokenizer import train_bpe
from marin.text.presets import CODE, PROSE
from marin.text.published import Published
from marin.text.quality import Quality
from operators.datasets.rehearsal.docstrings import DocstringForm, docstrings, write_docstrings
from operators.datasets.rehearsal.installation import reference_sections, standard_library
from operators.datasets.rehearsal.problem_forms import Form, write_problem
from operators.datasets.rehearsal.problems import Split, generate_items
from operators.download import HttpIndex, HuggingFace, ReadDocuments, ReadItems
from operators.filter import Filter
from operators.pretrained_tokenizer import PretrainedTokenizer
from operators.shrunk import Listing
from tests.operators.servers import FileServer, HubServer, serving

FILES = 3  # that fit each pattern
BYTES = 100_000  # of text in each, before it is compressed
ITEMS = 24
VOCABULARY = 512
MODULES = 60  # of the standard library, whose docstrings are prose


class ManyRepositories(HubServer):
    """The hub with several repositories, each at one commit."""

    repositories: Mapping[str, tuple[str, Mapping[str, bytes]]]

    def _answer(self, body: bool) -> None:
        asked = re.match(r"/(?:api/datasets/|datasets/)?([^/]+/[^/]+)/", self.path)
        if asked is not None and asked[1] in self.repositories:
            self.repo, (self.revision, files) = asked[1], self.repositories[asked[1]]
            self.files = dict(files)
            self.large = frozenset(name for name in files if not name.endswith((".json", ".md")))
        super()._answer(body)


@dataclass(frozen=True, kw_only=True)
class SmallHub:
    """endpoint: for HF_ENDPOINT. listings: by the real URL, which nobody asks. log: the requested paths."""

    endpoint: str
    listings: Mapping[str, Listing]
    log: list[tuple[str, str]]


@contextmanager
def small_hub(experiment: Experiment, folder: Path) -> Generator[SmallHub]:
    """Serve the files that this experiment downloads. folder: for work in progress."""
    log: list[tuple[str, str]] = []
    common: dict[str, Any] = {"log": log, "troubles": {}, "breaks": {}}
    nothing: dict[str, Any] = dict.fromkeys(("large", "lies", "gated"), frozenset[str]())
    paths, listed = _listed(experiment)
    with (
        serving(
            ManyRepositories, repositories=_repositories(experiment, folder), repo="", revision="", files={}, **common,
            **nothing,
        ) as endpoint,
        serving(FileServer, files=paths, ranges=True, etags=True, **common) as base,
    ):  # fmt: skip
        listings = {
            url: Listing(index=HttpFile(f"{base}{path}", hashlib.sha256(paths[path]).hexdigest()), base=f"{base}/")
            for url, path in listed.items()
        }
        yield SmallHub(endpoint=endpoint, listings=listings, log=log)


def _repositories(experiment: Experiment, folder: Path) -> dict[str, tuple[str, dict[str, bytes]]]:
    made: dict[str, tuple[str, dict[str, bytes]]] = {}
    for step in experiment.steps():
        if isinstance(step, HuggingFace):
            _, files = made.setdefault(step.repo, (step.revision, {"README.md": b"# Not this\n"}))
            files |= _files(experiment, step, step.patterns, step.excludes)
        elif isinstance(step, PretrainedTokenizer):
            out = folder / step.repo
            train_bpe(Directory(str(out)), islice(_texts(PROSE), 80), VOCABULARY)
            made[step.repo] = step.revision, {path.name: path.read_bytes() for path in out.iterdir()}
    return made


def _listed(experiment: Experiment) -> tuple[dict[str, bytes], dict[str, str]]:
    """Files by path of a server, their lists included; and the path of each list by the URL that is not asked."""
    paths: dict[str, bytes] = {}
    names: defaultdict[str, set[str]] = defaultdict(set)
    for step in experiment.steps():
        if isinstance(step, HttpIndex):
            files = _files(experiment, step, step.patterns, step.excludes)
            paths |= {f"/{name}": content for name, content in files.items()}
            names[step.index.url] |= files.keys()
    listed = {url: "/" + url.split("://")[1] for url in names}
    for url, path in listed.items():
        content = "\n".join(sorted(names[url])).encode()
        paths[path] = gzip.compress(content, mtime=0) if path.endswith(".gz") else content
    return paths, listed


def _files(
    experiment: Experiment, step: HuggingFace | HttpIndex, patterns: Iterable[str], excludes: Iterable[str]
) -> dict[str, bytes]:
    """By name; of those that are excluded, too."""
    named = [_name(pattern, number) for pattern in patterns for number in range(FILES)]
    records = _records(experiment, step)
    files = {name: _written(name, records) for name in dict.fromkeys(named)}
    if step.label in ("all_math", "dolmino/math"):  # both read one folder, and the bundle holds test items
        items = [{"text": write_problem(item, Form.OLMES)} for item in _items()]
        files |= {
            _name(pattern, 0): _written(pattern, iter(items)) for pattern in (*excludes, "data/math/**/test.json")
        }
    return files


def _name(pattern: str, number: int) -> str:
    """A name that fits the glob."""
    ending = "" if re.search(r"\.\w+$", pattern) else ".jsonl.gz"
    name = pattern.replace("**/", "part/").replace("**", f"part-{number:05}")
    return name.replace("*", f"{number:05}") + ending


def _records(experiment: Experiment, step: HuggingFace | HttpIndex) -> Iterator[dict[str, Any]]:
    """As the experiment's reader of these files wants them, without end."""
    [reader, *_] = [each for each in experiment.steps() if getattr(each, "files", None) == step]
    if isinstance(reader, ReadItems):
        return ({"question": item.question, "answer": item.answer} for item in _items())
    assert isinstance(reader, ReadDocuments), reader
    rules = next(
        (each.quality for each in experiment.steps() if isinstance(each, Filter) and each.documents == reader), PROSE
    )
    return (_record(reader, text, number) for number, text in enumerate(_texts(rules, start=hash_of(step.label))))


def _record(reader: ReadDocuments, text: str, number: int) -> dict[str, Any]:
    record: dict[str, Any] = {"id": str(number), "url": f"https://example.org/{number}"}
    for rule in reader.keep:
        _put(record, rule.field, rule.values[0])
    if reader.template:
        fields = [name for _, name, _, _ in string.Formatter().parse(reader.template) if name]
        return record | dict(zip(fields, (f"What is number {number}?", str(number), text), strict=True))
    _put(record, reader.text_field, text)
    return record


def _put(record: dict[str, Any], field: str, value: str) -> None:
    *outer, last = field.split(".")
    for name in outer:
        record = record.setdefault(name, {})
    record[last] = value


def _written(name: str, records: Iterator[dict[str, Any]]) -> bytes:
    """So much of the records as a file holds, in the format of its name."""
    held: list[dict[str, Any]] = []
    size = 0
    while size < BYTES and (record := next(records, None)) is not None:
        held.append(record)
        size += len(json.dumps(record))
    if name.endswith(".parquet"):
        out = io.BytesIO()
        pq.write_table(pa.Table.from_pylist(held), out)
        return out.getvalue()
    lines = "".join(json.dumps(record) + "\n" for record in held).encode()
    if name.endswith(".gz"):
        return gzip.compress(lines, mtime=0)
    return zstandard.compress(lines) if name.endswith((".zst", ".zstd")) else lines


def _texts(rules: Quality | Published, start: int = 0) -> Iterator[str]:
    """Round and round, each time with other words at the end; four of five that the rules keep."""
    kept = _pool(rules)
    start %= len(kept)
    for turn, text in zip(count(), cycle(kept[start:] + kept[:start]), strict=False):
        yield text
        if turn % 4 == 3:
            yield f"{turn} - - -"  # of which no rule keeps any


@functools.cache
def _pool(rules: Quality | Published) -> list[str]:
    modules = [module for module in standard_library() if module.size]
    texts = [module.source() for module in modules if module.size < BYTES // 2]
    if rules != CODE:
        texts = [text for _, text in reference_sections()]
        for module in modules[:MODULES]:
            texts += [
                write_docstrings(group, DocstringForm.PROSE) for group in docstrings(module.name, module.source())
            ]
    return [text for text in texts if len(text) > 300 and rules.judge(text).reason is None]


def _items() -> Any:
    return generate_items(8000, ITEMS, Split.TEST)


def hash_of(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4])
