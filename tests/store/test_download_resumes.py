"""After a kill with -9 of a download into any kind of store, the next run fetches no complete file again."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from marin.data.http_file import HttpFile
from marin.store.files.verify import Check
from marin.store.store import Store
from operators.download import FsspecFiles, HttpFiles
from tests.operators.servers import FileServer, serving
from tests.support.toy import record_of, run

FILES = {f"/part-{number}.bin": bytes([number]) * 300_000 for number in range(4)}
PROGRAM = """
import sys
from marin.data.http_file import HttpFile
from operators.download import HttpFiles
from tests.support.toy import run
prefix, *files = sys.argv[1:]
step = HttpFiles(files=tuple(HttpFile(*file.split()) for file in files), label="parts")
run(prefix, parts=step)
"""


def test_what_is_whole_is_not_fetched_again(any_prefix: str) -> None:
    if any_prefix.startswith("memory"):
        pytest.skip("it ends with its process")
    log: list[tuple[str, str]] = []
    # The server defers requests for the third file; the test kills the process there.
    troubles = {"/part-2.bin": [(503, {"Retry-After": "600"})]}
    with serving(FileServer, files=FILES, breaks={}, ranges=True, log=log, troubles=troubles) as base:
        files = [f"{base}{name} {hashlib.sha256(content).hexdigest()}" for name, content in FILES.items()]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        process = subprocess.Popen([sys.executable, "-c", PROGRAM, any_prefix, *files], env=environment)
        until = time.monotonic() + 120
        while "/part-2.bin" not in [path for path, _ in log]:
            assert process.poll() is None
            assert time.monotonic() < until
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
        process.wait()
        log.clear()
        step = HttpFiles(files=tuple(HttpFile(*file.split()) for file in files), label="parts")
        run(any_prefix, parts=step)
    assert [path for path, _ in log] == ["/part-2.bin", "/part-3.bin"]
    store, record = Store(any_prefix), record_of(any_prefix, step)
    output = store.output(record)
    assert {f"/{name}": output.read_bytes(name) for name in output.names()} == FILES
    assert {entry.path: entry.sha256 for entry in store.manifest(record)} == {
        name[1:]: hashlib.sha256(content).hexdigest() for name, content in FILES.items()
    }
    assert store.state_identities() == set()
    told = store.objects.read_log(f"{record.attempt}/.marin/log.txt").decode()
    for file in step.files:
        assert f"{file.path}: 300,000 bytes, sha256 {file.sha256}, from {file.url}" in told


def test_files_of_a_folder_come_into_every_kind_of_store(any_prefix: str, tmp_path: Path) -> None:
    for name, content in FILES.items():
        (tmp_path / "there").mkdir(exist_ok=True)
        (tmp_path / "there" / name[1:]).write_bytes(content)
    step = FsspecFiles(urls=(f"{tmp_path}/there",), label="there")
    run(any_prefix, there=step)
    store, record = Store(any_prefix), record_of(any_prefix, step)
    assert store.output(record).names() == [name[1:] for name in FILES]
    assert store.verify(record, Check.BYTES) == []
    assert store.state_identities() == set()
