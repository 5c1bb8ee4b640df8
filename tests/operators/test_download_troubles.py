"""Test downloads from servers that are busy, break off or change their files."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest

from marin.data import retrying
from marin.data.chosen_files import spread
from marin.data.http_file import HttpFile
from marin.errors import BadField, InputError
from operators.download import HttpFiles, HttpIndex, common_crawl
from tests.operators.running import file_bytes, run_step
from tests.operators.servers import FileServer, HubServer, serving
from tests.operators.test_download import BIG, COMMIT, HUB_FILES, sha


@pytest.fixture(autouse=True)
def _quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retrying, "FIRST_WAIT", 0.01)


def file_server(troubles: dict[str, list[Any]], files: dict[str, bytes] | None = None, **more: Any):
    log: list[tuple[str, str]] = []
    given = {"breaks": {}, "ranges": True, "files": files or {"/one.bin": BIG}} | more
    return serving(FileServer, log=log, troubles=troubles, **given), log


def one(base: str) -> HttpFiles:
    return HttpFiles(files=(HttpFile(f"{base}/one.bin", sha(BIG)),))


def test_a_busy_server_is_asked_again_when_it_says(tmp_path: Path) -> None:
    in_a_second = format_datetime(datetime.now(UTC) + timedelta(seconds=2), usegmt=True)
    server, log = file_server(
        {"/one.bin": [(503, {}), (429, {"Retry-After": "1"}), (500, {}), (503, {"Retry-After": in_a_second})]}
    )
    began = time.monotonic()
    with server as base:
        made = run_step(one(base), {}, tmp_path)
    assert file_bytes(made.directory) == {"one.bin": BIG}
    assert len(log) == 5
    assert time.monotonic() - began > 1


@pytest.mark.parametrize(
    ("status", "headers", "message"),
    [
        (503, {}, r"/one\.bin: the server answered 503 .*, tried 8 times in \d+ s; the server has a problem.*byte 0"),
        (429, {}, r"/one\.bin: the server answered 429 .*, tried 8 times .*; the server limits requests"),
        (429, {"Retry-After": "7200"}, r"429 .*, tried 1 times .* asks clients to wait for 7200 s more"),
        (403, {}, r"/one\.bin: the server answered 403 Forbidden; check the URL, or log in"),
    ],
)
def test_the_error_at_the_end_says_what_happened(tmp_path: Path, status: int, headers: dict, message: str) -> None:
    server, log = file_server({"/one.bin": [(status, headers)] * 20})
    with server as base, pytest.raises(InputError, match=message):
        run_step(one(base), {}, tmp_path)
    assert len(log) == (8 if "8 times" in message else 1)


def test_no_server_at_all_is_said_with_its_address(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"127\.0\.0\.1:9/one\.bin: .*refused.*, tried 8 times .*check the network"):
        run_step(one("http://127.0.0.1:9"), {}, tmp_path)


@pytest.mark.parametrize("etags", [True, False])
def test_two_versions_of_a_file_are_never_put_together(tmp_path: Path, etags: bool) -> None:
    """Nobody publishes a checksum of the file, which changes where the connection broke."""
    index = gzip.compress(b"one.bin", mtime=0)
    files = {"/paths.gz": index, "/one.bin": BIG}

    class Changing(FileServer):
        def do_GET(self) -> None:
            super().do_GET()
            if self.path == "/one.bin":
                self.files["/one.bin"] = BIG[::-1]

    shared = {"files": files, "breaks": {"/one.bin": 1}, "ranges": True, "log": [], "troubles": {}}
    with serving(Changing, **shared, etags=etags) as base:
        listing = HttpFile(f"{base}/paths.gz", sha(index))
        made = run_step(HttpIndex(index=listing, base=f"{base}/", patterns=("*",)), {}, tmp_path)
    assert file_bytes(made.directory) == {"one.bin": BIG[::-1]}


# --- choosing


PATHS = [f"crawl-data/CC-1/segments/{segment}/warc/{n:05}.warc.gz" for segment in ("17.1", "17.2") for n in range(6)]


def crawl() -> tuple[Any, str, dict[str, bytes]]:
    index = gzip.compress("\n".join(PATHS).encode(), mtime=0)
    files = {"/crawl-data/CC-1/warc.paths.gz": index} | {f"/{path}": path.encode() for path in PATHS}
    return file_server({}, files)[0], sha(index), files


def test_a_crawls_files_come_by_the_beginning_of_their_paths(tmp_path: Path) -> None:
    server, digest, _ = crawl()
    with server as base:
        made = run_step(common_crawl("CC-1", digest, prefixes=("17.2/",), base=f"{base}/"), {}, tmp_path)
        assert file_bytes(made.directory) == {path: path.encode() for path in PATHS[6:]}
        some = run_step(common_crawl("CC-1", digest, most=4, base=f"{base}/"), {}, tmp_path)
        assert some.directory.names() == [PATHS[n] for n in (0, 3, 6, 9)]
        listing = HttpFile(f"{base}/crawl-data/CC-1/warc.paths.gz", digest)
        rest = HttpIndex(index=listing, base=f"{base}/", patterns=("**",), excludes=("**/17.1/**", "**/00003.*"))
        assert run_step(rest, {}, tmp_path).directory.names() == [path for path in PATHS[6:] if "00003" not in path]
    with pytest.raises(BadField, match="most is 0"):
        common_crawl("CC-1", digest, most=0)


def test_files_spread_over_a_list() -> None:
    assert spread(list("abcdefghij"), 3) == ["a", "d", "g"]
    assert spread(list("abc"), None) == spread(list("abc"), 9) == list("abc")


# --- the hub


PROGRAM = """
import json, sys
from pathlib import Path
from marin.data import retrying
from operators.download import HuggingFace
from tests.operators.running import file_bytes, run_step
retrying.FIRST_WAIT = 0.01
where, fields = Path(sys.argv[1]), json.loads(sys.argv[2])
try:
    made = run_step(HuggingFace(repo="lab/set", **{name: tuple(v) if isinstance(v, list) else v
                                                   for name, v in fields.items()}), {}, where)
