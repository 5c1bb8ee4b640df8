"""Fetch a file over HTTP to its full length, in as many requests as necessary."""

# pyright: basic
from __future__ import annotations

import http.client
import shutil
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from urllib.error import HTTPError

from marin.data.retrying import PASSING, Tries, retry_after
from marin.errors import InputError, MarinError

CHUNK = 1 << 20
TIMEOUT = 60


class _SameServer(urllib.request.HTTPRedirectHandler):
    """A redirect handler that passes the login on only to the same server."""

    def redirect_request(self, req, fp, code, msg, headers, newurl):
        following = super().redirect_request(req, fp, code, msg, headers, newurl)
        login = req.unredirected_hdrs.get("Authorization")
        if following is not None and login and _server(newurl) == _server(req.full_url):
            following.add_unredirected_header("Authorization", login)
        return following


def _server(url: str) -> tuple[str, str]:
    parts = urllib.parse.urlsplit(url)
    return parts.scheme, parts.netloc


def _refused(url: str, error: HTTPError) -> MarinError:
    return InputError(f"{url}: the server answered {error.code} {error.reason}; check the URL, or log in if it asks")


def bring(
    url: str,
    part: Path,
    *,
    login: str,
    pinned: bool,
    refused: Callable[[str, HTTPError], MarinError] = _refused,
) -> None:
    """Fetch the missing bytes of ``part`` until it has the full length of the file at the URL.

    login: for the header Authorization, or "". pinned: whether the caller verifies a checksum. If not, bytes that
    may come from two versions of the file are never joined. refused: makes the error for a permanent refusal.
    Raises InputError after too many tries.
    """
    tries = Tries(url)
    while True:
        have, status, asked = _size(part), 0, None
        try:
            if _receive(url, part, have, login, pinned):
                return
            problem = "the connection closed early"
        except HTTPError as error:
            status, asked = error.code, retry_after(dict(error.headers))
            problem = f"the server answered {error.code} {error.reason}"
            if status == 416 and have:  # the server has no bytes after ours, or the file shrank
                part.unlink()
            elif status not in PASSING:
                raise refused(url, error) from error
        except (urllib.error.URLError, http.client.HTTPException, ConnectionError, TimeoutError) as error:
            problem = str(getattr(error, "reason", error)) or type(error).__name__
        now = _size(part)
        tries.failed(problem, status=status, asked=asked, grown=now > have, goes_on=f"go on from byte {now}")


def _receive(url: str, part: Path, have: int, login: str, pinned: bool) -> bool:
    """Make one request. Returns True if all announced bytes have arrived."""
    seen = part.with_suffix(".version")
    version = seen.read_text() if have and seen.exists() else ""
    if have and not version and not pinned:
        have = 0  # the rest might belong to another version, and nothing would tell
    headers = {"Range": f"bytes={have}-"} | ({"If-Range": version} if version else {}) if have else {}
    request = urllib.request.Request(url, headers=headers)
    if login:
        request.add_unredirected_header("Authorization", login)
    with urllib.request.build_opener(_SameServer).open(request, timeout=TIMEOUT) as response:
        if have and response.status != 206:  # the server starts over, or the file has changed
            have = 0
        announced = response.headers.get("Content-Length")
        total = have + int(announced) if announced is not None else None
        part.parent.mkdir(parents=True, exist_ok=True)
        etag = response.headers.get("ETag", "")
        seen.write_text(etag if etag.startswith('"') else response.headers.get("Last-Modified", ""))
        with part.open("ab" if have else "wb") as handle:
            shutil.copyfileobj(response, handle, CHUNK)
            size = handle.tell()
    return total is None or size == total


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
