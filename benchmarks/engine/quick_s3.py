"""Serve the part of S3 that a store needs, in memory, with a given delay and no other slowness.

The emulator of the tests does far more. Once it holds 20,000 objects, it takes a quarter of a second for a page of a
listing, so the emulator alone would determine a plan's time.

    python -m benchmarks.engine.quick_s3        prints the port that it listens on
"""

from __future__ import annotations

import asyncio
import bisect
import hashlib
import json
import subprocess
import sys
import urllib.request
from collections import Counter
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from email.utils import formatdate
from typing import NamedTuple
from xml.sax.saxutils import escape

from aiohttp import web

from tests.support.servers import environment_set

PAGE = 1000  # entries, as S3's
WHEN = "2026-01-01T00:00:00.000Z"


class Object(NamedTuple):
    content: bytes
    etag: str


class QuickS3:
    """One bucket of any name. delay: seconds before each answer."""

    def __init__(self) -> None:
        self.objects: dict[str, Object] = {}
        self.keys: list[str] = []
        self.delay = 0.0
        self.calls: Counter[str] = Counter()

    async def handle(self, request: web.Request) -> web.Response:
        key = request.match_info.get("key", "")
        await asyncio.sleep(self.delay)
        if request.method == "PUT":
            self.calls["write"] += 1
            return self.put(key, await request.read(), request.headers)
        if not key:
            self.calls["list"] += 1
            return self.page(request.query)
        self.calls["read"] += 1
        held = self.objects.get(key)
        if held is None:
            return refused(404, "NoSuchKey")
        headers = {"ETag": held.etag, "Last-Modified": formatdate(0, usegmt=True)}
        return web.Response(body=held.content, headers=headers)

    def put(self, key: str, content: bytes, headers: Mapping[str, str]) -> web.Response:
        held = self.objects.get(key)
        if headers.get("If-None-Match") == "*" and held is not None:
            return refused(412, "PreconditionFailed")
        if "If-Match" in headers and (held is None or held.etag != headers["If-Match"]):
            return refused(412, "PreconditionFailed")
        if held is None and key:
            bisect.insort(self.keys, key)
        self.objects[key] = Object(content, f'"{hashlib.md5(content).hexdigest()}"')
        return web.Response(headers={"ETag": self.objects[key].etag})

    def page(self, asked: Mapping[str, str]) -> web.Response:
        prefix, delimiter = asked.get("prefix", ""), asked.get("delimiter", "")
        most = min(PAGE, int(asked.get("max-keys", PAGE)))
        at = bisect.bisect_left(self.keys, max(prefix, asked.get("continuation-token", "")))
        said: list[str] = []
        while at < len(self.keys) and self.keys[at].startswith(prefix) and len(said) < most:
            key = self.keys[at]
            inside, found, _ = key[len(prefix) :].partition(delimiter) if delimiter else (key, "", "")
            if found:
                said.append(f"<CommonPrefixes><Prefix>{escape(prefix + inside + found)}</Prefix></CommonPrefixes>")
                at = bisect.bisect_left(self.keys, f"{prefix}{inside}{found}\U0010ffff", at)
                continue
            held = self.objects[key]
            facts = (
                f"<LastModified>{WHEN}</LastModified><ETag>{escape(held.etag)}</ETag><Size>{len(held.content)}</Size>"
            )
            said.append(f"<Contents><Key>{escape(key)}</Key>{facts}</Contents>")
            at += 1
        more = at < len(self.keys) and self.keys[at].startswith(prefix)
        said += [f"<KeyCount>{len(said)}</KeyCount>", f"<IsTruncated>{str(more).lower()}</IsTruncated>"]
        if more:
            said.append(f"<NextContinuationToken>{escape(self.keys[at])}</NextContinuationToken>")
        return answer(200, f"<ListBucketResult>{''.join(said)}</ListBucketResult>")

    async def control(self, request: web.Request) -> web.Response:
        """PUT: the delay from now on, and a fresh count. GET: the counts."""
        if request.method == "PUT":
            self.delay, self.calls = float(await request.text()), Counter()
        return web.json_response(self.calls)


def answer(status: int, xml: str) -> web.Response:
    return web.Response(status=status, text=f"<?xml version='1.0'?>{xml}", content_type="application/xml")


def refused(status: int, code: str) -> web.Response:
    return answer(status, f"<Error><Code>{code}</Code></Error>")


async def serve() -> None:
    served = QuickS3()
    application = web.Application(client_max_size=1 << 30)
    application.router.add_route("*", "/-/control", served.control)
    application.router.add_route("*", "/{bucket}/{key:.*}", served.handle)
    application.router.add_route("*", "/{bucket}", served.handle)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, backlog=1024).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


class Serving(NamedTuple):
    url: str

    def delay(self, seconds: float) -> None:
        request = urllib.request.Request(f"{self.url}/-/control", str(seconds).encode(), method="PUT")
        urllib.request.urlopen(request).close()

    def calls(self) -> dict[str, int]:
        with urllib.request.urlopen(f"{self.url}/-/control") as said:
            return json.load(said)


@contextmanager
def quick_s3() -> Generator[Serving]:
    """The server in a process of its own, and this process's environment set for it."""
    command = [sys.executable, "-m", "benchmarks.engine.quick_s3"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    url = f"http://127.0.0.1:{server.stdout.readline().strip()}"
    variables = {
        "AWS_ENDPOINT_URL_S3": url,
        "AWS_ACCESS_KEY_ID": "benchmark",
        "AWS_SECRET_ACCESS_KEY": "benchmark",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    try:
        with environment_set(variables):
            yield Serving(url)
    finally:
        server.kill()
        server.wait()


if __name__ == "__main__":
    asyncio.run(serve())
