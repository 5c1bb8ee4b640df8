"""The clients of object stores: one for each process and scheme, made when first needed.

The server and the account come from the clients' own environment and files (``AWS_…``,
``GOOGLE_APPLICATION_CREDENTIALS``, ``STORAGE_EMULATOR_HOST`` …, ``FSSPEC_…``), never from marin.
"""

# pyright: basic

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Coroutine
from typing import Any

from marin.errors import BadPrefix, missing_dependency
from marin.store.objects.answers import answered, no_bucket
from marin.store.objects.conditional import StoreCalls
from marin.store.objects.plain import PlainCalls

REMOTE = ("gs", "s3")
CONNECT_SECONDS, ANSWER_SECONDS = 10, 60
IN_FLIGHT = 64  # concurrent calls of one read_many or one transfer

_lock = threading.Lock()
_clients: dict[tuple[int, str], Any] = {}


def scheme_of(url: str) -> str:
    return url.split("://", 1)[0]


def path_of(url: str) -> str:
    """Return the path of a URL as the client of its scheme writes it."""
    scheme, _, rest = url.partition("://")
    return rest.rstrip("/") if scheme in REMOTE else client(scheme)._strip_protocol(url).rstrip("/")


def client(scheme: str) -> Any:
    """Return the fsspec file system of a scheme. A forked process gets its own.

    Raises MissingDependency, or BadPrefix if the client cannot be set up.
    """
    key = os.getpid(), scheme
    found = _clients.get(key)
    if found is None:
        with _lock:
            found = _clients.get(key) or _make(scheme)
            _clients[key] = found
    return found


def calls(scheme: str) -> StoreCalls:
    """Return the client of a scheme as single calls on its event loop."""
    if scheme == "gs":
        from marin.store.objects.gcs import GoogleCalls

        return GoogleCalls(client(scheme))
    if scheme == "s3":
        from marin.store.objects.s3 import AmazonCalls

        return AmazonCalls(client(scheme))
    return PlainCalls(client(scheme))


def on_loop[T](work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on the clients' event loop, in the loop's own thread, and return its result."""
    from fsspec.asyn import get_loop, sync

    async def awaited() -> T:
        return await work

    return sync(get_loop(), awaited)  # pyright: ignore[reportReturnType]


def ask(url: str, doing: str, call: str, *arguments: Any) -> Any:
    """Make one call of ``StoreCalls``, or a bucket's ``location``, for a URL. doing: see ``answered``.

    Raises BadPrefix for a missing bucket.
    """
    store, path = calls(scheme_of(url)), path_of(url)
    with answered(url, doing):
        try:
            return on_loop(getattr(store, call)(path, *arguments))
        except FileNotFoundError as error:
            if call == "info":
                raise
            raise no_bucket(url) from error


def _make(scheme: str) -> Any:
    if scheme not in REMOTE:
        import fsspec

        return fsspec.filesystem(scheme)
    package = {"gs": "gcsfs", "s3": "s3fs"}[scheme]
    try:
        files = _google() if scheme == "gs" else _amazon()
    except ImportError as error:
        raise missing_dependency(error, f"a store on {scheme}://") or error from error
    except Exception as error:
        raise BadPrefix(f"{package} cannot be set up: {error}; check its settings in the environment") from error
    # The client both logs and raises an error that it gives up on, with a traceback.
    logging.getLogger(package).addHandler(logging.NullHandler())
    return files


def _google() -> Any:
    import aiohttp
    import fsspec
    from fsspec.config import conf

    given = conf.get("gs", {})
    options: dict[str, Any] = {
        # The timeout is between two bytes, not for a whole file. gcsfs tries 6 times, up to half a minute in all.
        "requests_timeout": aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=ANSWER_SECONDS),
        "consistency": "md5",  # compare the sent bytes with the checksum that the server reports
    }
    return fsspec.filesystem("gs", use_listings_cache=False, **(options | given))


def _amazon() -> Any:
    import s3fs.core
    from fsspec.config import conf

    from marin.store.objects.s3 import OneClient

    given = dict(conf.get("s3", {}))
    settings: dict[str, Any] = {"max_pool_connections": 2 * IN_FLIGHT}
    if "AWS_MAX_ATTEMPTS" not in os.environ and "AWS_RETRY_MODE" not in os.environ:
        settings["retries"] = {"mode": "standard", "max_attempts": 3}
    settings |= given.pop("config_kwargs", {})
    files = OneClient(use_listings_cache=False, config_kwargs=settings, **given)
    files.retries = 8  # s3fs's own retries, around botocore's: up to half a minute in all
    s3fs.core.set_custom_error_handler(_is_passing)
    return files


def _is_passing(error: Exception) -> bool:
    """Is this error temporary, by its HTTP status? botocore knows only the error codes of Amazon's servers."""
    response: Any = getattr(error, "response", None)
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode") if isinstance(response, dict) else None
    return status in (408, 429, 500, 502, 503, 504)
