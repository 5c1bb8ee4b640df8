"""Test the Ray that a run starts for itself."""

import time
from pathlib import Path

import psutil

from marin.errors import NoCluster
from marin.executor.backends.private_ray import PrivateRay


def complaint(private: PrivateRay) -> str:
    try:
        private.must_live()
    except NoCluster as error:
        return str(error)
    return ""


def test_one_that_dies_after_it_answered_is_not_waited_for() -> None:
    """A node ends by itself on a machine that is too busy, and a driver that joins it would ask for minutes."""
    private = PrivateRay()
    assert not private.token or Path(private.token).stat().st_mode & 0o777 == 0o600
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
