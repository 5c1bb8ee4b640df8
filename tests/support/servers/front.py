"""The front of a store's server: it applies the rules to every call and forwards the call to an emulator."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from dataclasses import replace
from typing import Any

import aiohttp
from aiohttp import web

from tests.support.servers import generations
from tests.support.servers.calls import Call, Kind, Operation, read_call
from tests.support.servers.generations import Answer, Request
from tests.support.servers.rules import Act, Rule, rule_from_json

CONTROL = "/-/control"
CHANGES = {Operation.WRITE, Operation.BEGIN, Operation.PART, Operation.DELETE}
HOP = {"connection", "keep-alive", "transfer-encoding", "content-encoding", "expect"}
UPSTREAM_CONNECTIONS = 4  # the emulator listens with a backlog of 5
S3_CODES = {403: "AccessDenied", 404: "NoSuchKey", 429: "TooManyRequests", 500: "InternalError", 503: "SlowDown"}


class Front:
    """upstream: address of the emulator."""

    def __init__(self, kind: Kind, upstream: str) -> None:
        self.kind, self.upstream = kind, upstream
        self.rules: list[Rule] = []
        self.seen: list[tuple[str, str, int]] = []
        self.served: list[tuple[str, int]] = []  # (object, bytes of its content) of each read
        self.in_flight = self.most_in_flight = 0
        self.locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self.locations: dict[str, str] = {}  # of buckets
        self.session: aiohttp.ClientSession | None = None

    async def start(self) -> int:
        """The port that it listens on."""
        connections = aiohttp.TCPConnector(limit=UPSTREAM_CONNECTIONS, force_close=self.kind is Kind.GS)
        self.session = aiohttp.ClientSession(connector=connections, auto_decompress=False)
        application = web.Application(client_max_size=4 << 30)
        application.router.add_route("*", CONTROL, self.control)
        application.router.add_route("*", "/{anything:.*}", self.handle)
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, backlog=1024)
        await site.start()
        return runner.addresses[0][1]

    async def control(self, request: web.Request) -> web.Response:
        """PUT: these rules from now on, and a fresh count. GET: the counts."""
        if request.method == "PUT":
            self.rules = [rule_from_json(data) for data in await request.json()]
            self.seen, self.served, self.most_in_flight = [], [], 0
        return web.json_response({"seen": self.seen, "served": self.served, "most_in_flight": self.most_in_flight})

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        asked = Request(request.method, request.rel_url.raw_path, dict(request.query), dict(request.headers), body)
        call = read_call(self.kind, asked.method, asked.path, asked.query, asked.headers, body)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            given = await self.obey(asked, call)
        finally:
            self.in_flight -= 1
        self.seen.append((call.operation.value, call.name, given.status if given else 0))
        if call.operation is Operation.READ and given is not None and given.status in (200, 206):
            self.served.append((call.name, len(given.body)))
        if given is None:
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        headers = {name: held for name, held in given.headers.items() if name.lower() not in HOP}
        if asked.method != "HEAD":
            headers.pop("Content-Length", None)
            return web.Response(status=given.status, headers=headers, body=given.body)
        return web.Response(status=given.status, headers=headers)

    async def obey(self, asked: Request, call: Call) -> Answer | None:
        """None: the connection is to be closed without an answer."""
        rules = [rule for rule in self.rules if rule.applies(call)]
        for rule in rules:
            match rule.act:
                case Act.DELAY:
                    await asyncio.sleep(rule.seconds)
                case Act.HANG:
                    await asyncio.Event().wait()
                case Act.CUT:
                    return None
                case Act.ANSWER:
                    return self.refusal(rule.status, call)
                case Act.IGNORE_CONDITIONS:
                    asked = generations.unconditional(asked)
                case Act.PAGES:
                    size = {"gs": "maxResults", "s3": "max-keys"}[self.kind]
                    asked = replace(asked, query={**asked.query, size: str(rule.size)})
                case _:
                    continue
        given = await self.forward(asked, call)
        for rule in rules:
            if rule.act is Act.HIDE:
                given = generations.hide(given, rule.hidden)
        return None if any(rule.act is Act.LOSE for rule in rules) else given

    async def forward(self, asked: Request, call: Call) -> Answer:
        if call.operation not in CHANGES:
            return await self.ask_as_needed(asked, call)
        async with self.locks[f"{call.bucket}/{call.name}"]:
            return await self.ask_as_needed(asked, call)

    async def ask_as_needed(self, asked: Request, call: Call) -> Answer:
        if self.kind is Kind.GS and call.operation is not Operation.OTHER:
            return await generations.answer(self.ask, asked, call)
        given = await self.ask(asked)
        return generations.located(asked, given, self.locations) if self.kind is Kind.GS else given

    async def ask(self, asked: Request) -> Answer:
        assert self.session is not None
        headers = {name: held for name, held in asked.headers.items() if name.lower() not in HOP}
        headers["Content-Length"] = str(len(asked.body))
        from yarl import URL

        url = URL(self.upstream + asked.target, encoded=True)
        async with self.session.request(asked.method, url, headers=headers, data=asked.body) as given:
            return Answer(given.status, dict(given.headers), await given.read())

    def refusal(self, status: int, call: Call) -> Answer:
        said = f"told by a test to answer {status}"
        if self.kind is Kind.GS:
            return generations.refusal(status, said)
        code = S3_CODES.get(status, "Unknown")
        body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{said}</Message><Key>{call.name}</Key></Error>"
        return Answer(status, {"Content-Type": "application/xml"}, body.encode())


async def serve(kind: Kind, upstream: str, ready: Any) -> None:
    """ready(port) is called once it listens."""
    ready(await Front(kind, upstream).start())
    await asyncio.Event().wait()


def as_json(rules: list[Rule]) -> str:
    return json.dumps([rule.to_json() for rule in rules])
