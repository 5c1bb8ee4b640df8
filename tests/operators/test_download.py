"""Downloads against real local servers and stores: resume, checksums, missing revisions; and reading files."""

from __future__ import annotations

import datetime
import gzip
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from marin.data.artifacts import RawFiles
from marin.data.chosen_files import matches
from marin.data.documents import read_documents
from marin.data.dropped import read_dropped
from marin.data.http_file import HttpFile
from marin.data.outside_files import copy_file, list_files
from marin.errors import BadField, GarbledDocument, InputError, MissingRevision, TruncatedShard
from marin.evaluation.items import read_items
from marin.store.files.directory import Directory
from operators.download import FsspecFiles, HttpFiles, HttpIndex, HuggingFace, Keep, ReadDocuments, ReadItems
from tests.operators.running import Given, RunningStep, file_bytes, run_step
from tests.operators.servers import FileServer, HubServer, serving

COMMIT = "0123456789abcdef0123456789abcdef01234567"
BIG = bytes(range(256)) * 9000  # 2.3 MB


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def files_server(files: dict[str, bytes], breaks: dict[str, int] | None = None, ranges: bool = True):
    log: list[tuple[str, str]] = []
    return serving(FileServer, files=files, breaks=breaks or {}, ranges=ranges, log=log, troubles={}), log


def test_http_files_come_whole_and_checked(tmp_path: Path) -> None:
    server, _ = files_server({"/a/one.bin": BIG, "/two.bin": b"two"})
    with server as base:
        step = HttpFiles(
            files=(HttpFile(f"{base}/a/one.bin", sha(BIG)), HttpFile(f"{base}/two.bin", sha(b"two"), "in/2.bin"))
        )
        made = run_step(step, {}, tmp_path)
    assert file_bytes(made.directory) == {"one.bin": BIG, "in/2.bin": b"two"}
    assert (made.files, made.bytes) == (2, len(BIG) + 3)


class LockedServer(FileServer):
    """A server that wants a login, or redirects requests with a login to another server. logins: all that arrived."""

    elsewhere: str
    logins: list[str]

    def do_GET(self) -> None:
        self.logins.append(self.headers.get("Authorization", ""))
        if not self.elsewhere:
            super().do_GET()
            return
        self.send_response(302 if self.logins[-1] else 401)
        self.send_header("Location", f"{self.elsewhere}{self.path}")
        self.send_header("Content-Length", "0")
        self.end_headers()


