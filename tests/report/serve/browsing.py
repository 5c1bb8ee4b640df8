"""A served store, asked over HTTP as a browser would."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from html.parser import HTMLParser
from urllib.parse import urljoin, urlsplit

from marin.report.serve.server import Server
from marin.store.store import open_store
from tests.report.reading import Reading


@dataclass(frozen=True)
class Reply:
    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def read(self) -> Reading:
        return Reading(self.text.removeprefix("<!DOCTYPE html>"))


class Browser:
    def __init__(self, address: str) -> None:
        self.address = address
        self.base = urlsplit(address).path

    def ask(self, target: str, method: str = "GET", hosts: tuple[str, ...] | None = None) -> Reply:
        """target: as it stands in the request, with the secret or without."""
        place = urlsplit(self.address)
        connection = http.client.HTTPConnection(place.hostname or "", place.port or 0, timeout=60)
        connection.putrequest(method, target, skip_host=True)
        for host in hosts if hosts is not None else (place.netloc,):
            connection.putheader("Host", host)
        connection.endheaders()
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return Reply(answer.status, dict(answer.getheaders()), text)

    def get(self, path: str = "", expect: int = 200) -> Reply:
        """path: below the secret part."""
        reply = self.ask(self.base + path)
        assert reply.status == expect, (path, reply.status, reply.text[-2000:])
        return reply

    def crawl(self, *starts: str, most: int = 400) -> dict[str, Reply]:
        """Return every page that links and forms reach, by path below the secret part; assert that each exists."""
        pending, found = list(starts or [""]), dict[str, Reply]()
        while pending and len(found) < most:
            path = pending.pop(0)
            if path in found:
                continue
            found[path] = self.get(path)
            links = _Links()
            links.feed(found[path].text)
            for link in links.found:
                target = urljoin(self.base + path, link)
                if target.startswith(self.base):
                    pending.append(target.removeprefix(self.base).partition("#")[0])
                else:
                    assert not target.startswith("/"), (path, link)
        return found


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value for name, value in attrs if name in ("href", "action") and value]


@contextmanager
def served(prefix: str) -> Generator[Browser]:
    """In a thread of this process, as ``memory://`` stores need it."""
    server = Server(open_store(prefix), 0)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield Browser(server.address)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
