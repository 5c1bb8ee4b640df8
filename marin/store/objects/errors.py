"""Turn refusals of disks and of object stores into errors that name the place, the answer and the remedy."""

# pyright: basic

from __future__ import annotations

import errno
import logging
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from marin.errors import BadPrefix, MarinError, StoreError, StoreFull

logger = logging.getLogger(__name__)
DISK_FULL, DISK_REFUSED = {errno.ENOSPC, errno.EDQUOT}, {errno.EACCES, errno.EROFS, errno.EPERM}
SERVER_FULL = {"QuotaExceeded", "XMinioStorageFull", "507"}
SERVER_REFUSED = {"AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "401", "403"}
CREDENTIALS = {
    "gs": "`gcloud auth application-default login` or GOOGLE_APPLICATION_CREDENTIALS",
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE or the machine's role",
}


@contextmanager
def store_errors(root: str) -> Generator[None]:
    """Turn a full disk, and refusals of files below root, into errors that name the place and the remedy.

    Other errors pass, because an operator also reads and writes outside the store.
    """
    try:
        yield
    except OSError as error:
        if (found := _of_disk(error, root)) is not None:
            raise found from error
        raise


class control_errors:
    """Turn every refusal of the operating system into a store error. Use it for the store's own files.

    A class, as ``suppress`` is: each read of a small file enters it, and a generator would take as long as the read.
    """

    def __init__(self, path: object) -> None:
        self.path = path

    def __enter__(self) -> None: ...

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if not isinstance(error, OSError):
            return
        if (found := _of_disk(error, str(self.path))) is not None:
            raise found from error
        if error.errno in DISK_REFUSED:
            raise BadPrefix(f"{self.path}: refused ({error.strerror}); check the permissions or --prefix") from error
        raise StoreError(f"{self.path}: {error.strerror or error}; check the disk and --prefix") from error


def _of_disk(error: OSError, root: str) -> MarinError | None:
    if error.errno in DISK_FULL:
        return StoreFull(
            f"{error.filename or root}: no space left; free some or move the store. "
            "Nothing committed is lost: run again"
        )
    if error.errno in DISK_REFUSED and f"{error.filename}/".startswith(f"{root}/"):
        return BadPrefix(f"{error.filename}: cannot write there ({error.strerror}); check the permissions or --prefix")
    return None


@contextmanager
def answered(url: str, doing: str) -> Generator[None]:
    """Turn the errors of an object store's client into store errors.

    doing: "read", "write", "list", "delete" or "describe". A missing object passes unchanged: only the caller knows
    what it means.
    """
    began = time.monotonic()
    try:
        yield
        logger.debug("%s %s: %.3f s", doing, url, time.monotonic() - began)
    except (MarinError, FileNotFoundError):
        raise
    except Exception as error:
        logger.info("%s %s: %r after %.3f s", doing, url, error, time.monotonic() - began)
        raise _as_store_error(error, url, doing) from error


def _as_store_error(error: Exception, url: str, doing: str) -> MarinError:
    code, message = code_of(error), _message(error)
    if code in SERVER_REFUSED:
        how = CREDENTIALS[url.split("://", 1)[0]]
        return BadPrefix(
            f"{url}: the store refused to {doing} it ({message}); check that this account may {doing} there ({how}), "
            "or --prefix"
        )
    if code in SERVER_FULL:
        return StoreFull(f"{url}: no space left ({message}); free some or move the store. Nothing committed is lost")
    return StoreError(
        f"{url}: could not {doing} it, even after several tries ({message}); check the network, the "
        "endpoint and the store's state. Nothing committed is lost: run again"
    )


def no_bucket(url: str) -> BadPrefix:
    scheme, _, rest = url.partition("://")
    return BadPrefix(f"{url}: there is no bucket {scheme}://{rest.split('/')[0]}; create it or fix --prefix")


def code_of(error: BaseException) -> str:
    """Return the server's word or number for an error; "" if it gave none."""
    response: Any = getattr(error, "response", None) or getattr(error.__cause__, "response", None)
    if isinstance(response, dict):
        return str(response.get("Error", {}).get("Code", ""))
    if type(error).__name__ in ("NoCredentialsError", "PartialCredentialsError", "GoogleAuthError", "RefreshError"):
        return "401"
    if isinstance(error, OSError) and str(error).startswith("Forbidden"):
        return "403"
    return str(getattr(error, "code", None) or "")


def _message(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    last = lines[-1] if lines else ""
    code = code_of(error)
    return ": ".join(part for part in (code if code not in last else "", last) if part) or type(error).__name__