def test_a_login_comes_from_netrc_and_goes_no_further(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    shared = {"files": {"/one.bin": b"one"}, "breaks": {}, "ranges": True, "log": [], "troubles": {}}
    first, second = list[str](), list[str]()
    with (
        serving(LockedServer, **shared, elsewhere="", logins=second) as there,
        serving(LockedServer, **shared, elsewhere=there, logins=first) as base,
    ):
        step = HttpFiles(files=(HttpFile(f"{base}/one.bin", sha(b"one")),))
        with pytest.raises(InputError, match="401"):
            run_step(step, {}, tmp_path / "without")
        (tmp_path / ".netrc").write_text("machine 127.0.0.1 login ada password pa55\n")
        (tmp_path / ".netrc").chmod(0o600)
        assert file_bytes(run_step(step, {}, tmp_path / "with").directory) == {"one.bin": b"one"}
    assert first == ["", "Basic YWRhOnBhNTU="]
    assert second == [""]


def test_a_broken_connection_is_continued_from_the_byte_that_is_missing(tmp_path: Path) -> None:
    server, log = files_server({"/one.bin": BIG}, breaks={"/one.bin": 2})
    with server as base:
        made = run_step(HttpFiles(files=(HttpFile(f"{base}/one.bin", sha(BIG)),)), {}, tmp_path)
    assert file_bytes(made.directory) == {"one.bin": BIG}
    assert [asked for _, asked in log] == ["", f"bytes={len(BIG) // 2}-", f"bytes={len(BIG) * 3 // 4}-"]


def test_a_later_attempt_goes_on_where_a_killed_one_stopped(tmp_path: Path) -> None:
    server, log = files_server({"/one.bin": BIG}, breaks={"/one.bin": 1})
    with server as base:
        step = HttpFiles(files=(HttpFile(f"{base}/one.bin", sha(BIG)),))
        program = (
            "import os, shutil, sys\n"
            "import marin.data.fetching as fetching\n"
            "from marin.store.files.directory import Directory\n"
            "from marin.data.http_file import HttpFile\n"
            "copy = shutil.copyfileobj\n"
            "def die(source, target, length):\n"
            "    target.write(source.read(1 << 20)); target.flush(); os.kill(os.getpid(), 9)\n"
            "shutil.copyfileobj = die\n"
            "fetching.fetch_http(HttpFile(*sys.argv[1:3]), Directory(sys.argv[3]), Directory(sys.argv[4]))\n"
        )
        state, out = tmp_path / "state", tmp_path / "out"
        killed = subprocess.run([sys.executable, "-c", program, f"{base}/one.bin", sha(BIG), str(out), str(state)])
        assert killed.returncode == -9
        log.clear()
        ctx = RunningStep(Directory(str(out)), Directory(str(state)), {})
        step.run(ctx)
    assert (out / "one.bin").read_bytes() == BIG
    assert log[0] == ("/one.bin", f"bytes={1 << 20}-")


def test_a_server_without_ranges_starts_over(tmp_path: Path) -> None:
    server, log = files_server({"/one.bin": BIG}, breaks={"/one.bin": 1}, ranges=False)
    with server as base:
        made = run_step(HttpFiles(files=(HttpFile(f"{base}/one.bin", sha(BIG)),)), {}, tmp_path)
    assert file_bytes(made.directory) == {"one.bin": BIG}
    assert len(log) == 2


def test_another_checksum_and_a_missing_file_are_errors_that_say_so(tmp_path: Path) -> None:
    server, _ = files_server({"/one.bin": b"changed"})
    with server as base:
        with pytest.raises(InputError, match=rf"/one\.bin: sha256 is {sha(b'changed')}, wanted {sha(b'pinned')}"):
            run_step(HttpFiles(files=(HttpFile(f"{base}/one.bin", sha(b"pinned")),)), {}, tmp_path)
        with pytest.raises(InputError, match=r"/none\.bin: the server answered 404"):
            run_step(HttpFiles(files=(HttpFile(f"{base}/none.bin", sha(b"")),)), {}, tmp_path)
        # The download does not keep a wrong file: once the pin is right, the same state is no obstacle.
        made = run_step(HttpFiles(files=(HttpFile(f"{base}/one.bin", sha(b"changed")),)), {}, tmp_path)
        assert file_bytes(made.directory) == {"one.bin": b"changed"}


def test_an_index_chooses_by_its_paths(tmp_path: Path) -> None:
    paths = ["data/quality=high/a.jsonl", "data/quality=high/b.jsonl", "data/quality=low/c.jsonl"]
    index = gzip.compress("\n".join(paths).encode(), mtime=0)
    server, _ = files_server({"/paths.gz": index} | {f"/{path}": path.encode() for path in paths})
    with server as base:
        listing = HttpFile(f"{base}/paths.gz", sha(index))
        made = run_step(HttpIndex(index=listing, base=f"{base}/", patterns=("data/quality=high/**",)), {}, tmp_path)
        assert file_bytes(made.directory) == {path: path.encode() for path in paths[:2]}
        with pytest.raises(InputError, match=r"no file matches data/medium/\*; it holds data/quality=high/a"):
            run_step(HttpIndex(index=listing, base=f"{base}/", patterns=("data/medium/*",)), {}, tmp_path)


def test_a_listing_of_whole_addresses_is_read_below_its_base(tmp_path: Path) -> None:
    """As Dolma publishes: the hub lists addresses of another server."""
    files = {"/v1/wiki-0.json": b"one", "/v1/books-0.json": b"two"}
    server, _ = files_server(files)
    with server as base:
        listing = "".join(f"{base}{path}\n" for path in files).encode()
        files["/urls.txt"] = listing
        index = HttpFile(f"{base}/urls.txt", sha(listing))
        made = run_step(HttpIndex(index=index, base=f"{base}/", patterns=("v1/wiki-*.json",)), {}, tmp_path)
        assert file_bytes(made.directory) == {"v1/wiki-0.json": b"one"}


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: HttpFiles(files=()), "files is empty"),
        (lambda: HttpFiles(files=(HttpFile("ftp://x/y", sha(b"")),)), "not an http"),
        (lambda: HttpFiles(files=(HttpFile("http://x/y", "abc"),)), "wanted 64 hex digits"),
        (lambda: HttpFiles(files=(HttpFile("http://x/y", sha(b"")), HttpFile("http://z/y", sha(b"")))), "taken twice"),
        (lambda: HttpFiles(files=(HttpFile("http://x/y", sha(b""), "../y"),)), "leaves the output"),
        (lambda: FsspecFiles(urls=()), "urls is empty"),
        (lambda: HuggingFace(repo="a/b", revision=COMMIT, patterns=()), "patterns is empty"),
    ],
)
def test_senseless_fields_are_refused_where_they_are_written(build, message: str) -> None:
    with pytest.raises(BadField, match=message):
        build()


