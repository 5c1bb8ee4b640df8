"""Real HTTP servers for download tests: one that breaks connections, one that speaks the hub's endpoints."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Trouble(BaseHTTPRequestHandler):
    """A server that first answers a path with its ``troubles``, one for each request.

    A trouble is a status with headers; status 0 is no trouble. log: the path and range of each request.
    """

    protocol_version = "HTTP/1.1"
    troubles: dict[str, list[tuple[int, dict[str, str]]]]
    log: list[tuple[str, str]]

    def in_trouble(self) -> bool:
        self.log.append((self.path, self.headers.get("Range", "")))
        waiting = self.troubles.get(self.path)
        if not waiting:
            return False
        status, headers = waiting.pop(0)
        if not status:
            return False
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", "0")
        self.end_headers()
        return True

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


class FileServer(Trouble):
    """Serves ``files`` with range requests. Each path's first ``breaks`` answers stop half-way.

    etags: whether it tells one of each file, and starts over for who has a part of another version.
    """

    files: dict[str, bytes]
    breaks: dict[str, int]
    ranges: bool
    etags: bool = False

    def do_GET(self) -> None:
        if self.in_trouble():
            return
        asked = self.headers.get("Range", "")
        content = self.files.get(self.path)
        if content is None:
            self.send_error(404)
            return
        etag = f'"{hashlib.md5(content).hexdigest()}"'
        if self.headers.get("If-Range", etag) != etag:
            asked = ""
        start = int(re.fullmatch(r"bytes=(\d+)-", asked).group(1)) if asked and self.ranges else 0  # type: ignore[union-attr]
        if start >= len(content) and asked and self.ranges:
            self.send_error(416)
            return
        body = content[start:]
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(body)))
        if self.etags:
            self.send_header("ETag", etag)
        self.end_headers()
        if self.breaks.get(self.path, 0):
            self.breaks[self.path] -= 1
            self.wfile.write(body[: len(body) // 2])
            self.close_connection = True
        else:
            self.wfile.write(body)


class PageServer(BaseHTTPRequestHandler):
    """Serves ``files`` with HEAD, and for each folder a page of links. etags: whether it tells one of each file."""

    protocol_version = "HTTP/1.1"
    files: dict[str, bytes]
    etags: bool = True

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, body: bool) -> None:
        content = self.files.get(self.path)
        if content is None and self.path.endswith("/"):
            links = [name.removeprefix(self.path) for name in self.files if name.startswith(self.path)]
            content = "".join(f'<a href="{name}">{name}</a>' for name in links).encode()
        self.send_response(404 if content is None else 200)
        content = content or b""
        if self.etags:
            self.send_header("ETag", f'"{hashlib.md5(content).hexdigest()}"')
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if body:
            self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


class HubServer(Trouble):
    """The part of the Hugging Face hub that downloads of a dataset or a tokenizer need; one repository, one commit.

    breaks: how many answers of a file stop after so many bytes.
    """

    troubles: dict[str, list[tuple[int, dict[str, str]]]] = {}  # noqa: RUF012
    log: list[tuple[str, str]] = []  # noqa: RUF012
    breaks: dict[str, tuple[int, int]] = {}  # noqa: RUF012
    repo: str
    revision: str
    files: dict[str, bytes]
    large: frozenset[str]  # stored in LFS: these have a sha256
    lies: frozenset[str]  # served with other bytes than the listing says
    gated: frozenset[str]  # "listing" or "files": where the account is refused, as the hub does at either
    branch: str = ""  # another name of the commit
    token: str = ""  # of the account that may see the repository; "" for everybody

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        if not self.in_trouble():
            self._answer(body=True)

    def _answer(self, body: bool) -> None:
        path = self.path.split("?")[0]
        listing = re.fullmatch(r"/api/(?:datasets|models)/([^/]+/[^/]+)/revision/(\w+)", path)
        file = re.fullmatch(r"/(?:datasets/)?([^/]+/[^/]+)/resolve/(\w+)/(.+)", path)
        found = listing or file
        unknown = self.token and self.headers.get("Authorization") != f"Bearer {self.token}"
        if found is None or found[1] != self.repo or unknown:
            self._send(404, b"{}", {"X-Error-Code": "RepoNotFound"}, body)
        elif ("listing" if listing else "files") in self.gated:
            self._send(403, b"{}", {"X-Error-Code": "GatedRepo"}, body)
        elif found[2] != self.revision and not (listing and found[2] in (self.revision[:7], self.branch)):
            self._send(404, b"{}", {"X-Error-Code": "RevisionNotFound"}, body)
        elif listing:
            siblings = [self._sibling(name, content) for name, content in self.files.items()]
            answer = {"id": self.repo, "sha": self.revision, "siblings": siblings, "tags": [], "private": False}
            answer["cardData"] = {"license": "apache-2.0"}
            self._send(200, json.dumps(answer).encode(), {"Content-Type": "application/json"}, body)
        else:
            content = self.files[found[3]]
            headers = {"ETag": f'"{_git_blob(content)}"', "X-Repo-Commit": self.revision, "Accept-Ranges": "bytes"}
            asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", "")) if body else None
            sent = (content[::-1] if found[3] in self.lies else content)[int(asked[1]) if asked else 0 :]
            times, after = self.breaks.get(found[3], (0, 0))
            self.breaks[found[3]] = (times - 1, after)
            self._send(206 if asked else 200, sent, headers, body, cut=after if body and times > 0 else None)

    def _sibling(self, name: str, content: bytes) -> dict[str, object]:
        entry: dict[str, object] = {"rfilename": name, "size": len(content), "blobId": _git_blob(content)}
        if name in self.large:
            entry["lfs"] = {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 134}
        return entry

    def _send(self, status: int, content: bytes, headers: dict[str, str], body: bool, cut: int | None = None) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if body:
            self.wfile.write(content[:cut])
            self.close_connection = self.close_connection or cut is not None


def _git_blob(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler], **attributes: object) -> Iterator[str]:
    """The base URL of a running server on this machine."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (handler,), attributes))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
