"""What a process prints, kept in the log of the attempt that it works on."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import threading
from collections.abc import Generator
from contextlib import contextmanager

from marin.errors import StoreError
from marin.store import Store

COPY_EVERY = 1.0  # seconds
PIECE = 1 << 20


@contextmanager
def captured(store: Store, log: str) -> Generator[None]:
    """Send this process's stdout and stderr, its children's included, to a log of the store.

    Where the log is no local file they go to one on this machine, which is copied to it as it grows.
    """
    if store.directory.is_local:
        with _redirected(f"{store.prefix}/{log}"):
            yield
        return
    with (
        tempfile.NamedTemporaryFile(prefix="marin-log-") as file,
        _followed(store, log, file.name),
        _redirected(file.name),
    ):
        yield


@contextmanager
def _redirected(path: str) -> Generator[None]:
    sys.stdout.flush()
    sys.stderr.flush()
    kept = os.dup(1), os.dup(2)
    log = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os.dup2(kept[0], 1)
        os.dup2(kept[1], 2)
        os.close(kept[0])
        os.close(kept[1])


@contextmanager
def _followed(store: Store, log: str, path: str) -> Generator[None]:
    over = threading.Event()

    def follow() -> None:
        with open(path, "rb") as file:
            while True:
                last = over.wait(COPY_EVERY)
                while piece := file.read(PIECE):
                    with contextlib.suppress(StoreError):
                        store.objects.append(log, piece)
                if last:
                    return

    thread = threading.Thread(target=follow, name="marin-output", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