@pytest.mark.parametrize("revision", ["main", "", "bb54ca", COMMIT.upper(), COMMIT + "0"])
def test_only_a_commit_is_a_revision(revision: str) -> None:
    with pytest.raises(MissingRevision, match=r"allenai/dolmino: .*pin the 40 hex digits"):
        HuggingFace(repo="allenai/dolmino", revision=revision)


def test_globs_stay_within_folders_unless_doubled() -> None:
    assert matches("data/a.gz", ["data/*.gz"])
    assert not matches("data/sub/a.gz", ["data/*.gz"])
    assert matches("data/sub/deep/a.gz", ["data/**/*.gz"])
    assert matches("data/a.gz", ["data/**/*.gz"])
    assert not matches("xdata/a.gz", ["data/**"])
    assert matches("a+b.json", ["no", "a+b.json"])


HUB_FILES = {
    "README.md": b"# A dataset\n",
    "data/one.jsonl": b'{"text": "first"}\n{"text": "second"}\n',
    "data/deep/two.bin": BIG,
}
HUB_PROGRAM = """
import json, sys
from pathlib import Path
from operators.download import HuggingFace
from tests.operators.running import file_bytes, run_step
repo, revision, pattern, where = sys.argv[1:]
try:
    made = run_step(HuggingFace(repo=repo, revision=revision, patterns=(pattern,)), {}, Path(where))
except Exception as error:
    print(json.dumps({"error": type(error).__name__, "message": str(error)}))
else:
    sizes = {name: len(content) for name, content in file_bytes(made.directory).items()}
    print(json.dumps({"files": sizes, "facts": made.facts()}))
"""


