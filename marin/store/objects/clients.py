"""The clients of object stores: one for each process and scheme, made when first needed.

The server and the account come from the clients' own environment and files (``AWS_…``,
``GOOGLE_APPLICATION_CREDENTIALS``, ``STORAGE_EMULATOR_HOST`` …, ``FSSPEC_…``), never from marin.
"""

# pyright: basic

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from marin.errors import BadPrefix, missing_dependency
from marin.store.objects.errors import answered, code_of, no_bucket

REMOTE = ("gs", "s3")
CONNECT_SECONDS, ANSWER_SECONDS = 10, 60
IN_FLIGHT = 64  # concurrent reads of one call
TAKEN = {"PreconditionFailed", "412", "ConditionalRequestConflict", "409"}  # S3: there is one, or somebody creates one
# gcsfs sends a small object between bare newlines and this mark. Google may take the mark, or a carriage return before
# it, for the end of the content. A chunk as large as the content is sent alone, in a second request.
FRAME = b"\n--==0=="

# By process. A forked process keeps its parent's clients, unused: to drop one would close the parent's connections.
_clients: dict[tuple[int, str], Any] = {}
_used: set[tuple[int, str]] = set()  # clients that have had an answer
_locks: dict[int, threading.RLock] = {}  # a thread of the parent may hold the parent's lock for ever


@contextmanager
def asking(url: str, doing: str, *, may_be_absent: bool = False) -> Generator[tuple[Any, str]]:
    """Lend the client of a URL, and the URL's path as the client writes it, for one call.

    Turns the client's errors into store errors. doing: see ``answered``. may_be_absent: the object may be missing, and
    not only its bucket. Raises BadPrefix for a missing bucket, FileNotFoundError for a missing object.
    """
    with answered(url, doing), _in_turn(scheme_of(url)):
        try:
            yield client(scheme_of(url)), path_of(url)
        except FileNotFoundError as error:
            if may_be_absent and code_of(error) != "NoSuchBucket":
                raise FileNotFoundError(f"{url} does not exist") from error
            raise no_bucket(url) from error


def read_at_once(url: str, ranges: Sequence[tuple[str, int | None, int | None]]) -> list[bytes | None]:
    """Read many (path, start, stop) of one store side by side, in their order. None stands in for an absent object."""
    alone = 0 if (os.getpid(), scheme_of(url)) in _used else 1  # the first call of a process: see _in_turn
    found: list[bytes | None] = []
    for part in (ranges[:alone], ranges[alone:]):
        if part:
            paths, starts, stops = (list(column) for column in zip(*part, strict=True))
            with asking(url, "read", may_be_absent=True) as (files, _):
                contents = files.cat_ranges(paths, starts, stops, on_error="return", batch_size=IN_FLIGHT)
            found += [_content(url, path, content) for path, content in zip(paths, contents, strict=True)]
    return found


def _content(url: str, path: str, content: bytes | Exception) -> bytes | None:
    """Return the content; None if it is the error of an absent object. Raises other errors as store errors."""
    if isinstance(content, Exception):
        with suppress(FileNotFoundError), asking(f"{scheme_of(url)}://{path}", "read", may_be_absent=True):
            raise content
        return None
    return content


def send(url: str, content: bytes, *, only_if_absent: bool = False) -> bool:
    """Write an object in one call. Return False if it was to be created (``only_if_absent``) and there may be one."""
    options: dict[str, Any] = {"mode": "create"} if only_if_absent else {}
    if scheme_of(url) == "gs" and (content.endswith(b"\r") or FRAME in content):
        options["chunksize"] = len(content)
    with asking(url, "write") as (files, path):
        try:
            files.pipe_file(path, content, **options)
        except OSError as error:
            if only_if_absent and (isinstance(error, FileExistsError) or code_of(error) in TAKEN):
                return False
            raise
    return True


def scheme_of(url: str) -> str:
    return url.split("://", 1)[0]


def path_of(url: str) -> str:
    """Return the path of a URL as the client of its scheme writes it."""
    scheme, _, rest = url.partition("://")
    if scheme in REMOTE:
        return rest.rstrip("/")
    if scheme == "memory":
        return f"/{rest.strip('/')}"
    import fsspec

    return fsspec.url_to_fs(url)[1].rstrip("/")


def client(scheme: str) -> Any:
    """Return the fsspec file system of a scheme. A forked process gets its own.

    Raises MissingDependency, or BadPrefix if the client cannot be set up.
    """
    key = os.getpid(), scheme
    if key not in _clients:
        with _lock():
            if key not in _clients:
                _clients[key] = _make(scheme)
    return _clients[key]


@contextmanager
def _in_turn(scheme: str) -> Generator[None]:
    """Let the first call of a process end before the others start.

    s3fs 2026.2 makes a client for each call that starts before the first answer, at 4 MB and a third of a second each
    (its issue 1019).
    """
    key = os.getpid(), scheme
    if key not in _used:
        with _lock():
            if key not in _used:
                try:
                    yield
                finally:
                    _used.add(key)
                return
    yield


def _lock() -> threading.RLock:
    return _locks.setdefault(os.getpid(), threading.RLock())


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
    import fsspec
    import s3fs.core
    from fsspec.config import conf

    given = dict(conf.get("s3", {}))
    settings: dict[str, Any] = {"max_pool_connections": 2 * IN_FLIGHT}
    if "AWS_MAX_ATTEMPTS" not in os.environ and "AWS_RETRY_MODE" not in os.environ:
        settings["retries"] = {"mode": "standard", "max_attempts": 3}
    settings |= given.pop("config_kwargs", {})
    files = fsspec.filesystem("s3", use_listings_cache=False, config_kwargs=settings, **given)
    files.retries = 8  # s3fs's own retries, around botocore's: up to half a minute in all
    s3fs.core.set_custom_error_handler(_is_passing)
    return files


def _is_passing(error: Exception) -> bool:
    """Is this error temporary, by its HTTP status? botocore knows only the error codes of Amazon's servers."""
    response: Any = getattr(error, "response", None)
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode") if isinstance(response, dict) else None
    return status in (408, 429, 500, 502, 503, 504)