except Exception as error:
    print(json.dumps({"error": type(error).__name__, "message": str(error)}))
else:
    print(json.dumps({"files": {name: len(content) for name, content in file_bytes(made.directory).items()}}))
"""
LISTING = f"/api/datasets/lab/set/revision/{COMMIT}?blobs=true"
FILE = f"/datasets/lab/set/resolve/{COMMIT}/data/deep/two.bin"


def hub(tmp_path: Path, log: list[tuple[str, str]], killed_at: int = 0, fields: dict | None = None, **served: Any):
    """Run the download program and return its answer. killed_at: kill it with -9 at this size of the large file."""
    attributes = {"large": frozenset({"data/deep/two.bin"}), "lies": frozenset(), "gated": frozenset(), "log": log}
    given = attributes | {"breaks": {}, "troubles": {}} | served
    with serving(HubServer, repo="lab/set", revision=COMMIT, files=HUB_FILES, **given) as base:
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "HF_ENDPOINT": base,
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        }
        asked = {"revision": COMMIT, "patterns": ["data/**"]} | (fields or {})
        command = [sys.executable, "-c", PROGRAM, str(tmp_path), json.dumps(asked)]
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while killed_at and process.poll() is None:
            if sum(part.stat().st_size for part in tmp_path.rglob("*.part")) >= killed_at:
                process.send_signal(signal.SIGKILL)
            time.sleep(0.01)
        out, errors = process.communicate(timeout=120)
    if killed_at:
        assert process.returncode == -signal.SIGKILL, errors
        return {}
    assert process.returncode == 0, errors
    return json.loads(out.splitlines()[-1])


WHOLE = {"files": {"data/deep/two.bin": len(BIG), "data/one.jsonl": 37}}


def test_a_busy_hub_is_asked_again(tmp_path: Path) -> None:
    log: list[tuple[str, str]] = []
    troubles = {
        LISTING: [(429, {"Retry-After": "0"}), (503, {})],
        FILE: [(503, {}), (429, {"Retry-After": "0"}), (502, {})],
    }
    assert hub(tmp_path, log, troubles=troubles) == WHOLE
    assert [path for path, _ in log].count(LISTING) == 3
    assert [path for path, _ in log].count(FILE) == 4


def test_a_file_of_the_hub_survives_more_breaks_than_tries(tmp_path: Path) -> None:
    log: list[tuple[str, str]] = []
    assert hub(tmp_path, log, breaks={"data/deep/two.bin": (11, 200_000)}) == WHOLE
    ranges = [asked for path, asked in log if path == FILE]
    assert ranges == ["", *(f"bytes={200_000 * n}-" for n in range(1, 12))]


@pytest.mark.parametrize(
    ("path", "message"),
    [(LISTING, r"revision/{COMMIT}: the hub answered 503"), (FILE, "two.bin: the server answered 503")],
)
def test_a_hub_that_stays_away_is_said_with_its_url_and_how_often(tmp_path: Path, path: str, message: str) -> None:
    answer = hub(tmp_path, [], troubles={path: [(503, {})] * 20})
    assert answer["error"] == "InputError"
    for part in ("http://127.0.0.1", message.replace("{COMMIT}", COMMIT), "tried 8 times", "the server has a problem"):
        assert part in answer["message"]


def test_a_killed_download_from_the_hub_goes_on_from_its_byte(tmp_path: Path) -> None:
    log: list[tuple[str, str]] = []
    # After the break it wants to be left alone, so that the process is killed at a known byte.
    halt = {FILE: [(0, {}), (503, {"Retry-After": "100"})]}
    hub(tmp_path, log, killed_at=1_000_000, breaks={"data/deep/two.bin": (1, 1_000_000)}, troubles=halt)
    log.clear()
    assert hub(tmp_path, log) == WHOLE
    assert log[-2:] == [(FILE, "bytes=1000000-"), (FILE.replace("deep/two.bin", "one.jsonl"), "")]


@pytest.mark.parametrize(
    ("fields", "files"),
    [
        ({"patterns": ["**"], "excludes": ["data/deep/**"]}, ["README.md", "data/one.jsonl"]),
        ({"excludes": ["**/*.bin"]}, ["data/one.jsonl"]),
        ({"patterns": ["**"], "most": 1}, ["README.md"]),
    ],
)
def test_what_is_excluded_or_more_than_the_most_does_not_come(tmp_path: Path, fields: dict, files: list[str]) -> None:
    log: list[tuple[str, str]] = []
    assert sorted(hub(tmp_path, log, fields=fields)["files"]) == files
    assert FILE not in [path for path, _ in log]


def test_an_exclude_that_fits_nothing_is_an_error(tmp_path: Path) -> None:
    answer = hub(tmp_path, [], fields={"excludes": ["data/deep/tow.bin"]})
    assert "the exclude data/deep/tow.bin matches none of its 3 files" in answer["message"]