def from_hub(tmp_path: Path, repo: str = "lab/set", revision: str = COMMIT, pattern: str = "data/**", **served) -> dict:
    attributes = {"large": frozenset({"data/deep/two.bin"}), "lies": frozenset(), "gated": frozenset()} | served
    with serving(HubServer, repo="lab/set", revision=COMMIT, files=HUB_FILES, **attributes) as base:
        environment = {
            **{name: os.environ[name] for name in ("PATH",)},
            "HOME": str(tmp_path),
            "HF_ENDPOINT": base,
            "HF_HUB_DISABLE_PROGRESS_BARS": "1",
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        }
        command = [sys.executable, "-c", HUB_PROGRAM, repo, revision, pattern, str(tmp_path)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("revision", [COMMIT, COMMIT[:7]], ids=["commit", "abbreviated"])
def test_the_hubs_files_come_whole_and_checked(tmp_path: Path, revision: str) -> None:
    assert from_hub(tmp_path, revision=revision) == {
        "files": {"data/deep/two.bin": len(BIG), "data/one.jsonl": 37},
        "facts": {"files": 2, "bytes": len(BIG) + 37},
    }


@pytest.mark.parametrize(
    ("asked", "error", "message"),
    [
        ({"revision": "f" * 40}, "MissingRevision", "lab/set has no revision ffff"),
        ({"revision": "facade1", "branch": "facade1"}, "MissingRevision", "lab/set has no revision facade1"),
        ({"repo": "lab/other"}, "MissingRevision", "lab/other does not exist on the hub"),
        ({"gated": frozenset({"listing"})}, "InputError", "lab/set is gated: accept its terms"),
        ({"gated": frozenset({"files"})}, "InputError", "lab/set is gated: accept its terms"),
        ({"pattern": "*.parquet"}, "InputError", "no file matches *.parquet; it holds README.md"),
        ({"lies": frozenset({"data/one.jsonl"})}, "InputError", "data/one.jsonl has 37 bytes, git "),
        ({"lies": frozenset({"data/deep/two.bin"})}, "InputError", "two.bin has 2304000 bytes, sha256 "),
    ],
    ids=["revision", "branch", "repository", "gated-listing", "gated-files", "pattern", "small-file", "large-file"],
)
def test_what_the_hub_refuses_is_said_with_its_remedy(tmp_path: Path, asked: dict, error: str, message: str) -> None:
    answer = from_hub(tmp_path, **asked)
    assert answer["error"] == error, answer
    assert message in answer["message"]


@pytest.fixture
def memory():
    store = fsspec.filesystem("memory")
    store.store.clear()
    store.pseudo_dirs[:] = [""]
    yield store
    store.store.clear()


def test_fsspec_files_from_memory_and_disk(tmp_path: Path, memory) -> None:
    memory.pipe({"/lake/a/one.txt": b"one", "/lake/b/two.txt": b"two", "/lake/b/skip.bin": b"no"})
    made = run_step(FsspecFiles(urls=("memory://lake/*/*.txt",)), {}, tmp_path)
    assert file_bytes(made.directory) == {"a/one.txt": b"one", "b/two.txt": b"two"}

    (tmp_path / "disk" / "sub").mkdir(parents=True)
    (tmp_path / "disk" / "sub" / "x.txt").write_bytes(b"x")
    folder = run_step(FsspecFiles(urls=(str(tmp_path / "disk"),)), {}, tmp_path)
    assert file_bytes(folder.directory) == {"sub/x.txt": b"x"}
    single = run_step(FsspecFiles(urls=("memory://lake/a/one.txt",)), {}, tmp_path)
    assert file_bytes(single.directory) == {"one.txt": b"one"}


def test_outside_follows_content_names_and_number_but_not_time(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"one")
    step = FsspecFiles(urls=(f"{tmp_path}/*.txt",))
    before = step.outside()
    assert list(before) == [f"{tmp_path}/a.txt"]
    os.utime(tmp_path / "a.txt", (1, 1))
    assert step.outside() == before
    (tmp_path / "a.txt").write_bytes(b"two")
    os.utime(tmp_path / "a.txt", (1, 1))  # as many bytes, and the time of the first
    assert step.outside() != before
    (tmp_path / "b.txt").write_bytes(b"")
    assert list(step.outside()) == [f"{tmp_path}/a.txt", f"{tmp_path}/b.txt"]


def test_a_file_that_changed_since_it_was_listed_is_not_taken_for_the_listed_one(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"one")
    [listed] = list_files([str(tmp_path / "a.txt")])
    for content in (b"two", b"three"):
        (tmp_path / "a.txt").write_bytes(content)
        with pytest.raises(InputError, match=r"a\.txt: .* arrived, .* listed; the file changed meanwhile"):
            copy_file(listed, Directory(str(tmp_path / "out")), Directory(str(tmp_path / "state")))


def test_urls_that_select_nothing_or_clash_are_named(tmp_path: Path, memory) -> None:
    with pytest.raises(InputError, match=r"memory://lake/\*\.txt selects no file"):
        FsspecFiles(urls=("memory://lake/*.txt",)).outside()
    memory.pipe({"/a/one.txt": b"1", "/b/one.txt": b"2"})
    with pytest.raises(InputError, match=r"would both become one\.txt"):
        run_step(FsspecFiles(urls=("memory://a/*.txt", "memory://b/*.txt")), {}, tmp_path)


# --- reading


def read(tmp_path: Path, files: dict[str, bytes], **fields):
    folder = tmp_path / "raw"
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    given = Given()
    raw = RawFiles(files=len(files), bytes=0).at(Directory(str(folder)))
    made = run_step(ReadDocuments(files=given, **fields), {given: raw}, tmp_path)
    return made, [document.text for document in read_documents(made.directory)]


def lines(*records: object) -> bytes:
    return "".join(json.dumps(record) + "\n" for record in records).encode()


def parquet(records: list[dict], **options) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(records), sink, **options)
    return sink.getvalue().to_pybytes()


def test_every_format_is_read_one_shard_a_file(tmp_path: Path) -> None:
    frames = zstandard.compress(lines({"text": "d"})) + zstandard.compress(lines({"text": "e"}))
    files = {
        "a.jsonl": lines({"text": "a"}),
        "b.json.gz": gzip.compress(lines({"text": "b"})),
        "c/d.jsonl.zst": frames,
        "f.parquet": parquet([{"text": "f"}, {"text": "g"}]),
        "README.md": b"not data",
    }
    made, texts = read(tmp_path, files)
    assert texts == ["a", "b", "d", "e", "f", "g"]
    assert (made.documents, made.bytes, made.shards) == (6, 6, 4)


