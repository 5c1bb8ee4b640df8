"""Turn refusals of the operating system into errors that name the place and the remedy."""

from __future__ import annotations

import errno
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from marin.errors import BadPrefix, StoreError, StoreFull


@contextmanager
def store_errors(root: str) -> Generator[None]:
    """Turn a full disk, and refusals of files below root, into errors that name the place and the remedy.

    Other errors pass, because an operator also reads and writes outside the store.
    """
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StoreFull(
                f"{error.filename or root}: no space left; free some or move the store. "
                "Nothing committed is lost: run again"
            ) from error
        if error.errno in (errno.EACCES, errno.EROFS, errno.EPERM) and f"{error.filename}/".startswith(f"{root}/"):
            raise BadPrefix(
                f"{error.filename}: cannot write there ({error.strerror}); check the permissions or --prefix"
            ) from error
        raise


@contextmanager
def control_errors(target: Path) -> Generator[None]:
    """Turn every refusal of the operating system into a store error. Use it for the store's own files."""
    try:
        with store_errors(str(target)):
            yield
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EROFS, errno.EPERM):
            raise BadPrefix(f"{target}: refused ({error.strerror}); check the permissions or --prefix") from error
        raise StoreError(f"{target}: {error.strerror or error}; check the disk and --prefix") from error
