"""Turn errors of object store clients into errors that name the object, the server's answer and the remedy."""

# pyright: basic

from __future__ import annotations

import logging
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from marin.errors import BadPrefix, MarinError, StoreError, StoreFull

logger = logging.getLogger(__name__)
REFUSED = {"AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "401", "403"}
FULL = {"QuotaExceeded", "XMinioStorageFull", "507"}
CREDENTIALS = {
    "gs": "`gcloud auth application-default login` or GOOGLE_APPLICATION_CREDENTIALS",
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE or the machine's role",
}


@contextmanager
def answered(url: str, doing: str) -> Generator[None]:
    """Turn the client's errors into store errors. doing: "read", "write", "list", "delete" or "describe".

    A missing object passes unchanged: only the caller knows what it means.
    """
    began = time.monotonic()
    try:
        yield
        logger.debug("%s %s: %.3f s", doing, url, time.monotonic() - began)
    except (MarinError, FileNotFoundError):
        raise
    except Exception as error:
        logger.info("%s %s: %r after %.3f s", doing, url, error, time.monotonic() - began)
        raise as_store_error(error, url, doing) from error


def as_store_error(error: Exception, url: str, doing: str) -> MarinError:
    code, message = code_of(error), _message(error)
    if code in REFUSED:
        how = CREDENTIALS[url.split("://", 1)[0]]
        return BadPrefix(
            f"{url}: the store refused to {doing} it ({message}); check that this account may {doing} there ({how}), "
            "or --prefix"
        )
    if code in FULL:
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