def test_fields_templates_and_conditions(tmp_path: Path) -> None:
    records = [
        {"content": "x = 1", "meta": {"ext": ".py"}},
        {"content": "# x", "meta": {"ext": ".md"}},
        {"content": " ", "meta": {"ext": ".py"}},
        {"content": "y = 2"},
    ]
    made, texts = read(tmp_path, {"a.jsonl": lines(*records)}, text_field="content", keep=(Keep("meta.ext", (".py",)),))
    assert texts == ["x = 1"]
    assert made.dropped == {"empty": 1, "meta.ext": 2}
    assert not list(read_dropped(made.directory)), "what a condition leaves out is only counted"
    _, texts = read(tmp_path / "2", {"a.parquet": parquet([{"q": "Why?", "a": "So."}])}, template="Q: {q}\nA: {a}")
    assert texts == ["Q: Why?\nA: So."]


GZIPPED = gzip.compress(lines(*({"text": f"document {n} {n * n}"} for n in range(500))))
ZSTANDARD = zstandard.compress(lines(*({"text": f"document {n} {n * n}"} for n in range(500))))
PARQUET = parquet([{"text": f"document {n}"} for n in range(500)])


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("cut.jsonl.gz", GZIPPED[:-200]),
        ("cut.jsonl.zst", ZSTANDARD[:-200]),
        ("cut.parquet", PARQUET[:-200]),
        ("cut.jsonl", lines({"text": "whole"}) + b'{"text": "ha'),
        ("flipped.jsonl.gz", GZIPPED[:300] + b"\xff\xff\xff" + GZIPPED[303:]),
        ("not.jsonl.gz", b"plain text"),
        ("not.jsonl.zst", b"plain text"),
        ("not.parquet", b"plain text"),
    ],
)
def test_a_truncated_or_damaged_file_is_named(tmp_path: Path, name: str, content: bytes) -> None:
    with pytest.raises(TruncatedShard, match=rf"{name}: .*fetch it again"):
        read(tmp_path, {name: content})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"text": "a"}\n{"text": \n{"text": "c"}\n', r"a\.jsonl line 2: not JSON"),
        (b'{"text": "a"}\n\n[1]\n', r"a\.jsonl line 3: a list, wanted a JSON object"),
        (b'{"text": "a"}\n{"body": "b"}\n', r"line 2: the field 'text' is missing, .* the record has body"),
        (b'{"text": 5}\n', r"line 1: the field 'text' is of type int"),
        (b'\xff\xfe{"text": "a"}\n', r"line 1: not JSON"),
    ],
)
def test_a_garbled_document_is_named_by_file_and_line(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(GarbledDocument, match=message):
        read(tmp_path, {"a.jsonl": content})


# One of each kind between good ones; line 4 is half of a surrogate pair, line 6 a hundred thousand brackets deep.
BAD_LINES = (
    b'{"text": "one"}\n{"text": null}\n{"body": "b"}\n{"text": "\\ud800"}\n{"text": \n'
    + (b"[" * 100_000 + b"]" * 100_000)
    + b'\n{"text": "caf\xe9"}\n[1]\n{"text": "two", "id": 7}\n'
)


def test_bad_records_are_set_aside_with_file_line_and_reason(tmp_path: Path) -> None:
    made, texts = read(tmp_path, {"a.jsonl.gz": gzip.compress(BAD_LINES), "b.jsonl.xz": b"?"}, max_bad=7)
    assert texts == ["one", "two"]
    bad = {"no text": 2, "not Unicode": 2, "not JSON": 2, "no object": 1}
    assert made.dropped == {**bad, "another ending": 1}
    listed = {each.id.rpartition("/")[2]: each for each in read_dropped(made.directory)}
    assert [name.rpartition(" ")[2] for name in listed] == ["2", "3", "4", "5", "6", "7", "8"]
    assert "a.jsonl.gz line 6: JSON nested too deeply" in listed["a.jsonl.gz line 6"].detail["why"]
    with pytest.raises(
        GarbledDocument, match=r"7 records or files are bad \(.*2 no text.*at most 6 may be \(max_bad\)"
    ) as said:
        read(tmp_path / "fewer", {"a.jsonl": BAD_LINES}, max_bad=6)
    assert "a.jsonl line 2: the field 'text' is missing" in str(said.value)
    with pytest.raises(BadField, match="max_bad is -1"):
        ReadDocuments(files=Given(), max_bad=-1)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.jsonl.gz", gzip.compress(lines({"text": "good " * 50}, {"text": "x"}), compresslevel=0)),
        ("a.jsonl.gz", GZIPPED),
        ("a.jsonl.zst", zstandard.ZstdCompressor(write_checksum=True).compress(lines({"text": "good"}, {"text": "x"}))),
        ("a.parquet", parquet([{"text": f"document {n}"} for n in range(500)], write_page_checksum=True)),
    ],
)
def test_of_a_damaged_file_nothing_is_taken_and_damage_is_called_so(tmp_path: Path, name: str, content: bytes) -> None:
    """In stored gzip the flipped byte lies in a field's name, but the damage is the file's and not the field's."""
    at = content.find(b'"text"') + 1 if b'"text"' in content and b"PAR1" not in content else len(content) // 3
    flipped = content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]
    with pytest.raises(TruncatedShard, match=r"fetch it again"):
        read(tmp_path / "strict", {name: flipped})
    made, texts = read(tmp_path, {name: flipped, "b.jsonl": lines({"text": "whole"})}, max_bad=1)
    assert texts == ["whole"]
    assert made.dropped == {"damaged file": 1}


