"""Test the Ray that a run starts for itself."""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest

from marin.errors import NoCluster
from marin.executor.backends.private_ray import OWNER, TOKEN_FOLDER, PrivateRay

WHO = "import sys; from marin.store.process import this_process; sys.stdout.buffer.write(this_process().to_json())"


def complaint(private: PrivateRay) -> str:
    try:
        private.must_live()
    except NoCluster as error:
        return str(error)
    return ""


def token(folder: Path, owner: bytes) -> Path:
    """Make a token as a process leaves it. owner: b"" for an unknown owner."""
    made = Path(tempfile.mkdtemp(prefix=TOKEN_FOLDER, dir=folder))
    (made / "token").write_text("secret")
    if owner:
        (made / OWNER).write_bytes(owner)
    return made


def test_one_that_dies_after_it_answered_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node ends by itself on a machine that is too busy, and a driver that joins it would ask for minutes. A new Ray
    removes the tokens of killed processes when it starts; tests/executor/test_ray.py kills such a process."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    gone = subprocess.run([sys.executable, "-c", WHO], capture_output=True, check=True).stdout
    dead, foreign = token(tmp_path, gone), token(tmp_path, b"")
    private = PrivateRay()
    assert not dead.exists()
    assert (foreign / "token").exists()
    assert not private.token or Path(private.token).exists()
    try:
        assert complaint(private) == ""
        port = private.address.rpartition(":")[2]
        [head] = [
            process
            for process in psutil.Process().children()
            if process.cmdline()[1:] and f"--port={port}" in process.cmdline()
        ]
        head.kill()
        limit = time.monotonic() + 30
        while not (said := complaint(private)) and time.monotonic() < limit:
            time.sleep(0.05)
        assert said.startswith("Ray did not start here: ")
        assert "Try again" in said
    finally:
        private.end()
