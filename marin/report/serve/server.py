"""An HTTP server on loopback: which requests it answers, and what each answer forbids the browser."""

from __future__ import annotations

import hmac
import logging
import re
import secrets
import sys
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote

from marin.report.serve.site import Answer, Site
from marin.store.redaction import redacted
from marin.store.store import Store

LOG = logging.getLogger(__name__)
HOST = "127.0.0.1"
# Any port is fine, because a tunnel (ssh -L) has another one. A web page elsewhere whose name resolves to 127.0.0.1
# sends its own name here, and is refused.
LOOPBACK = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:\d{1,5})?", re.IGNORECASE)
HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
SILENCE_SECONDS = 60  # after which a browser that neither sends nor reads is disconnected


class Server(ThreadingHTTPServer):
    """A server at ``address``, whose first part is a secret. Raises OSError if the port is not available."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, store: Store, port: int) -> None:
        """port: 0 for any free one."""
        super().__init__((HOST, port), _Handler)
        self.token = secrets.token_urlsafe(32)
        self.site = Site(store, f"/{self.token}/")

    @property
    def address(self) -> str:
        return f"http://{HOST}:{self.server_port}{self.site.base}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log any error in a line without the address. A browser that disconnected is no error."""
        error = sys.exception()
        if not isinstance(error, ConnectionError | TimeoutError):
            LOG.error(redacted(f"{type(error).__name__}: {error}").replace(self.token, "…"))


class _Handler(BaseHTTPRequestHandler):
    timeout = SILENCE_SECONDS
    server: Server  # pyright: ignore[reportIncompatibleVariableOverride]

    def do_GET(self) -> None:
        hosts = self.headers.get_all("Host") or []
        path, _, query = self.path.partition("?")
        parts = [unquote(part, errors="surrogateescape") for part in path.split("/")[1:]]
        if len(hosts) != 1 or not LOOPBACK.fullmatch(hosts[0].strip()):
            self.send_error(HTTPStatus.MISDIRECTED_REQUEST, "this server answers only as 127.0.0.1 or localhost")
        elif not path.startswith("/") or not hmac.compare_digest(_bytes(parts[0]), _bytes(self.server.token)):
            self.send_error(HTTPStatus.FORBIDDEN, "open the whole address that `marin serve` printed")
        else:
            self._send(self.server.site.answer(parts[1:], parse_qs(query, errors="surrogateescape")))

    do_HEAD = do_GET

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        if code == HTTPStatus.NOT_IMPLEMENTED:  # the parent's answer to a method without a do_…
            code, message = HTTPStatus.METHOD_NOT_ALLOWED, "this server is read-only; use GET or HEAD"
        text = message or HTTPStatus(code).phrase
        self._send(Answer(f"{text}\n".encode(errors="replace"), status=code, kind="text/plain; charset=utf-8"))

    def _send(self, answer: Answer) -> None:
        self.send_response(answer.status)
        for name, value in {**HEADERS, "Content-Security-Policy": answer.policy, "Content-Type": answer.kind}.items():
            self.send_header(name, value)
        if answer.status == HTTPStatus.METHOD_NOT_ALLOWED:
            self.send_header("Allow", "GET, HEAD")
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    def version_string(self) -> str:
        return "marin"

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: the address is a secret."""


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogateescape")