def test_a_file_that_ends_early_keeps_its_whole_lines(tmp_path: Path) -> None:
    made, texts = read(tmp_path, {"a.jsonl": lines({"text": "whole"}) + b'{"text": "ha'}, max_bad=1)
    assert (texts, made.dropped) == (["whole"], {"damaged file": 1})


def test_all_other_fields_are_kept_as_metadata(tmp_path: Path) -> None:
    when = datetime.datetime(2024, 5, 1, tzinfo=datetime.UTC)
    row = {
        "id": "a-1",
        "url": "https://example.org",
        "text": "Hello",
        "meta": {"text": 1, "when": when},
        "score": float("nan"),
    }
    made, _ = read(tmp_path, {"a.parquet": parquet([row])})
    (document,) = read_documents(made.directory)
    meta = {"text": 1, "when": "2024-05-01 00:00:00+00:00"}
    assert document.metadata == {"id": "a-1", "url": "https://example.org", "meta": meta, "score": "nan"}
    made, _ = read(
        tmp_path / "nested", {"a.jsonl": lines({"page": {"body": "here", "n": 1}, "x": 2})}, text_field="page.body"
    )
    assert [each.metadata for each in read_documents(made.directory)] == [{"page": {"n": 1}, "x": 2}]
    made, _ = read(tmp_path / "template", {"a.jsonl": lines({"q": "Why?", "a": "So.", "n": 3})}, template="{q} {a}")
    assert [each.metadata for each in read_documents(made.directory)] == [{"n": 3}]


def test_nothing_to_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(GarbledDocument, match=r"its files hold no document \(the files are empty\)"):
        read(tmp_path, {"a.jsonl": b""})
    with pytest.raises(GarbledDocument, match=r"hold no document .*\(1 lang\); check text_field, template and keep"):
        read(tmp_path / "keep", {"a.jsonl": lines({"text": "x", "lang": "de"})}, keep=(Keep("lang", ("en",)),))


def test_files_of_no_known_format_and_bad_templates_are_refused(tmp_path: Path) -> None:
    with pytest.raises(GarbledDocument, match=r"no \.parquet or JSON-lines file among a\.txt"):
        read(tmp_path, {"a.txt": b"text"})
    with pytest.raises(GarbledDocument, match=r"line 1: the template asks for 'b', the record has a"):
        read(tmp_path / "2", {"a.jsonl": lines({"a": "1"})}, template="{b}")


def test_items_are_read_with_their_final_answers(tmp_path: Path) -> None:
    folder = tmp_path / "raw"
    folder.mkdir()
    record = {"question": "2+2?", "answer": "2+2=<<2+2=4>>4\n#### 4"}
    (folder / "test.parquet").write_bytes(parquet([record]))
    given = Given()
    inputs = {given: RawFiles(files=1, bytes=1).at(Directory(str(folder)))}
    made = run_step(ReadItems(files=given), inputs, tmp_path)
    (item,) = read_items(made.directory)
    assert (item.question, item.answer, item.final, made.items) == ("2+2?", record["answer"], "4", 1)
